"""What stores bring, in memory and in a file: puts, reads from a replica, memory, and a snapshot for a new replica.

    python tests/benchmarks/stores.py [--puts 400000] [--entries 1000000]

The hub is a process of its own; this one is the client. Values have 100 bytes in msgpack. Each row says how much was
done in a second, and what the hub's process, and the client's, took of a CPU for each.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from peers.bench.running_hub import RunningHub
from peers.client import Store, connect

_VALUE = "x" * 98
_KEYS = 50_000
_PIECE = 5_000
_MIB = 1024 * 1024


class Row(NamedTuple):
    """What was measured."""

    what: str
    done: int
    seconds: float
    hub_s: float
    client_s: float

    def cells(self) -> tuple[str, ...]:
        """For the table."""
        each = [f"{taken / self.done * 1e6:.2f}" for taken in (self.hub_s, self.client_s)]
        return self.what, f"{self.done:,}", f"{self.done / self.seconds:,.0f}", f"{self.seconds:.2f}", *each


def cpu_s(pid: int) -> float:
    """Return what a process has taken of a CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return how much memory of a process is resident."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Stopwatch:
    """Measures from when it is made."""

    def __init__(self, hub: RunningHub) -> None:
        self._hub = hub
        self._began = time.monotonic(), cpu_s(hub.pid), time.process_time()

    def row(self, what: str, done: int) -> Row:
        """Return what was done since then."""
        began_s, hub_s, client_s = self._began
        return Row(
            what,
            done,
            time.monotonic() - began_s,
            cpu_s(self._hub.pid) - hub_s,
            time.process_time() - client_s,
        )


async def put(hub: RunningHub, store: Store, puts: int) -> list[Row]:
    """Put in three ways: many in a call, one a call, without an answer."""
    rows = []
    watch = Stopwatch(hub)
    for start in range(0, puts, _PIECE):
        await store.put_many([(f"key-{number % _KEYS}", _VALUE) for number in range(start, start + _PIECE)])
    rows.append(watch.row("put_many", puts))
    watch = Stopwatch(hub)
    for _ in range(0, puts // 4, 1_000):
        await asyncio.gather(*(store.put(f"key-{number}", _VALUE) for number in range(1_000)))
    rows.append(watch.row("put, 1,000 at one time", puts // 4))
    watch = Stopwatch(hub)
    for _ in range(puts // 200):
        await store.put("key-0", _VALUE)
    rows.append(watch.row("put, one after the other", puts // 200))
    watch = Stopwatch(hub)
    for _ in range(0, puts // 4, 1_000):
        await asyncio.gather(*(store.increment("number") for _ in range(1_000)))
    rows.append(watch.row("increment, 1,000 at one time", puts // 4))
    return rows


async def put_kept(hub: RunningHub, store: Store, puts: int) -> Row:
    """Put into a store in a file: each answer comes when its puts are written; four pieces are on their way."""
    pieces = iter(range(0, puts, _PIECE))

    async def work() -> None:
        for start in pieces:
            await store.put_many([(f"key-{number % _KEYS}", _VALUE) for number in range(start, start + _PIECE)])

    watch = Stopwatch(hub)
    await asyncio.gather(*(work() for _ in range(4)))
    return watch.row("put_many into a file, 4 at one time", puts)


def read(hub: RunningHub, get: Callable[[str], object], reads: int) -> Row:
    """Read from a replica."""
    watch = Stopwatch(hub)
    for number in range(reads):
        get(f"key-{number % _KEYS}")
    return watch.row("get from a replica", reads)


async def run(puts: int, entries: int) -> tuple[list[Row], int]:
    """Measure all of it; return the rows, and what the entries take of the hub's memory, bytes."""
    folder = tempfile.TemporaryDirectory()
    stores = ("s=:memory:", "big=:memory:", f"file={folder.name}/file.db")
    flags = [part for store in stores for part in ("--store", store)]
    hub = RunningHub.start(("tcp",), (*flags, "--stores-entries", str(entries + 1)))
    try:
        async with connect(hub.url("tcp")) as client, connect(hub.url("tcp")) as other:
            store = client.store("s")
            await store.put("warm", 1)
            rows = await put(hub, store, puts)
            rows.append(await put_kept(hub, client.store("file"), puts))
            async with other.store("s").replica() as replica:
                rows.append(read(hub, replica.get, puts))
                watch = Stopwatch(hub)
                for start in range(0, puts, _PIECE):
                    await store.put_many([(f"key-{number % _KEYS}", _VALUE) for number in range(start, start + _PIECE)])
                await replica.at_least(store.written)
                rows.append(watch.row("put_many, with a replica", puts))
            big = client.store("big")
            before = resident_bytes(hub.pid)
            watch = Stopwatch(hub)
            for start in range(0, entries, _PIECE):
                await big.put_many([(f"key-{number}", _VALUE) for number in range(start, start + _PIECE)])
            rows.append(watch.row("put_many, new entries", entries))
            taken = resident_bytes(hub.pid) - before
            watch = Stopwatch(hub)
            async with other.store("big").replica() as replica:
                rows.append(watch.row("snapshot to a new replica", entries))
                assert len(replica) == entries
            return rows, taken
    finally:
        hub.stop()
        folder.cleanup()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--puts", type=int, default=400_000)
    parser.add_argument("--entries", type=int, default=1_000_000)
    options = parser.parse_args()
    rows, taken = asyncio.run(run(options.puts, options.entries))
    table = Table("what", "done", "a second", "s", "hub µs each", "client µs each")
    for row in rows:
        table.add_row(*row.cells())
    console = Console()
    console.print(table)
    console.print(f"{options.entries:,} entries take {taken / _MIB:.0f} MiB of the hub's memory")


if __name__ == "__main__":
    main()
