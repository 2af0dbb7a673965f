"""Kill a hub whose journal has a tier, and the process that copies, many times; print a table.

    python tests/soak/tier_kills.py [--kills 30] [--seed 1]

One journal that keeps next to nothing here, so that segments are sealed, joined, copied and deleted all the time. In
each life the copying is disturbed (`tests.faults.tiered_lives`) before the hub is killed. All that docs/tier.md says
under "What is promised" of records that stand there once is checked at the end. Exit code 1: it did not hold.
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

from tests.faults.tiered_lives import STAGES, TROUBLES, TieredLife, TieredLives


async def _run(lives: TieredLives, kills: int, random: Random, done: list[TieredLife]) -> None:
    """Live so many lives; then look at everything."""
    for _ in track(range(kills), "a journal with a tier", console=Console(stderr=True), transient=True):
        life = await lives.live(random.choice(TROUBLES), random.choice(STAGES))
        done.append(life)
    await lives.end()


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description="Kill a hub whose journal has a tier, and what copies, many times.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # clients tell of each lost connection
    done: list[TieredLife] = []
    failure = ""
    random = Random(chosen.seed)  # noqa: S311 -- to be repeated
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tier-kills-") as folder:
        lives = TieredLives(Path(folder), random)
        try:
            asyncio.run(_run(lives, chosen.kills, random, done))
        except Exception as error:  # noqa: BLE001 -- whatever it is belongs into the table
            failure = f"after {len(done)} kills: {''.join(traceback.format_exception(error)[-3:])}"
    table = Table("copying was", *(f"once it had {stage}" for stage in STAGES))
    counts = Counter((life.trouble, life.stage) for life in done)
    for trouble in TROUBLES:
        table.add_row(trouble, *(str(counts[trouble, stage]) for stage in STAGES))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    first_here = max((life.first_here for life in done), default=0)
    console.print(
        f"{len(done)} hubs killed, {lives.ledger.position:,} records, {lives.ledger.confirmed_total:,} confirmed, "
        f"{first_here:,} in the tier alone, {time.monotonic() - began_s:.0f} s: {'failed' if failure else 'all sound'}"
    )
    if failure:
        console.print(failure, markup=False, style="red")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
