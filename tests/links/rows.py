"""Hubs in a row, each linked with the one before it."""

from __future__ import annotations

from itertools import pairwise

from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

__all__ = ["know_each_other", "row"]


async def row(start_hub: StartHub, *names: str) -> list[Hub]:
    hubs = [await start_hub(name=name) for name in names]
    for one, other in pairwise(hubs):
        one.dial(other)
    await know_each_other(hubs)
    return hubs


async def know_each_other(hubs: list[Hub]) -> None:
    await eventually(lambda: all(len(hub.node.core.mesh.graph.reached) == len(hubs) for hub in hubs))
