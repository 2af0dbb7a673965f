"""Kill a hub whose journal has a tier, many times, each time after the tier was spoiled; print a table.

    python tests/soak/tier_kills.py [--kills 12] [--seed 1] [--only bucket]

Three tiers, one after the other (`tests.faults.tiers`): a folder, a disk that runs full, a bucket of S3. The journal
keeps next to nothing here, so that segments are sealed, joined, copied and deleted all the time. In each life the
copying process is killed, or the tier refuses, fails, is slow or full, before the hub is killed. All that docs/tier.md
says under "What is promised" of records that stand there once is checked at the end. Exit code 1: it did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
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

from tests.faults.full_disks import NotPermittedError
from tests.faults.tiers import STAGES, TieredLife, TieredLives, tier_of

_KINDS = ("folder", "disk", "bucket")


async def _run(kind: str, folder: Path, kills: int, random: Random, done: list[TieredLife]) -> TieredLives:
    async with tier_of(kind, folder, random) as tier:
        lives = TieredLives(folder, tier, random)
        for number in track(range(kills), f"a journal, its tier: {kind}", console=Console(stderr=True), transient=True):
            trouble = tier.troubles[number % len(tier.troubles)]
            done.append(await lives.live(trouble, random.choice(STAGES)))
        await lives.end()
        return lives


def _row(kind: str, kills: int, seed: int) -> tuple[list[str], str]:
    done: list[TieredLife] = []
    records = confirmed = "-"
    result, failure = "all sound", ""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tier-kills-") as folder:
        try:
            lives = asyncio.run(_run(kind, Path(folder), kills, Random(f"{kind} {seed}"), done))  # noqa: S311 -- to be repeated
            records, confirmed = f"{lives.ledger.position:,}", f"{lives.ledger.confirmed_total:,}"
        except NotPermittedError as error:
            result = f"not permitted: {error}"
        except Exception as error:  # noqa: BLE001 -- whatever it is belongs into the report
            result = "failed"
            failure = f"{kind}, after {len(done)} kills: {''.join(traceback.format_exception(error)[-3:])}"
    troubles = Counter(life.trouble for life in done)
    spoiled = ", ".join(f"{trouble} {count}" for trouble, count in troubles.items())
    first_here = max((life.first_here for life in done), default=0)
    took_s = f"{time.monotonic() - began_s:.0f}"
    return [kind, str(len(done)), spoiled, records, confirmed, f"{first_here:,}", took_s, result], failure


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a hub whose journal has a tier, and spoil the tier, many times.")
    parser.add_argument("--kills", type=int, default=12, help="of each kind of tier")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=_KINDS)
    chosen = parser.parse_args()
    logging.disable()  # clients tell of each lost connection
    table = Table("tier", "kills", "before that it was", "records", "confirmed", "in the tier alone", "s", "result")
    failures = []
    for kind in [chosen.only] if chosen.only else _KINDS:
        cells, failure = _row(kind, chosen.kills, chosen.seed)
        table.add_row(*cells)
        failures += [failure] if failure else []
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    for failure in failures:
        console.print(failure, markup=False, style="red")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
