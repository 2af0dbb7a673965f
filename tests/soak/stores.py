"""Kill a hub that has a store in a file, many times, while many write to it, watch it and copy it; print what is there.

    python tests/soak/stores.py [--kills 100] [--seed 1]

Some kills come while the hub starts, some while it ends in order. Exit code 1: a confirmed change was lost, a command
was carried out twice, or a watch or a replica did not equal the store once it was quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

from rich.console import Console

from tests.faults.store_kills import StoreKills


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a hub that has a store, many times.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # clients tell of each lost connection
    console = Console()
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="store-kills-") as folder:
        kills = StoreKills(Path(folder), Random(chosen.seed))  # noqa: S311 -- to be repeated
        try:
            outcome = asyncio.run(kills.run(chosen.kills))
        except (AssertionError, TimeoutError) as error:
            console.print(f"failed: {type(error).__name__}: {error}", markup=False)
            return 1
    passed_s = time.perf_counter() - began_s
    console.print(
        f"{outcome.kills} kills in {passed_s:.0f} s: {outcome.confirmed:,} confirmed changes, none lost; "
        f"{outcome.unsure:,} commands that nobody answered, each carried out once or not at all; "
        f"{outcome.changes_told:,} changes told to two watches, which equal the store, as two replicas do: "
        f"{outcome.entries:,} entries. Hubs were up "
        f"{median(outcome.ups_s):.1f} s after their start, {max(outcome.ups_s):.1f} s at most"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
