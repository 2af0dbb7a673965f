"""Break a hub for an hour, in more ways and more often than the tests do; print a line for each way.

    python tests/soak/hub.py [WAY ...] [--factor 1.0] [--seed 1]

| way | what is done | what is checked |
|---|---|---|
| damage | copies of a journal are hurt in one place, read, written to, read again | what is read was written |
| full | the disk of a journal runs out of room, and has some again | "When the disk is full" in docs/journal.md |
| kills | a hub with a journal is killed under load | "What is promised" there; a file opens within 2 s |
| tier | a hub whose journal has a tier is killed, after the tier was spoiled | the same in docs/tier.md |
| group | members of a consumer group, hubs and workers are killed | each message at least once, in order by key |
| stores | a hub with a store is killed, while many write to it, watch and copy it | no confirmed change is lost |
| mesh | large meshes, and a very large one, have random histories | all that `tests/mesh_simulation` asks for |

`--factor 0.1` does it a tenth as often. Exit code 1: a way failed, and its line says why. One kind of full disk needs
the right to mount a tmpfs in a namespace.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.journal.segment import HEADER_BYTES, read_head
from tests.faults.damage import Found, Sample, cut_end, examine, flip_anywhere, flip_headers, zero_sector
from tests.faults.full_disks import FillableDisk, LimitedFiles, NotPermittedError, ScarceDisk, go_through, small_disk
from tests.faults.group import Group
from tests.faults.kills import Lives
from tests.faults.store_kills import StoreKills
from tests.faults.tiers import STAGES, TieredLives, tier_of
from tests.mesh_simulation.histories import SHAPES, Plan, large_plan, run

_REOPEN_S = 2.0
"""What opening a file may take. How long a process takes to start depends on what else the machine does."""


class Given(NamedTuple):
    factor: float
    seed: int

    def times(self, usual: int) -> int:
        return max(round(usual * self.factor), 1)

    def random(self, name: str) -> Random:
        return Random(f"{name} {self.seed}")  # noqa: S311 -- to be repeated


def _tear(path: Path, random: Random) -> str:
    """Cut the end off the newest segment, anywhere behind its first mark, with which it is made and synced."""
    data = max(path.iterdir()).read_bytes()
    made_bytes = HEADER_BYTES + read_head(data, HEADER_BYTES).size_bytes
    missing_bytes = random.randrange(len(data) - made_bytes + 1)
    cut_end(path, missing_bytes)
    return f"newest segment without its last {missing_bytes} bytes"


def damage(given: Given, folder: Path) -> Iterator[str]:
    random = given.random("damage")
    left = Sample.made(folder / "sample", random, commits=60)
    settled = left.settled(folder / "settled")
    anywhere = (flip_anywhere, flip_headers, zero_sector)
    for sample, state, hurts in ((left, "as left", (_tear, *anywhere)), (settled, "settled on the disk", anywhere)):
        for hurt in hurts:
            found: Counter[Found] = Counter()
            for _ in range(given.times(300)):
                copy = sample.copy(sample.folder / "copy")
                where = hurt(copy, random)
                try:
                    found[examine(copy, sample, is_torn=hurt is _tear)] += 1
                except Exception as error:
                    error.add_note(f"{hurt.__name__}, {state}: {where}")
                    raise
            counts = ", ".join(f"{each.value} {count}" for each, count in found.items())
            yield f"{hurt.__name__.strip('_')}, {state}: {counts}"


async def _run_full(kind: type[FillableDisk | LimitedFiles]) -> str:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="journal-full-")))
        disk: ScarceDisk
        if issubclass(kind, LimitedFiles):
            disk = LimitedFiles(folder)
        else:
            mount = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="journal-disk-")))
            disk = await stack.enter_async_context(small_disk(mount))
        found = await go_through(disk, folder)
        return f"{found.recorded:,} recorded, {found.lost:,} lost and counted, ready again after {found.back_s:.1f} s"


def full(given: Given, _: Path) -> Iterator[str]:
    for kind in (FillableDisk, LimitedFiles):
        for _time in range(given.times(5)):
            try:
                yield f"{kind.__name__}: {asyncio.run(_run_full(kind))}"
            except NotPermittedError as error:
                yield f"{kind.__name__}: not permitted: {error}"


async def _run_kills(name: str, given: Given, lives: Lives) -> str:
    done = [await lives.live() for _ in range(given.times(50))]
    lives.end()
    slowest_s = max(life.opened_s for life in done)
    assert slowest_s <= _REOPEN_S, f"opening took {slowest_s:.1f} s"
    return (
        f"{name}: {len(done)} kills, {max(life.records for life in done):,} records, {lives.ledger.confirmed_total:,} "
        f"confirmed, {lives.writer.next_batch:,} batches, {lives.writer.again_total} of them again; opened within "
        f"{1_000 * slowest_s:.0f} ms, up within {max(life.up_s for life in done):.2f} s"
    )


def kills(given: Given, folder: Path) -> Iterator[str]:
    for name, sync, writes in (("normal", "normal", False), ("full", "full", False), ("in COMMIT", "normal", True)):
        lives = Lives(folder / name.replace(" ", "-"), sync, given.random(name), writes=writes)
        yield asyncio.run(_run_kills(name, given, lives))


async def _run_tier(kind: str, given: Given, folder: Path) -> str:
    random = given.random(kind)
    async with tier_of(kind, folder, random) as tier:
        lives = TieredLives(folder, tier, random)
        troubles = [tier.troubles[number % len(tier.troubles)] for number in range(given.times(12))]
        for trouble in troubles:
            await lives.live(trouble, random.choice(STAGES))
        await lives.end()
    spoiled = ", ".join(f"{trouble} {count}" for trouble, count in Counter(troubles).items())
    return f"{kind}: kills: {spoiled}; {lives.ledger.confirmed_total:,} of {lives.ledger.position:,} records confirmed"


def tier(given: Given, folder: Path) -> Iterator[str]:
    for kind in ("folder", "bucket"):
        (folder / kind).mkdir()
        yield asyncio.run(_run_tier(kind, given, folder / kind))


def group(given: Given, folder: Path) -> Iterator[str]:
    """By a hub alone, then with two workers, by which members are connected, and half as many of the rest."""
    for workers, part in ((0, 1), (2, 2)):
        path = folder / f"{workers}-workers"
        path.mkdir()
        scene = Group(path, given.times(1_000_000) // part, given.random("group"), workers)
        members, hubs, others = given.times(50) // part, given.times(20) // part, given.times(30) if workers else 0
        found = asyncio.run(scene.run(members, hubs, others))
        yield (
            f"{workers} workers; {members} members, {hubs} hubs, {others} workers killed: {found.again:,} messages "
            f"came again, {found.redelivered:,} of them told as such"
        )


def stores(given: Given, folder: Path) -> Iterator[str]:
    found = asyncio.run(StoreKills(folder, given.random("stores")).run(given.times(100)))
    yield (
        f"{found.kills} kills: {found.confirmed:,} confirmed changes, none lost; {found.unsure:,} commands that nobody "
        f"answered, each carried out once or not at all; {found.changes_told:,} changes told to two watches, which "
        f"equal the store, as two replicas do: {found.entries:,} entries; up within {max(found.ups_s):.1f} s"
    )


def mesh(given: Given, _: Path) -> Iterator[str]:
    hubs = max(given.times(100), 20)
    plans = [Plan(given.seed + number, hubs, SHAPES[number % len(SHAPES)]) for number in range(given.times(200))]
    for plan in [*plans, large_plan(10 * hubs)]:
        gc.disable()  # there are up to millions of records, and nothing that goes in a circle
        try:
            found = run(plan)
        except AssertionError as error:
            error.add_note(str(plan))
            raise
        finally:
            gc.enable()
            gc.collect()
        counts = ", ".join(f"{count:,} {name}" for name, count in found._asdict().items())
        yield f"seed {plan.seed}, {plan.hubs} hubs, {plan.shape}: {counts}"


WAYS: dict[str, Callable[[Given, Path], Iterator[str]]] = {
    each.__name__: each for each in (damage, full, kills, tier, group, stores, mesh)
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Break a hub for an hour.")
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"of {', '.join(WAYS)}; all without it")
    parser.add_argument("--factor", type=float, default=1.0, help="how often, of the usual")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # clients tell of each lost connection
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    failed = 0
    for name in chosen.ways or WAYS:
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"soak-{name}-") as folder:
            try:
                for line in WAYS[name](Given(chosen.factor, chosen.seed), Path(folder)):
                    console.print(f"{name}: {line}", markup=False)
            except Exception:  # noqa: BLE001 -- whatever it is belongs into the report
                failed += 1
                console.print_exception()
        console.print(f"{name}: {time.monotonic() - began_s:.0f} s")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
