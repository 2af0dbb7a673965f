"""`$hub/mesh/trace`: which hubs want a topic, and the way there."""

from __future__ import annotations

from typing import Any

import pytest

from hub.delivery import Role
from hub.policy.language import read_policy
from peers.admin import graph as trace_module
from peers.admin.services import add_services
from peers.client import connect
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


async def row_of_hubs(start_hub: StartHub) -> list[Hub]:
    hubs = [await start_hub(name=name, hub_id=bytes([number]) * 16) for number, name in enumerate(("a", "b", "c"), 1)]
    near, middle, far = hubs
    add_services(near.node)
    near.dial(middle)
    middle.dial(far)
    await far.client("/far", "/all")
    for hub in (near, middle):
        await hub.client("/all")
    await eventually(lambda: near.wanted_by(far) == {"/far", "/all"} and near.wanted_by(middle) == {"/all"})
    return hubs


def row(hub: Hub, before: Hub | None, cost: int | None, **fields: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"hub": hub.node.id.hex(), "name": hub.node.name, "own": before is None, "wants": False}
    return told | {"before": before and before.node.id.hex(), "cost": cost, "barred": False} | fields


async def test_a_row_of_hubs(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    near, middle, far = await row_of_hubs(start_hub)
    async with connect(near.url) as client:
        expected = [row(near, None, 0), row(middle, near, 1), row(far, middle, 2, wants=True)]
        assert await client.request("$hub/mesh/trace", {"topic": "/far/away"}) == expected
        everywhere = [one | {"wants": True} for one in expected]
        assert await client.request("$hub/mesh/trace", {"topic": "/all"}) == everywhere
        assert await client.request("$hub/mesh/trace", {"topic": "/nowhere"}) == []
        monkeypatch.setattr(trace_module, "PAGE", 2)
        assert await client.request("$hub/mesh/trace", {"topic": "/all"}) == everywhere[:2]
        after = {"topic": "/all", "after": middle.node.id.hex()}
        assert await client.request("$hub/mesh/trace", after) == everywhere[2:]


async def test_a_hub_that_cannot_be_reached(start_hub: StartHub) -> None:
    near, middle, far = await row_of_hubs(start_hub)
    await middle.stop_dialling()
    await far.crash()
    await eventually(lambda: far.node.id not in near.node.core.mesh.graph.reached)
    async with connect(near.url) as client:
        lost = row(far, None, None, wants=True, own=False)
        assert await client.request("$hub/mesh/trace", {"topic": "/far"}) == [lost]


async def test_a_link_that_may_not_take_it(start_hub: StartHub) -> None:
    near, middle, far = await row_of_hubs(start_hub)
    policy = read_policy({"roles": {"site": {"link": {"bring": ["*"], "take": ["/all"]}}}}, "a test")
    (link,) = (one for one in near.node.core.handlers.values() if one.role is Role.LINK)
    link.rights = policy.rights("b", ("site",))
    near.node.core.authority.adopt(policy)
    async with connect(near.url) as client:
        rows = await client.request("$hub/mesh/trace", {"topic": "/far"})
        assert rows == [row(near, None, 0), row(middle, near, 1, barred=True), row(far, middle, 2, wants=True)]
        assert not any(one["barred"] for one in await client.request("$hub/mesh/trace", {"topic": "/all"}))
