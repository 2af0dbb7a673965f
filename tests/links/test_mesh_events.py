"""Whoever subscribes to `$hub/mesh` is told what becomes of the mesh, also where it is far away."""

from __future__ import annotations

from typing import Any

from peers.client import MessageStream, connect
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


def told_of(hub: Hub) -> dict[str, Any]:
    return {"hub": hub.node.id.hex(), "name": hub.node.name}


def between(one: Hub, other: Hub) -> list[dict[str, Any]]:
    return sorted([told_of(one), told_of(other)], key=lambda hub: hub["hub"])


async def until(stream: MessageStream, what: str, entry: dict[str, Any]) -> None:
    while entry not in (event := await stream.receive()).value[what]:
        assert event.topic == "$hub/mesh"
        assert event.value["left_out"] == 0


async def test_links_and_hubs_come_and_go(start_hub: StartHub) -> None:
    near, middle, far = await start_hub(name="near"), await start_hub(name="middle"), await start_hub(name="far")
    async with connect(near.url) as client, client.subscribe("$hub/mesh") as events:
        near.dial(middle)
        await until(events, "linked", {"between": between(near, middle), "cost": 1})
        middle.dial(far)
        await until(events, "linked", {"between": between(middle, far), "cost": 1})
        await far.crash()
        await until(events, "cut", {"between": between(middle, far)})


async def test_a_hub_appears_with_its_name(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    async with connect(near.url) as client, client.subscribe("$hub/mesh") as events:
        near.dial(far)
        await until(events, "appeared", told_of(far))
