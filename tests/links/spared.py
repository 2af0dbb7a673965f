"""`Spared`: a real hub that dials spares. The test says when it looks, and puts its clock forward for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hub.mesh.disjoint import has_ways
from hub.settings.limits import Limits
from hub.settings.mesh import MeshSettings
from hub.settings.settings import Settings
from peers.connections.learned import Learned
from peers.connections.spare_dialler import SpareDialler
from peers.transport.endpoints import Endpoint
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

__all__ = ["Spared", "looking_until", "spare_settings", "start_spared"]

_ROUND_S = 1.0
"""How far clocks are put forward for each look."""

_REST_S = 0.01
"""How long sockets have for what follows."""


def spare_settings(degree: int = 2, **other: Any) -> Settings:
    """Settings of a hub that has patience with clients of tests, which answer no PING while its clock runs ahead."""
    limits = msgspec.structs.replace(Limits(), ping_after_s=86_400.0)
    return Settings(mesh=MeshSettings(degree=degree), limits=limits, **other)


class Spared:
    """One of them."""

    def __init__(self, hub: Hub, peers: Iterable[Endpoint] = ()) -> None:
        self.hub = hub
        self.dialler = SpareDialler(hub.node, Learned(hub.node, tuple(peers)))

    @property
    def id(self) -> bytes:
        """Of the hub."""
        return self.hub.node.id

    @property
    def spares(self) -> set[bytes]:
        """The hubs to which it has spares."""
        return set(self.hub.node.spares.hubs)

    @property
    def attempts(self) -> int:
        """How often it has dialled."""
        return self.hub.node.spares.statistics().attempts_total

    def has_ways(self, other: Spared, count: int = 2) -> bool:
        """Whether it knows of so many ways to another one."""
        links = self.hub.node.core.mesh.graph.links
        return other.id in links and has_ways(links, self.id, other.id, count)

    def look(self) -> None:
        """Let a second pass."""
        self.hub.later(_ROUND_S)
        self.dialler.look()


async def start_spared(
    start_hub: StartHub, *names: str, degree: int = 2, settings: Settings | None = None
) -> list[Spared]:
    """Start hubs that advertise where they listen, with ids in the order of their names."""
    made = settings or spare_settings(degree)
    spared: list[Spared] = []
    for number, name in enumerate(names, 1):
        hub = await start_hub(name=name, hub_id=bytes([number]) * 16, settings=made)
        hub.node.core.mesh.records[hub.node.id].addresses = (hub.url,)
        spared.append(Spared(hub))
    return spared


async def looking_until(members: Iterable[Spared], condition: Callable[[], object]) -> None:
    """Let seconds pass until something is the case; the time limit of the test is the only one."""
    while not condition():
        for member in members:
            member.look()
        await asyncio.sleep(_REST_S)
