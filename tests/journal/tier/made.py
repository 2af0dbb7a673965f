"""What the tests of the tier share: numbered records, journals, what stands in a tier, and a server of S3."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from hub.journal.block import Block, Record, pack
from hub.journal.selection import Selection
from peers.journal.store import Segmenting, Store
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.files import TierFiles, data_name
from peers.journal.tier.parquet import Opened, blocks_of
from peers.journal.tier.place import Place
from peers.journal.tier.tiering import Progress
from peers.journal.view import View
from tests.journal.files import ALL, AT_US, fill, numbered, opened, records

JOURNAL = bytes(range(16))
FOR_EVER = TierRetention(0, 0)


def blocks(count: int, first: int = 0, *, topics: int = 3, padding: int = 0, each: int = 32) -> list[Block]:
    made: list[Block] = []
    for begin in range(first, first + count, each):
        numbers = range(begin, min(begin + each, first + count))
        parts = [(AT_US + number * 1_000_000, numbered([number], topics=topics, padding=padding)) for number in numbers]
        made += [Block.parse(one) for one in pack(parts, begin)]
    return made


def journal(path: Path, *counts: int, padding: int = 0) -> Path:
    store = opened(path, segment_bytes=1)
    fill(store, *counts, padding=padding)
    store.close()
    store = opened(path)
    fill(store, 5, padding=padding)
    store.close()
    return path


def copied(place: Place, journal_id: bytes) -> list[Record]:
    held = files_of(place, journal_id)
    found: list[Record] = []
    for entry in held.entries():
        with place.open(data_name(journal_id, entry)) as file:
            read = Opened(file, entry, journal_id)
            read.check()
            for number in range(len(read.stripes)):
                found += records(blocks_of(read.table(number, read.groups(number, Selection([""])))))
    return found


def id_of(path: Path) -> bytes:
    with closing(View(str(path))) as view:
        return view.id


def fill_untidily(path: Path, *counts: int) -> None:
    segmenting = Segmenting(1, 1 << 60)
    store = Store(str(path), full_sync=False, retention=ALL, segmenting=segmenting)
    fill(store, *counts, padding=10)
    store.close()


def files_of(place: Place, journal_id: bytes) -> TierFiles:
    held = TierFiles(place, journal_id)
    held.refresh()
    return held


REGION = "us-east-1"
_numbers = count()  # of buckets: all servers of a process hold the same ones


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


def copy(path: Path, place: Place, retention: TierRetention = FOR_EVER, now_us: int = AT_US) -> Progress:
    with closing(Copier(str(path), place, retention)) as copier:
        while copier.step(now_us):
            pass
        progress = copier.progress()
        assert progress is not None
        return progress
