"""Kill a hub with a journal under load, many times, and see what is left; print a table.

    python tests/soak/journal_kills.py [--kills 50] [--seed 1]

Three journals, one after the other: `normal`, `full`, and `normal` with each kill in the middle of a batch's COMMIT.
All that is said in docs/journal.md under "What is promised" is checked after each kill. Exit code 1: it did not hold,
or opening a file took longer than 2 s.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.faults.kills import Life, Lives, running_hub

_REOPEN_S = 2.0
"""What opening the file may take. How long a process takes to start depends on what else the machine does."""

_MIB = 1 << 20


class _Row:
    """What became of one journal."""

    def __init__(self, name: str, sync: str, *, writes: bool) -> None:
        self.name = name
        self._sync = sync
        self._writes = writes
        self._lives: list[Life] = []
        self.failure = ""
        self._confirmed = self._again = self._batches = 0

    async def run(self, kills: int, seed: int) -> None:
        with tempfile.TemporaryDirectory(prefix="journal-kills-") as folder:
            random = Random(f"{self.name} {seed}")  # noqa: S311 -- to be repeated
            lives = Lives(Path(folder) / "journal", self._sync, random, writes=self._writes)
            try:
                for _ in track(range(kills), self.name, console=Console(stderr=True), transient=True):
                    self._lives.append(await lives.live())
                lives.end()
            except Exception as error:  # noqa: BLE001 -- whatever it is belongs into the table
                self.failure = f"{type(error).__name__} after {len(self._lives)} kills: {error}"
            self._confirmed = lives.ledger.confirmed_total
            self._again, self._batches = lives.writer.again_total, lives.writer.next_batch

    @property
    def slowest_s(self) -> float:
        return max((life.opened_s for life in self._lives), default=0.0)

    def cells(self) -> Iterator[str]:
        lives = self._lives
        opened = [1000 * life.opened_s for life in lives if life.opened_s]
        yield self.name
        yield str(len(lives))
        yield f"{max((life.records for life in lives), default=0):,}"
        yield f"{self._confirmed:,}"
        yield f"{self._batches:,} ({self._again} again)"
        yield f"{max((life.growing_bytes for life in lives), default=0) / _MIB:.0f}"
        yield f"{median(opened):.1f} / {max(opened):.1f}" if opened else "-"
        yield f"{median(life.up_s for life in lives):.2f} / {max(life.up_s for life in lives):.2f}" if lives else "-"
        yield "failed" if self.failure else "all sound"


async def _bare_start_s() -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with running_hub(Path(folder) / "journal") as hub:
            return hub.up_s


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a hub with a journal under load, many times.")
    parser.add_argument("--kills", type=int, default=50, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # clients tell of each lost connection
    rows = [
        _Row("normal", "normal", writes=False),
        _Row("full", "full", writes=False),
        _Row("normal, in a COMMIT", "normal", writes=True),
    ]
    table = Table(
        "journal",
        "kills",
        "records",
        "confirmed",
        "batches",
        "newest segment, MiB",
        "opened, ms",
        "hub up, s",
        "result",
    )
    for row in rows:
        asyncio.run(row.run(chosen.kills, chosen.seed))
        table.add_row(*row.cells())
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    console.print(
        "Median / slowest. Opened: by the first reader or writer after the kill. "
        f"Hub up: from the start of its process; {asyncio.run(_bare_start_s()):.2f} s without a journal to open."
    )
    failures = [f"{row.name}: {row.failure}" for row in rows if row.failure]
    failures += [f"{row.name}: opening took {row.slowest_s:.1f} s" for row in rows if row.slowest_s > _REOPEN_S]
    for failure in failures:
        console.print(failure, style="red")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
