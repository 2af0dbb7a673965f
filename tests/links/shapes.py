"""`Shape`: real hubs, linked as a test wants them, with a way between each two that the test may cut and heal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from hub.delivery import Role
from hub.overflow import QueueLimits
from peers.wire.hello import QueueWish
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.hubs.settings import settings_of
from tests.links.way import Way

__all__ = ["CHAIN", "FULL", "RING", "SHAPES", "STAR", "Edges", "Shape"]

Edges = tuple[tuple[int, int], ...]

CHAIN: Edges = ((0, 1), (1, 2), (2, 3))
STAR: Edges = ((0, 1), (0, 2), (0, 3))
RING: Edges = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
FULL: Edges = tuple(combinations(range(4), 2))
SHAPES = {"chain": CHAIN, "star": STAR, "ring": RING, "full": FULL}

_ROOMY = QueueLimits(messages=1_000_000)


class Shape:
    """Hubs, numbered from 0, and the ways between them: the first of each two dials the second."""

    def __init__(self, hubs: list[Hub]) -> None:
        self.hubs = hubs
        self.ways: dict[tuple[int, int], Way] = {}

    @classmethod
    async def start(cls, start_hub: StartHub, edges: Edges) -> Shape:
        settings = settings_of(queue=_ROOMY, ping_after_s=2.0, ping_timeout_s=1.0)
        count = 1 + max(max(edge) for edge in edges)
        shape = cls([await start_hub(name=f"hub-{number}", settings=settings) for number in range(count)])
        for edge in edges:
            await shape.lay(*edge)
        await shape.whole()
        return shape

    async def lay(self, near: int, far: int) -> Way:
        way = self.ways[near, far] = await Way(self.hubs[far].endpoint).start()
        self.hubs[near].dial(way)
        return way

    async def remove(self, number: int) -> None:
        gone = self.hubs.pop(number)
        assert number == len(self.hubs), "hubs keep their numbers"
        for edge in [edge for edge in self.ways if number in edge]:
            await self.ways.pop(edge).stop()
        await gone.stop()
        await self.settled()

    async def stop(self) -> None:
        for hub in self.hubs:
            await hub.stop_dialling()
        for way in self.ways.values():
            await way.stop()

    def is_linked(self, near: int, far: int) -> bool:
        ends = ((self.hubs[near], self.hubs[far]), (self.hubs[far], self.hubs[near]))
        return all(other.node.id in hub.node.core.mesh.records[hub.node.id].neighbours for hub, other in ends)

    async def whole(self) -> None:
        await eventually(self._is_whole)

    def _is_whole(self) -> bool:
        ids = [hub.node.id for hub in self.hubs]
        links = {(ids[near], ids[far]) for near, far in self.ways}
        both = links | {(far, near) for near, far in links}
        for hub in self.hubs:
            graph = hub.node.core.mesh.graph
            known = {(near, far) for near in graph.reached for far in graph.links[near]}
            others = [other for other in self.hubs if other is not hub]
            if known != both or any(hub.wanted_by(other) != wants(other) for other in others):
                return False
        return True

    async def subscribers(self, *prefixes: str, at: Iterable[int] | None = None) -> list[RawClient]:
        numbers = range(len(self.hubs)) if at is None else at
        queue = QueueWish(messages=1_000_000, bytes=1 << 30)
        clients = [await self.hubs[number].client(*prefixes, queue=queue) for number in numbers]
        await self.whole()
        return clients

    async def settled(self) -> None:
        await self.whole()
        await eventually(lambda: all(hub.node.core.mesh.is_settled for hub in self.hubs))

    async def silence(self, near: int, far: int, *, of_near: bool = True, of_far: bool = True) -> None:
        ends = self.hubs[near], self.hubs[far]
        before = self._link(*ends), self._link(*ends[::-1])
        way = self.ways[near, far]
        way.hold(near=of_near, far=of_far)
        way.replace()
        while self._link(*ends) in {before[0], None} or self._link(*ends[::-1]) in {before[1], None}:
            for hub in ends:
                hub.later(1.0)
            # A client that is slow to answer is not silent: another second must not pass before its answer is here.
            await eventually(lambda: not any(_is_asked(client) for hub in ends for client in _clients(hub)))
            await asyncio.sleep(0.01)

    @staticmethod
    def _link(hub: Hub, other: Hub) -> object:
        return hub.node.links.find(other.node.id)


def _clients(hub: Hub) -> list[Any]:
    return [one for one in hub.connections if one.handler is not None and one.handler.role is Role.CLIENT]


def _is_asked(connection: Any) -> bool:
    liveness = connection.liveness
    return bool(liveness._pinged_s > liveness.heard_s)


def wants(hub: Hub) -> set[str]:
    return set(hub.node.core.prefixes.asked_of_links.minimal)
