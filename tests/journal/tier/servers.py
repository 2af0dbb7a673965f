"""A server of S3 that runs in this process, with one empty bucket."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

REGION = "us-east-1"

_numbers = count()
"""Of buckets: all servers of a process hold the same ones."""


class Bucket:
    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer
        from pyarrow.fs import S3FileSystem

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, self.port = self.server.get_host_and_port()
        endpoint = f"{host}:{self.port}"
        self.name = f"tier{next(_numbers)}"
        self.address = f"s3://{self.name}/some/prefix?endpoint=http://{endpoint}&region={REGION}"
        system = S3FileSystem(endpoint_override=endpoint, scheme="http", region=REGION, allow_bucket_creation=True)
        system.create_dir(self.name)


@contextmanager
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    pytest.importorskip("moto", reason="part of the extra `test`")
    pytest.importorskip("flask", reason="part of the extra `test`")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    made = Bucket()
    try:
        yield made
    finally:
        made.server.stop()
