"""Hurt copies of a journal, many times, and read what is left; print a table.

    python tests/soak/journal_damage.py [--times 300] [--seed 1]

Half of the journal is known to be on the disk, or all of it. Of each way to
hurt it so many copies are made, each hurt in one place, read, written to, and read again (`tests.faults.damage`). Exit
code 1: something was read that had not been written there, or something was raised that is no error of the storage.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from hub.journal.segment import HEADER_BYTES, read_head
from tests.faults.damage import Found, Sample, cut_end, examine, flip_anywhere, flip_headers, zero_sector

Hurt = Callable[[Path, Random], str]


def _tear(path: Path, random: Random) -> str:
    """Cut the end off the newest segment, anywhere behind its first mark, with which it is made and synced."""
    data = max(path.iterdir()).read_bytes()
    made_bytes = HEADER_BYTES + read_head(data, HEADER_BYTES).size_bytes
    missing_bytes = random.randrange(len(data) - made_bytes + 1)
    cut_end(path, missing_bytes)
    return f"newest segment without its last {missing_bytes} bytes"


class _Way(NamedTuple):
    name: str
    hurt: Hurt
    of: str = "left"
    """What is copied: the journal as it was `left`, or `settled` on the disk."""


_WAYS = [
    _Way("end cut off", _tear),
    _Way("bit flipped anywhere", flip_anywhere),
    _Way("bit flipped in a head", flip_headers),
    _Way("sector of zeroes", zero_sector),
    _Way("closed, bit flipped anywhere", flip_anywhere, "settled"),
    _Way("closed, bit flipped in a head", flip_headers, "settled"),
    _Way("closed, sector of zeroes", zero_sector, "settled"),
]


def _try(way: _Way, sample: Sample, times: int, random: Random, failures: list[str]) -> Counter[Found]:
    name, hurt, _ = way
    found: Counter[Found] = Counter()
    for _ in track(range(times), name, console=Console(stderr=True), transient=True):
        copy = sample.copy(sample.folder / "copy")
        where = hurt(copy, random)
        try:
            found[examine(copy, sample, is_torn=hurt is _tear)] += 1
        except Exception as error:  # noqa: BLE001 -- whatever it is belongs into the report
            failures.append(f"{name}: {where}: {type(error).__name__}: {error}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Hurt copies of a journal, many times, and read what is left.")
    parser.add_argument("--times", type=int, default=300, help="of each way")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    random = Random(chosen.seed)  # noqa: S311 -- to be repeated
    failures: list[str] = []
    table = Table("what was done", "copies", *(found.value for found in Found), "wrong")
    with tempfile.TemporaryDirectory(prefix="journal-damage-") as folder:
        sample = Sample.made(Path(folder) / "sample", random, commits=60)
        samples = {
            "left": sample,
            "settled": sample.settled(Path(folder) / "settled"),
        }
        for way in _WAYS:
            before = len(failures)
            found = _try(way, samples[way.of], chosen.times, random, failures)
            counts = [str(found[each]) for each in Found]
            table.add_row(way.name, str(chosen.times), *counts, str(len(failures) - before))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    for failure in failures:
        console.print(failure, style="red", markup=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
