"""What it costs to read one topic of 40, and all of them, before and after a journal's segments are laid anew.

    python tests/benchmarks/one_topic.py [--messages 2000000] [--repeat 5]

Journals with messages of 40 topics in no order: records as logs have them (100 to 150 bytes of msgpack), the same text
again and again, and noise of 100 bytes, which nothing compresses. What is measured is the CPU time of a reader process
by record of the journal (`View.fetch` in pieces of 1 MiB, from the page cache), and what a client takes that asks a hub
for blocks, by the clock. One after the other; the best of some, since others may share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.batch import Batch
from peers.bench.running_hub import RunningHub
from peers.client import connect
from peers.journal.regroup.regrouper import Regrouper, Stage
from peers.journal.store import Retention, Segmenting, Store
from peers.journal.view import View

_TOPICS = 40
_ONE = "/zeek/site/log07"
_PIECE_BYTES = 1 << 20
_COMMITTED = 10_000
_SEGMENT_BYTES = 32 << 20
_EACH_US = 50

_draw = random.Random(1)  # noqa: S311 -- it is load


def _log(number: int, topic: int) -> object:
    return {
        "ts": 1_700_000_000.0 + number / 1000,
        "uid": f"C{_draw.getrandbits(70):x}",
        "id.orig_h": f"10.0.{_draw.randrange(4)}.{_draw.randrange(250)}",
        "id.resp_p": _draw.choice([53, 80, 443, 22]),
        f"state_{topic}": _draw.choice(["-", "tcp", "SF", number % 1000]),
    }


_KINDS: dict[str, Callable[[int, int], object]] = {
    "records of logs": _log,
    "the same again": lambda _, topic: {"text": "the same text in every message, as heartbeats have it", "of": topic},
    "noise": lambda *_: _draw.randbytes(98),
}


class Row(NamedTuple):
    """What was measured, in ns a record of the journal, and seconds."""

    all_ns: float
    one_ns: float
    client_all_s: float
    client_one_s: float
    size_bytes: int


def make(path: str, kind: Callable[[int, int], object], messages: int) -> None:
    """Record messages of topics in no order."""
    store = Store(
        path, full_sync=False, retention=Retention(1 << 50, 1 << 60), segmenting=Segmenting(bytes=_SEGMENT_BYTES)
    )
    began_us = time.time_ns() // 1000 - messages * _EACH_US
    for first in range(0, messages, _COMMITTED):
        parts = []
        for number in range(first, min(first + _COMMITTED, messages)):
            topic = _draw.randrange(_TOPICS)
            parts.append((began_us + number * _EACH_US, Batch.of(_topic(topic), (kind(number, topic),)).frames))
        store.add(parts)
        store.commit(now_us=0)
    store.skip(store.next)
    store.close()


def _topic(number: int) -> str:
    return f"/zeek/site/log{number:02}"


def lay_anew(path: str) -> float:
    """Have all segments laid anew; return how many seconds of CPU that took."""
    began_s = time.process_time()
    store = Store(path, full_sync=False, retention=Retention(1 << 50, 1 << 60))
    regrouper = Regrouper(path, compresses=True, least_bytes=1)
    while (stage := regrouper.step(lambda: None)) is not Stage.DONE:
        if stage is Stage.OFFERED and regrouper.offered is not None:
            store.laid.append(regrouper.offered)
            store.commit(now_us=0)
    regrouper.close()
    store.close()
    return time.process_time() - began_s


def read(path: str, prefix: str) -> tuple[float, int]:
    """Read what a reader process would; return its CPU time, s, and how many bytes it has found."""
    view = View(path)
    start, end = view.extent
    size = 0
    began_s = time.process_time()
    while start < end:
        piece = view.fetch(start, None, (prefix,), _PIECE_BYTES)
        size += sum(map(len, piece.blocks))
        start = piece.next
    taken_s = time.process_time() - began_s
    view.close()
    return taken_s, size


async def _asked(url: str, prefix: str) -> float:
    async with connect(url) as client:
        began_s = time.perf_counter()
        async for _ in client.read(prefix, start=0).blocks():
            pass
        return time.perf_counter() - began_s


def measure(path: str, messages: int, repeat: int) -> Row:
    """Read all, and one topic, in turn."""
    hub = RunningHub.start(("tcp",), ("--journal", path, "--journal-regroup", "off"))
    try:
        asked = {
            prefix: _best(lambda prefix=prefix: asyncio.run(_asked(hub.url("tcp"), prefix)), repeat)
            for prefix in _wants()
        }
    finally:
        hub.stop()
    taken = {prefix: _best(lambda prefix=prefix: read(path, prefix)[0], repeat) for prefix in _wants()}
    sizes = sum(file.stat().st_size for file in Path(path).glob("*.seg"))
    return Row(taken[""] / messages * 1e9, taken[_ONE] / messages * 1e9, asked[""], asked[_ONE], sizes)


def _wants() -> Iterator[str]:
    yield from ("", _ONE)


def _best(act: Callable[[], float], repeat: int) -> float:
    return min(act() for _ in range(repeat))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    table = Table(
        "messages", "", "all, ns", "one of 40, ns", "client, all, s", "client, one, s", "bytes each", "laid, µs"
    )
    for name, kind in _KINDS.items():
        with tempfile.TemporaryDirectory(prefix="hub-bench-") as folder:
            path = f"{folder}/journal"
            make(path, kind, options.messages)
            before = measure(path, options.messages, options.repeat)
            laid_us = lay_anew(path) / options.messages * 1e6
            after = measure(path, options.messages, options.repeat)
        for text, row in (("as it came", before), ("laid anew", after)):
            cells = (f"{row.all_ns:.0f}", f"{row.one_ns:.1f}", f"{row.client_all_s:.2f}", f"{row.client_one_s:.3f}")
            table.add_row(
                name,
                text,
                *cells,
                f"{row.size_bytes / options.messages:.1f}",
                "" if row is before else f"{laid_us:.2f}",
            )
        ratios = [getattr(after, field) / getattr(before, field) for field in Row._fields]
        table.add_row(
            "",
            "",
            f"x {ratios[0]:.2f}",
            f"1/{1 / ratios[1]:.1f}",
            f"x {ratios[2]:.2f}",
            f"1/{1 / ratios[3]:.1f}",
            "",
            "",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
