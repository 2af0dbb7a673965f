"""What announcements cost while filters change everywhere: bytes on each link, and CPU of each hub.

    python tests/benchmarks/mesh.py [--hubs 100,300,1000] [--changes 10] [--seconds 3] [--shape random] [--each 1]

All hubs are in this process, on a simulated network (`tests/mesh_simulation`): first all links come up, then each hub
wants a prefix more or one less, in turn, so many times a second, each prefix once only. What is measured begins when
the few announcements are used up that a hub may make at once after a quiet time.

With `--each 10` filters change at every tenth hub only, and what follows from them counts for ten: what one hub
announces is told apart from what others do. All cables take the same time, so that a hub hears much in one read while
links come up; announcements of filters come one by one.

A link's traffic is the size of its ROUTING frames (`peers.wire.routing`), without TCP's headers. CPU is this thread's
time in `hub.mesh` and in that codec; a hub decodes what it hears and encodes what it tells. The simulation itself is
not in it. 1,000 hubs take 2 GB; with `--each 10`, 2 minutes.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.mesh.announcement import Announcement, Digest, Told, Wanted
from hub.mesh.mesh import Mesh
from peers.wire.routing import decode_routing, encode_routing
from tests.mesh_simulation.histories import SHAPES, cables_of
from tests.mesh_simulation.hub import Hub, Subscriber
from tests.mesh_simulation.network import End
from tests.mesh_simulation.world import World

GOAL_MBIT_S = 4.0
"""For a link of 1,000 hubs with 10 changes a second each."""

_FRAME_BYTES = 1 << 20
_HEADER_BYTES = 8
_HELD = 5
"""How many prefixes each hub wants at a time."""

_MADE_S, _WARM_S, _STEP_S = 4.0, 1.0, 0.05
_DECODED = 16
"""One in so many frames is decoded, and counts for all of them."""


class Spent(NamedTuple):
    """What was used up to now."""

    mesh_s: float
    codec_s: float
    announcements: int


class Account:
    """What all hubs together have used."""

    def __init__(self) -> None:
        self.mesh_s = self.codec_s = 0.0
        self.announcements = 0
        self.sent_bytes: Counter[End] = Counter()
        self._inside = False

    def timed(self, act: Callable[..., Any], *given: Any) -> Any:
        """Call something of a mesh; what it calls itself is in its time."""
        if self._inside:
            return act(*given)
        self._inside = True
        begun_s = time.thread_time()
        try:
            return act(*given)
        finally:
            self.mesh_s += time.thread_time() - begun_s
            self._inside = False

    def encode(self, end: End, item: Told) -> None:
        """Count what an item takes on a link."""
        begun_s = time.thread_time()
        frames = list(encode_routing(item, _FRAME_BYTES))
        self.codec_s += time.thread_time() - begun_s
        self.announcements += 1
        self.sent_bytes[end] += sum(map(len, frames))
        if not self.announcements % _DECODED:
            begun_s = time.thread_time()
            for frame in frames:
                decode_routing(frame[_HEADER_BYTES:])
            self.codec_s += (time.thread_time() - begun_s) * _DECODED

    def spent(self) -> Spent:
        """Return what was used up to now."""
        return Spent(self.mesh_s, self.codec_s, self.announcements)


ACCOUNT = Account()


class TimedMesh(Mesh[End]):
    """A mesh whose time is counted."""

    __slots__ = ()

    def hear(self, link: End, told: Told) -> None:
        """Hear."""
        ACCOUNT.timed(super().hear, link, told)

    def take(self, link: End) -> list[Told]:
        """Take."""
        return ACCOUNT.timed(super().take, link)  # type: ignore[no-any-return]

    def check(self, now_s: float) -> float:
        """Check."""
        return ACCOUNT.timed(super().check, now_s)  # type: ignore[no-any-return]


class MeteredHub(Hub):
    """A hub whose announcements are counted."""

    mesh_type = TimedMesh

    def send(self, end: End, item: Announcement | Digest | Wanted) -> None:
        """Count what is written, and write it."""
        ACCOUNT.encode(end, item)
        super().send(end, item)


class Restless:
    """One hub whose clients want something else all the time.

    Args:
        hub: It.
        number: Its own.
        every_s: How often.
    """

    def __init__(self, hub: Hub, number: int, world: World, every_s: float) -> None:
        self._hub = hub
        self._number = number
        self._world = world
        self._every_s = every_s
        self._wanted = [self._next(count) for count in range(_HELD)]
        self._count = _HELD
        for subscriber in self._wanted:
            hub.subscribe(subscriber)

    def begin(self, first_s: float) -> None:
        """Change from now on; what may be announced at once is used up."""
        now_s, pace = self._hub._now_s, self._hub.mesh._news._interest_pace
        while pace.ready_s(now_s) <= now_s:
            pace.use(now_s)
        self._world.clock.after(first_s, self._change)

    def _change(self) -> None:
        if len(self._wanted) > _HELD:
            self._hub.unsubscribe(self._wanted.pop(0))
        else:
            self._wanted.append(self._next(self._count))
            self._count += 1
            self._hub.subscribe(self._wanted[-1])
        self._world.clock.after(self._every_s, self._change)

    def _next(self, count: int) -> Subscriber:
        return Subscriber(count, f"/site-{self._number}/line-{count}/")


def measured(hubs: int, given: argparse.Namespace, progress: Progress) -> tuple[str, ...]:
    """Return the row of a mesh."""
    shape, changes, seconds, each = given.shape, given.changes, given.seconds, given.each
    chance = Random(1)  # noqa: S311 -- the same each time
    task = progress.add_task(f"{hubs:,} hubs", total=_MADE_S + _WARM_S + seconds)

    def run_for(time_s: float) -> None:
        for _ in range(round(time_s / _STEP_S)):
            world.run_for(_STEP_S)
            progress.advance(task, _STEP_S)

    begun_s = time.process_time()
    world = World(hubs, cables_of(shape, hubs, chance, even=True), 1, MeteredHub)
    restless = [Restless(hub, number, world, 1 / changes) for number, hub in enumerate(world.sites)][::each]
    ACCOUNT.sent_bytes.clear()
    run_for(_MADE_S)
    made_s = time.process_time() - begun_s
    made_bytes = sum(ACCOUNT.sent_bytes.values())
    for one in restless:
        one.begin(chance.uniform(0.0, 1 / changes))
    run_for(_WARM_S)
    ACCOUNT.sent_bytes.clear()
    before = ACCOUNT.spent()
    run_for(seconds)
    spent = Spent(*(now - then for now, then in zip(ACCOUNT.spent(), before, strict=True)))
    sent = {end: each * size_bytes for end, size_bytes in ACCOUNT.sent_bytes.items()}
    links = [cable.link for cable in world.cables if cable.link is not None]
    both_ways = [sum(sent.get(end, 0) for end in link.ends) for link in links]
    per_hub_s = hubs * seconds / each
    progress.remove_task(task)
    return (
        f"{hubs:,}",
        f"{len(links):,}",
        f"{_mbit(sum(both_ways) / len(links), seconds):.2f}",
        f"{_mbit(max(both_ways), seconds):.2f}",
        f"{_mbit(max(sent.values()), seconds):.2f}",
        f"{spent.announcements / per_hub_s:,.0f}",
        f"{sum(both_ways) / each / spent.announcements:.0f}",
        f"{spent.mesh_s / per_hub_s * 1e3:.2f}",
        f"{spent.codec_s / per_hub_s * 1e3:.2f}",
        f"{made_bytes / len(links) / 1e6:.2f}",
        f"{made_s / hubs * 1e3:.0f}",
    )


def _mbit(size_bytes: float, seconds: float) -> float:
    return size_bytes * 8 / seconds / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What announcements of a mesh cost.")
    parser.add_argument("--hubs", default="100,300,1000")
    parser.add_argument("--changes", type=float, default=10.0, help="of each hub, a second")
    parser.add_argument("--seconds", type=float, default=3.0, help="simulated")
    parser.add_argument("--shape", choices=SHAPES, default="random")
    parser.add_argument("--each", type=int, default=1, help="filters change at each so manieth hub, and count for all")
    given = parser.parse_args()
    gc.disable()  # there are no cycles, and it would walk over millions of records
    table = Table(
        "hubs",
        "links",
        "a link, both ways, Mbit/s",
        "busiest link, both ways, Mbit/s",
        "busiest way, Mbit/s",
        "announcements told, a hub and s",
        "bytes each",
        "CPU in hub.mesh, ms a hub and s",
        "CPU in the codec, ms a hub and s",
        "making it: MB a link",
        "making it: CPU ms a hub",
        title=f"{given.shape}, {given.changes:g} filter changes/s at each hub; goal: {GOAL_MBIT_S:g} Mbit/s a link",
        caption=f"Python {platform.python_version()}; making it: all links come up at once, CPU with the simulation",
    )
    console = Console()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for hubs in map(int, given.hubs.split(",")):
            table.add_row(*measured(hubs, given, progress))
    console.print(table)


if __name__ == "__main__":
    main()
