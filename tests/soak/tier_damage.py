"""Hurt files of a tier, many times, and read what is left; print a table.

    python tests/soak/tier_damage.py [--times 40] [--seed 1]

Of each way (`tests.faults.tier_damage`) so many files are hurt, one at a time, and all of the journal is read, by
offset, topic and time. Each time in a process of its own, because pyarrow may end it: a hub's reader process ends then,
too. Exit code 1: something was read that had not been written there, something was
missing that was not hurt, or something was raised that names no place.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.faults.tier_damage import WAYS, Outcome, TierSample, Way

_OUTCOMES = list(Outcome)

_CRASHED = "ended the process"

_FAILED = 100
"""Exit code of a process in which something did not hold."""


def _examined(sample: TierSample, hurt: Path, failure: Path) -> str:
    """Read everything in another process; return what became of it."""
    pid = os.fork()
    if not pid:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # what pyarrow says when it gives up
            code = _OUTCOMES.index(sample.examine(hurt))
        except BaseException as error:  # noqa: BLE001 -- whatever it is belongs into the report
            failure.write_text("".join(traceback.format_exception(error)[-3:]))
            code = _FAILED
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        return _CRASHED
    assert 0 <= code < len(_OUTCOMES), failure.read_text() if failure.exists() else f"exit code {code}"
    return _OUTCOMES[code].value


def _try(way: Way, sample: TierSample, times: int, random: Random, failures: list[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    failure = sample.path.parent / "failure"
    for _ in track(range(times), way.name, console=Console(stderr=True), transient=True):
        with sample.hurt(way, random) as hurt:
            try:
                found[_examined(sample, hurt, failure)] += 1
            except AssertionError as error:
                found["failed"] += 1
                failures.append(f"{way.name}, {hurt.name}: {error}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Hurt files of a tier, and read what is left.")
    parser.add_argument("--times", type=int, default=40, help="of each way")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    random = Random(chosen.seed)  # noqa: S311 -- to be repeated
    columns = [*(outcome.value for outcome in Outcome), _CRASHED, "failed"]
    table = Table("what was hurt", *columns)
    failures: list[str] = []
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tier-damage-") as folder:
        sample = TierSample(Path(folder), random)
        for way in WAYS:
            found = _try(way, sample, chosen.times, random, failures)
            table.add_row(way.name, *(str(found[column]) for column in columns))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    console.print(f"{time.monotonic() - began_s:.0f} s")
    for failure in failures[:10]:
        console.print(failure, markup=False, style="red")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
