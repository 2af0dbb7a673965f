"""How long a subscriber sees nothing when a link of a mesh is closed, until messages come another way; print a table.

    python tests/benchmarks/mesh_change.py [--rounds 20] [--silent]

Five hubs in a ring, in one process, with a publisher at one and a subscriber two hops away, a message a millisecond. A
link on the way is closed, and comes back. Told are times from that to the first message that was published after it and
has come. With `--silent` bytes pass no more on it, nobody is told, and a new one takes its place: then times begin when
one of the two hubs gives it up, as it has no answer to a ping.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import sys
import time
from pathlib import Path

import structlog
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.batch import decode_values
from hub.frame import encode_frame
from hub.settings.settings import Settings
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import kept_hubs
from tests.hubs.hub import LOOPBACK, Hub
from tests.hubs.raw_client import RawClient, publication
from tests.links.shapes import RING, Shape

EDGES = ((0, 1), (1, 2))
"""The links on the way, of which one ends each time."""


async def main(rounds: int, *, silent: bool) -> None:
    """Measure, and print."""
    found: list[float] = []
    async with kept_hubs() as hubs:

        async def start(*, settings: Settings, name: str) -> Hub:
            hub = Hub(settings, name)
            await hub.listen(LOOPBACK)
            hubs.append(hub)
            return hub

        shape = await Shape.start(start, RING)
        (reader,) = await shape.subscribers("/time", at=[2])
        publisher = await shape.hubs[0].client()
        come: list[tuple[float, float]] = []
        works = _publish(publisher), _read(reader, come), _read(publisher, []), _look(shape.hubs)
        tasks = [asyncio.ensure_future(work) for work in works]
        for number in range(rounds):
            await shape.settled()
            edge = EDGES[number % 2]
            begun_s = await _given_up(shape, edge) if silent else _cut(shape, edge)
            await eventually(lambda begun_s=begun_s: come and come[-1][0] > begun_s)  # type: ignore[misc]
            found.append(next(at_s for sent_s, at_s in come if sent_s > begun_s) - begun_s)
            come.clear()
        for task in tasks:
            task.cancel()
        await shape.stop()
    table = Table("links given up" if silent else "links closed", "median ms", "slowest ms")
    table.add_row(str(len(found)), f"{statistics.median(found) * 1e3:.1f}", f"{max(found) * 1e3:.1f}")
    Console().print(table)


def _cut(shape: Shape, edge: tuple[int, int]) -> float:
    """Close a link; return when that was."""
    shape.ways[edge].cut()
    return time.perf_counter()


async def _given_up(shape: Shape, edge: tuple[int, int]) -> float:
    """Let a link swallow everything; return when one of its hubs has noticed that."""
    near, far = (shape.hubs[number] for number in edge)
    links = near.node.links.find(far.node.id), far.node.links.find(near.node.id)
    shape.ways[edge].hold()
    shape.ways[edge].replace()
    begun_s = 0.0
    while (near.node.links.find(far.node.id), far.node.links.find(near.node.id)) == links:
        begun_s = time.perf_counter()
        await asyncio.sleep(0.001)
    return begun_s


async def _look(hubs: list[Hub]) -> None:
    """Look after connections, as the daemon does."""
    while True:
        for hub in hubs:
            hub.later(0.0)
        await asyncio.sleep(0.01)


async def _publish(client: RawClient) -> None:
    while True:
        await client.send(publication("/time", time.perf_counter()))
        await asyncio.sleep(0.001)


async def _read(client: RawClient, come: list[tuple[float, float]]) -> None:
    async for frame in client.frames():
        if frame.kind == Kind.MESSAGES:
            now_s = time.perf_counter()
            come += [(sent_s, now_s) for sent_s in decode_values(frame)]
        elif frame.kind == Kind.PING:
            await client.send(encode_frame(Kind.PONG, frame.body))


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    parser = argparse.ArgumentParser(description="How long a subscriber sees nothing when a link of a mesh is closed.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--silent", action="store_true", help="the link is not closed: nothing passes on it any more")
    given = parser.parse_args()
    asyncio.run(main(given.rounds, silent=given.silent))
