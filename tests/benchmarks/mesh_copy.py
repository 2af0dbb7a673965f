"""How long a hub's loop is held up while it gets a full copy of a large mesh at once; print a table.

    python tests/benchmarks/mesh_copy.py [--hubs 1000] [--prefixes 100] [--rounds 5]

A peer over a real socket tells a hub of so many others, a chain with some links across, each of which wants so many
prefixes, as fast as it reads. The longest turn is the most CPU time between two rounds of the loop, which the hub and
the peer share; the peer writes what was encoded before. It is told beside the same before anything comes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from functools import partial
from pathlib import Path

import structlog
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.mesh.announcement import Announcement, Digest
from hub.settings.settings import Settings
from peers.daemon.garbage import GarbageWatch
from peers.wire.routing import encode_routing
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import kept_hubs
from tests.hubs.hub import LOOPBACK, Hub

PEER = b"peer" * 4
FRAME_BYTES = 1 << 20
IDLE_S = 0.5


class Turns:
    """The most CPU time between two rounds of the loop."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        before_s = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now_s = time.thread_time()
            self.longest_s = max(self.longest_s, now_s - before_s)
            before_s = now_s

    def stop(self) -> float:
        """Look no more."""
        self._task.cancel()
        return self.longest_s


async def main(hubs: int, prefixes: int, rounds: int) -> None:
    """Measure, and print."""
    table = Table("hubs", "prefixes", "longest turn, ms", "idle, ms", "taken in, s", "MB")
    for _ in range(rounds):
        async with kept_hubs() as kept:
            hub = Hub(Settings())
            await hub.listen(LOOPBACK)
            kept.append(hub)
            data = _copy(hub, hubs, prefixes)
            GarbageWatch()  # as the daemon has one
            idle = Turns()
            await asyncio.sleep(IDLE_S)
            idle_s = idle.stop()
            peer = await hub.client(role="hub", id=PEER, name="peer", mesh=1)
            turns, begun_s = Turns(), time.perf_counter()
            sending = asyncio.ensure_future(peer.send(data))
            await eventually(partial(_has_all, hub, hubs, prefixes))
            taken_s = time.perf_counter() - begun_s
            await asyncio.sleep(IDLE_S)
            await sending
            told = f"{taken_s:.2f}", f"{len(data) / 1e6:.1f}"
            table.add_row(
                f"{hubs:,}", f"{hubs * prefixes:,}", f"{turns.stop() * 1e3:.1f}", f"{idle_s * 1e3:.1f}", *told
            )
    Console().print(table)


def _has_all(hub: Hub, hubs: int, prefixes: int) -> bool:
    mesh = hub.node.core.mesh
    return len(mesh.graph.reached) == hubs + 2 and mesh.statistics().prefixes == hubs * prefixes


def _copy(hub: Hub, hubs: int, prefixes: int) -> bytes:
    """What the peer tells: what it knows, and a full copy of each of the hubs, itself with them."""
    ids = [PEER, *(number.to_bytes(16, "big") for number in range(1, hubs + 1))]
    links: dict[bytes, dict[bytes, int]] = {one: {} for one in ids}
    chance = random.Random(0)  # noqa: S311 -- the same each time
    for number in range(1, len(ids)):
        for other in {number - 1, *([chance.randrange(number)] if number % 2 else [])}:
            links[ids[number]][ids[other]] = links[ids[other]][ids[number]] = 1
    links[PEER][hub.node.id] = 1
    told: list[Digest | Announcement] = [Digest(tuple((one, 1) for one in ids))]
    for number, one in enumerate(ids):
        wanted = tuple(f"/site-{number}/topic-{count}" for count in range(prefixes)) if number else ()
        told.append(Announcement(one, 0, 1, f"hub-{number}", tuple(links[one].items()), wanted))
    return b"".join(frame for item in told for frame in encode_routing(item, FRAME_BYTES))


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    parser = argparse.ArgumentParser(description="How long a full copy of a mesh holds up a hub.")
    parser.add_argument("--hubs", type=int, default=1_000)
    parser.add_argument("--prefixes", type=int, default=100, help="of each hub")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    asyncio.run(main(given.hubs, given.prefixes, given.rounds))
