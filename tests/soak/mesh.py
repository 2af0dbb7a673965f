"""Let many large meshes, and a very large one, have random histories; ask each for all that is promised; print a table.

    python tests/soak/mesh.py [--histories 200] [--hubs 100] [--seed 0] [--largest 1000]

The tests do the same with smaller meshes (`tests/mesh_simulation`). Exit code 1: a promise was broken; the seed of that
history is told, and `--seed SEED --histories 1 --largest 0` repeats it.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.mesh_simulation.histories import SHAPES, Plan, large_plan, run
from tests.mesh_simulation.truth import BrokenPromiseError, Counts


def main() -> int:
    parser = argparse.ArgumentParser(description="Random histories of large meshes.")
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--hubs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first history")
    parser.add_argument("--largest", type=int, default=1_000, help="hubs of the one very large mesh; 0: there is none")
    given = parser.parse_args()
    console = Console(stderr=True)
    begun_s = time.process_time()
    found: dict[str, list[Counts]] = defaultdict(list)
    plans = [_plan(seed, given.hubs) for seed in range(given.seed, given.seed + given.histories)]
    if given.largest:
        plans.append((f"{given.largest:,} hubs", large_plan(given.largest)))
    broken = 0
    for name, plan in track(plans, "histories", console=console, transient=True):
        try:
            found[name].append(_run(plan))
        except BrokenPromiseError as error:
            broken += 1
            console.print(f"seed {plan.seed}, {name}: {error}", markup=False)
    Console().print(_table(found))
    console.print(f"{broken} of {len(plans)} histories broke a promise; {time.process_time() - begun_s:.0f} s of CPU")
    return int(broken > 0)


def _plan(seed: int, hubs: int) -> tuple[str, Plan]:
    shape = SHAPES[seed % len(SHAPES)]
    return shape, Plan(seed, hubs, shape)


def _run(plan: Plan) -> Counts:
    """Run one without the garbage collector: there are up to millions of records, and nothing that goes in a circle."""
    gc.disable()
    try:
        return run(plan)
    finally:
        gc.enable()
        gc.collect()


def _table(found: dict[str, list[Counts]]) -> Table:
    table = Table("shape", "histories", *Counts._fields, title="messages", caption="delivered: to subscribers")
    for shape, counts in found.items():
        table.add_row(shape, str(len(counts)), *(f"{sum(column):,}" for column in zip(*counts, strict=True)))
    return table


if __name__ == "__main__":
    sys.exit(main())
