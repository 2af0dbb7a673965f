"""The mesh as a hub knows it: `$hub/mesh/graph`, and `$hub/mesh/trace`, the way to who wants a topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.mesh.announcement import Announcement
from hub.policy.language import read_policy
from hub.settings.settings import Settings
from peers.admin import graph as graph_module
from peers.admin.services import add_services
from peers.client import Client, connect
from peers.server.server import Server
from tests.hub.fakes import FakeOutlet
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


async def whole(client: Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while page := await client.request("$hub/mesh/graph", {"after": rows[-1]["hub"]} if rows else None):
        rows += page
    return rows


async def test_a_row_of_hubs_as_its_end_knows_it(start_hub: StartHub) -> None:
    """Ids, names, how much is wanted, links with their costs; and whether one cannot be reached."""
    hubs = [await start_hub(name=name, hub_id=bytes([number]) * 16) for number, name in ((1, "a"), (2, "b"), (3, "c"))]
    near, middle, far = hubs
    add_services(near.server)
    near.dial(middle)
    middle.dial(far)
    await far.client("/x", "/y")
    await eventually(lambda: near.wanted_by(far) == {"/x", "/y"})
    ids = [hub.server.id.hex() for hub in hubs]
    async with connect(near.url) as client:
        rows = await whole(client)
        assert [(row["hub"], row["name"], row["own"], row["prefixes"]) for row in rows] == [
            (ids[0], "a", True, 0),
            (ids[1], "b", False, 0),
            (ids[2], "c", False, 2),
        ]
        assert [row["links"] for row in rows] == [{ids[1]: 1}, {ids[0]: 1, ids[2]: 1}, {ids[1]: 1}]
        assert [(row["lost"], row["left_out"]) for row in rows] == [(None, 0)] * 3
        assert [row["link"] is None for row in rows] == [True, False, True]
        assert rows[1]["link"] | {"received_bytes": 0, "sent_bytes": 0, "rates": None} == {
            "received_messages": 0,
            "received_bytes": 0,
            "sent_messages": 0,
            "sent_bytes": 0,
            "path_changes": 0,
            "queued_messages": 0,
            "waiting_s": 0.0,
            "lag_s": None,
            "cost": 1,
            "dropped_messages": 0,
            "rates": None,
            "at": ids[0],
        }
        await middle.stop_dialling()
        await far.crash()
        await eventually(lambda: far.server.id not in near.server.core.mesh.graph.reached)
        lost = (await whole(client))[2]
        assert (lost["hub"], lost["links"]) == (ids[2], {})
        assert lost["lost"] is not None


async def test_zeeks_of_hubs(start_hub: StartHub) -> None:
    near, far = [await start_hub(name=name) for name in ("near", "far")]
    add_services(near.server)
    near.dial(far)
    zeek, name = b"\x11" * 16, "11111111-1111-1111-1111-111111111111"
    far.server.core.leaves.claim(zeek, 1, lambda _: None)
    await eventually(lambda: near.server.core.leaves.gateway_of(zeek) == far.server.id)
    near.server.core.leaves.claim(zeek, 1, lambda _: None)
    async with connect(near.url) as client:
        told = {row["name"]: row["zeeks"] for row in await whole(client)}
    assert told == {"near": {name: False}, "far": {name: True}}


async def test_since_when_a_hub_cannot_be_reached() -> None:
    server, far = Server(Settings()), b"\x01" * 16
    link = Handler(FakeOutlet(), role=Role.LINK, limits=server.settings.queue)
    server.core.attach(link)
    server.core.link(link, far, lambda: None)
    mesh = server.core.mesh
    mesh.hear(link, Announcement(far, 0, 1, "far", ((server.id, 1),), ()))
    mesh.check(100.0)
    mesh.link_down(link)
    server.loop = SimpleNamespace(time=lambda: 130.0, call_soon=lambda _: None)  # type: ignore[assignment]
    server.wall_us = lambda: 1_000_000_000  # type: ignore[method-assign]
    told = [{row["hub"]: row["lost"] for row in graph_module.graph(server)(link, None)}]
    for now_s in (110.0, 112.0):
        mesh.check(now_s)
    told.append({row["hub"]: row["lost"] for row in graph_module.graph(server)(link, None)})
    assert told == [{far.hex(): lost, server.id.hex(): None} for lost in (1000.0, 980.0)]


async def test_pages_hold_about_so_many_hubs_and_links(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = await start_hub(hub_id=b"\xff" * 16)  # the last one, so that each page begins with hubs of many links
    add_services(hub.server)
    others = [bytes([number]) * 16 for number in range(1, 20)]
    mesh = hub.server.core.mesh
    link = Handler(FakeOutlet(), role=Role.LINK, limits=hub.server.settings.queue)
    hub.server.core.attach(link)
    hub.server.core.link(link, others[0], lambda: None)
    for one in others:
        links = tuple((other, 1) for other in (*others, hub.server.id) if other != one)
        mesh.hear(link, Announcement(one, 0, 1, "", links, ()))
    sizes = []
    for page_size in (1, 50, 1000):
        monkeypatch.setattr(graph_module, "PAGE", page_size)
        async with connect(hub.url) as client:
            first = await client.request("$hub/mesh/graph", None)
            sizes.append(len(first))
            rows = await whole(client)
        assert [row["hub"] for row in rows] == sorted(one.hex() for one in (*others, hub.server.id))
        assert sum(len(row["links"]) for row in rows) == 19 * 18 + 2
    assert sizes == [1, 3, 20]


# The way to who wants a topic.


async def row_of_hubs(start_hub: StartHub) -> list[Hub]:
    hubs = [await start_hub(name=name, hub_id=bytes([number]) * 16) for number, name in enumerate(("a", "b", "c"), 1)]
    near, middle, far = hubs
    add_services(near.server)
    near.dial(middle)
    middle.dial(far)
    await far.client("/far", "/all")
    for hub in (near, middle):
        await hub.client("/all")
    await eventually(lambda: near.wanted_by(far) == {"/far", "/all"} and near.wanted_by(middle) == {"/all"})
    return hubs


def row(hub: Hub, before: Hub | None, cost: int | None, **fields: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"hub": hub.server.id.hex(), "name": hub.server.name, "own": before is None, "wants": False}
    return told | {"before": before and before.server.id.hex(), "cost": cost, "barred": False} | fields


async def test_a_row_of_hubs(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    near, middle, far = await row_of_hubs(start_hub)
    async with connect(near.url) as client:
        expected = [row(near, None, 0), row(middle, near, 1), row(far, middle, 2, wants=True)]
        assert await client.request("$hub/mesh/trace", {"topic": "/far/away"}) == expected
        everywhere = [one | {"wants": True} for one in expected]
        assert await client.request("$hub/mesh/trace", {"topic": "/all"}) == everywhere
        assert await client.request("$hub/mesh/trace", {"topic": "/nowhere"}) == []
        monkeypatch.setattr(graph_module, "PAGE", 2)
        assert await client.request("$hub/mesh/trace", {"topic": "/all"}) == everywhere[:2]
        after = {"topic": "/all", "after": middle.server.id.hex()}
        assert await client.request("$hub/mesh/trace", after) == everywhere[2:]


async def test_a_link_that_may_not_take_it(start_hub: StartHub) -> None:
    near, middle, far = await row_of_hubs(start_hub)
    policy = read_policy({"roles": {"site": {"link": {"bring": ["*"], "take": ["/all"]}}}}, "a test")
    (link,) = (one for one in near.server.core.handlers.values() if one.role is Role.LINK)
    link.rights = policy.rights("b", ("site",))
    near.server.core.authority.adopt(policy)
    async with connect(near.url) as client:
        rows = await client.request("$hub/mesh/trace", {"topic": "/far"})
        assert rows == [row(near, None, 0), row(middle, near, 1, barred=True), row(far, middle, 2, wants=True)]
        assert not any(one["barred"] for one in await client.request("$hub/mesh/trace", {"topic": "/all"}))
