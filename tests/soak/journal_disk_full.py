"""Let a journal run out of room and give it some again, many times; print a table.

    python tests/soak/journal_disk_full.py [--times 5]

Three kinds of scarcity (`tests.faults.full_disks`), two of which need the right to mount a tmpfs in a namespace. All
that is said in docs/journal.md under "When the disk is full" is checked each time. Exit code 1: it did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.faults.full_disks import (
    FillableDisk,
    GrowingDisk,
    LimitedFiles,
    NotPermittedError,
    ScarceDisk,
    Shortage,
    go_through,
    small_disk,
)

_KINDS: dict[str, type[GrowingDisk | FillableDisk | LimitedFiles]] = {
    "a tmpfs that grows": GrowingDisk,
    "a tmpfs that is cleared": FillableDisk,
    "a limit of file sizes": LimitedFiles,
}


async def _once(kind: type[GrowingDisk | FillableDisk | LimitedFiles]) -> Shortage:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="journal-full-")))
        disk: ScarceDisk
        if issubclass(kind, LimitedFiles):
            disk = LimitedFiles(folder)
        else:
            mount = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="journal-disk-")))
            disk = await stack.enter_async_context(small_disk(kind, mount))
        return await go_through(disk, folder)


def _cells(name: str, times: int) -> tuple[list[str], bool]:
    """Go through one kind so many times; return what the table shows, and whether all was well."""
    found: list[Shortage] = []
    result, is_sound = "all sound", True
    try:
        for _ in track(range(times), name, console=Console(stderr=True), transient=True):
            found.append(asyncio.run(_once(_KINDS[name])))  # noqa: PERF401 -- what was found before an error is shown
    except NotPermittedError as error:
        result = f"not permitted: {error}"
    except Exception as error:  # noqa: BLE001 -- whatever it is belongs into the table
        result, is_sound = f"{type(error).__name__}: {error}", False
    lost = f"{sum(each.lost for each in found):,}"
    recorded = f"{sum(each.recorded for each in found):,}"
    back = f"{median(each.back_s for each in found):.1f} / {max(each.back_s for each in found):.1f}" if found else "-"
    return [name, str(len(found)), recorded, lost, back, result], is_sound


def main() -> int:
    parser = argparse.ArgumentParser(description="Let a journal run out of room and give it some again, many times.")
    parser.add_argument("--times", type=int, default=5, help="of each kind")
    chosen = parser.parse_args()
    logging.disable()  # clients tell of what is refused
    table = Table("what is scarce", "times", "recorded", "lost, counted", "ready again, s", "result")
    all_sound = True
    for name in _KINDS:
        cells, is_sound = _cells(name, chosen.times)
        table.add_row(*cells)
        all_sound &= is_sound
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    return 0 if all_sound else 1


if __name__ == "__main__":
    sys.exit(main())
