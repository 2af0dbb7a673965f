"""The real hub as a process of its own, for tests that go all the way: `python -m peers.cli run`."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.forked.program import Program

START_S = 30
"""How long a hub may take to listen."""


class RealHub(NamedTuple):
    port: int

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/hub"

    @property
    def page_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def run_hub(*flags: str) -> Iterator[RealHub]:
    command = ("run", "--listen", "ws://127.0.0.1:0", *flags)
    process = Program(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    with process, process.stdout as output:
        impatience = threading.Timer(START_S, process.kill)
        impatience.start()
        try:
            said = []
            for line in output:
                said.append(line)
                found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
                if found:
                    break
            else:
                raise RuntimeError(f"the hub did not start: {''.join(said)}")
            impatience.cancel()
            rest = threading.Thread(target=output.read, daemon=True)  # a full pipe would stop the hub
            rest.start()
            yield RealHub(int(found[1]))
        finally:
            impatience.cancel()
            process.terminate()
            process.wait(START_S)
