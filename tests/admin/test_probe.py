"""`$hub/mesh/probe`: a probe crosses real hubs, and each of them tells of it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hub.errors import ClosedError, NotAllowedError, RequestFailedError
from hub.mesh.announcement import Announcement
from hub.origin import Origin
from hub.policy.language import read_policy
from peers.admin.probe import ROWS_LIMIT
from peers.admin.services import add_services
from peers.client import connect
from peers.node.node import Node
from peers.wire.control import Notice, decode_notice
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.origin import encode_origin
from peers.wire.probe import Probe, ProbeReport, encode_probe
from peers.wire.routing import encode_routing
from tests.admin.conftest import give_rights
from tests.admin.test_trace import row_of_hubs
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.links.shapes import CHAIN, RING, SHAPES, Edges, Shape

PATIENT = 10.0
"""For hubs that answer: then nobody waits so long."""


async def probed(hub: Hub, topic: str, wait: float = PATIENT) -> list[dict[str, Any]]:
    """Ask a hub."""
    async with connect(hub.url) as client:
        rows: list[dict[str, Any]] = await client.request("$hub/mesh/probe", {"topic": topic, "wait": wait})
        return rows


def seen(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Of each hub its name, the name of the one before it, hops, outcome, subscribers."""
    names = {row["hub"]: row["name"] for row in rows}
    return [(row["name"], names.get(row["before"]), row["hops"], row["outcome"], row["subscribers"]) for row in rows]


async def test_a_row_of_hubs(start_hub: StartHub) -> None:
    """Each hub tells of it; times are measured, and derived, for each; the rest is as things are."""
    near, middle, far = await row_of_hubs(start_hub)
    rows = await probed(near, "/far/away")
    assert seen(rows) == [("a", None, 0, "taken", 0), ("b", "a", 1, "taken", 0), ("c", "b", 2, "taken", 1)]
    own, second, third = rows
    assert [row["own"] for row in rows] == [True, False, False]
    assert own["links"] == [{"hub": middle.node.id.hex(), "name": "b", "state": "sent"}]
    assert second["links"] == [{"hub": far.node.id.hex(), "name": "c", "state": "sent"}]
    assert third["links"] == []
    assert (own["round_trip_ms"], own["waited_ms"], own["link_ms"]) == (0.0, None, None)
    assert 0 < second["round_trip_ms"] <= third["round_trip_ms"]
    for row, before in ((second, own), (third, second)):
        rest = row["round_trip_ms"] - before["round_trip_ms"] - row["waited_ms"]
        assert row["link_ms"] == pytest.approx(max(0.0, rest))
    assert all(row["at"] > 1_600_000_000 for row in rows)
    assert [row["unwanted"] for row in rows] == [0, 0, 0]
    assert [hub.node.probes.asked_total for hub in (near, middle, far)] == [1, 0, 0]


async def test_who_wants_nothing(start_hub: StartHub) -> None:
    """Nothing is sent there; a topic that nobody wants goes nowhere, and the answer comes at once."""
    near, middle, far = await row_of_hubs(start_hub)
    add_services(middle.node)
    rows = await probed(middle, "/far")
    assert seen(rows) == [("b", None, 0, "taken", 0), ("c", "b", 1, "taken", 1)]
    assert rows[0]["unwanted"] == 1
    rows = await probed(near, "/nowhere")
    assert seen(rows) == [("a", None, 0, "taken", 0)]
    assert (rows[0]["links"], rows[0]["unwanted"]) == ([], 1)
    assert far.node.probes.passed_total == 1


@pytest.mark.parametrize("edges", SHAPES.values(), ids=SHAPES.keys())
async def test_shapes(start_hub: StartHub, edges: Edges) -> None:
    """Each hub tells once, whatever the shape; and messages go on in their order, without a probe among them."""
    shape = await Shape.start(start_hub, edges)
    readers = await shape.subscribers("/a")
    await shape.settled()
    add_services(shape.hubs[0].node)
    writer = await shape.hubs[0].client()
    for number in range(5):
        await writer.publish("/a", number)
        rows = await probed(shape.hubs[0], "/a")
        assert sorted(row["name"] for row in rows) == sorted(hub.node.name for hub in shape.hubs)
        assert {row["outcome"] for row in rows} == {"taken"}
        assert {row["subscribers"] for row in rows} == {1}
    for reader in readers:
        assert await reader.values(5) == [("/a", number) for number in range(5)]
    await shape.stop()


async def test_the_way_changes_with_the_links(start_hub: StartHub) -> None:
    """A probe after a cut takes the way that messages take then."""
    shape = await Shape.start(start_hub, RING)
    await shape.subscribers("/a", at=[1])
    await shape.settled()
    add_services(shape.hubs[0].node)
    assert seen(await probed(shape.hubs[0], "/a"))[1:] == [("hub-1", "hub-0", 1, "taken", 1)]
    await shape.ways.pop((0, 1)).stop()
    await shape.settled()
    rows = await probed(shape.hubs[0], "/a")
    assert [(row["name"], row["hops"]) for row in rows] == [
        (f"hub-{n}", hops) for hops, n in enumerate((0, 4, 3, 2, 1))
    ]
    await shape.stop()


async def test_while_links_come_and_go(start_hub: StartHub) -> None:
    """Each hub has one row, whatever becomes of the probe; once all is settled, it comes everywhere again."""
    shape = await Shape.start(start_hub, RING)
    await shape.subscribers("/a")
    near = shape.hubs[0]
    add_services(near.node)
    ids = {hub.node.id.hex() for hub in shape.hubs}
    for number, way in enumerate(shape.ways.values()):
        asking = [asyncio.ensure_future(probed(near, "/a", wait=0.1)) for _ in range(3)]
        await eventually(lambda begun=3 * number: near.node.probes.asked_total > begun)
        way.cut()
        for rows in await asyncio.gather(*asking):
            assert {row["hub"] for row in rows} <= ids
            assert len({row["hub"] for row in rows}) == len(rows)
            assert rows[0]["own"]
        await shape.whole()
    await shape.settled()
    rows = await probed(near, "/a")
    assert {row["hub"] for row in rows} == ids
    assert {row["outcome"] for row in rows} == {"taken"}
    await shape.stop()


async def test_a_link_that_swallows_everything(start_hub: StartHub) -> None:
    """Who has not told anything in time is named; so is who is behind it. What comes later is dropped, and counted."""
    shape = await Shape.start(start_hub, CHAIN)
    await shape.subscribers("/a", at=[3])
    near = shape.hubs[0]
    add_services(near.node)
    way = shape.ways[1, 2]
    way.hold()
    wait = 0.05
    while (rows := await probed(near, "/a", wait=wait))[1]["outcome"] == "silent":  # a machine with other work
        wait = min(PATIENT, 2 * wait)
    assert seen(rows) == [
        ("hub-0", None, 0, "taken", 0),
        ("hub-1", "hub-0", 1, "taken", 0),
        ("hub-2", "hub-1", 2, "silent", None),
        ("hub-3", "hub-2", 3, "not reached", None),
    ]
    assert rows[2]["round_trip_ms"] is None
    way.release()
    await eventually(lambda: near.node.probes.dropped_reports_total >= 2)
    assert {row["outcome"] for row in await probed(near, "/a")} == {"taken"}
    await shape.stop()


async def test_a_hub_of_an_earlier_version(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one hop away, and told of; a message goes there, and no probe."""
    near, middle, far = [await start_hub(name=name) for name in "abc"]
    said = middle.node.hello

    def hello(*given: Any, **fields: Any) -> Hello:
        return msgspec.structs.replace(said(*given, **fields), mesh=3)

    monkeypatch.setattr(middle.node, "hello", hello)
    add_services(near.node)
    near.dial(middle)
    middle.dial(far)
    reader = await far.client("/a")
    await eventually(lambda: near.wanted_by(far) == {"/a"})
    rows = await probed(near, "/a")
    assert seen(rows) == [
        ("a", None, 0, "taken", 0),
        ("b", "a", 1, "earlier", None),
        ("c", "b", 2, "not reached", None),
    ]
    assert middle.node.probes.passed_total == far.node.probes.passed_total == 0
    await (await near.client()).publish("/a", 1)
    assert await reader.values(1) == [("/a", 1)]


async def test_a_hub_without_a_mesh(hub: Hub) -> None:
    """It is told of, with its name; no probe goes there."""
    peer = await hub.client("/a", role="hub", id=b"peer" * 4, name="peer")
    assert seen(await probed(hub, "/a")) == [("hub", None, 0, "taken", 0), ("peer", "hub", 1, "earlier", None)]
    assert await peer.ping() == []


async def test_policies(start_hub: StartHub) -> None:
    """What keeps a message back keeps the probe back, and is named: by the hub that sends, or that takes."""
    near, middle, far = await row_of_hubs(start_hub)
    policy = read_policy({"roles": {"site": {"link": {"bring": ["/all"], "take": ["/all"]}}}}, "a test")
    for hub, row in (
        (near, ("b", "a", 1, "policy", None)),
        (middle, ("b", "a", 1, "policy", None)),
    ):
        link = next(one for one in hub.node.core.handlers.values() if one.name == ("b" if hub is near else "a"))
        hub.node.core.authority.adopt(policy)
        hub.node.core.authority.give_rights(link, policy.rights("site", ("site",)))
        assert seen(await probed(near, "/far")) == [
            ("a", None, 0, "taken", 0),
            row,
            ("c", "b", 2, "not reached", None),
        ]
        assert len(await probed(near, "/all")) == 3
        hub.node.core.authority.give_rights(link, None)
        hub.node.core.authority.adopt(None)
    assert far.node.probes.passed_total == 2


async def test_a_hub_that_cannot_be_reached(start_hub: StartHub) -> None:
    """It wants the topic, as far as is known, and no way leads there."""
    near, middle, far = await row_of_hubs(start_hub)
    await middle.stop_dialling()
    await far.crash()
    await eventually(lambda: far.node.id not in near.node.core.mesh.graph.reached)
    assert seen(await probed(near, "/far"))[1:] == [("c", None, None, "unreachable", None)]


async def test_what_a_peer_makes_up(hub: Hub) -> None:
    """Odd probes get one notice each, and the link goes on; rows are bounded, whatever a peer tells of others."""
    peer_id = b"peer" * 4
    peer = await hub.client(role="hub", id=peer_id, name="peer", mesh=4)
    node: Node = hub.node
    probe = encode_probe(Probe(1, "/a", 1, 0))
    told: list[Notice] = []
    for origin in (Origin(node.id, 1), Origin(b"x" * 16, 1)):
        await peer.send(encode_origin(origin), probe)
        told += [decode_notice(frame.body) for frame in await peer.ping() if frame.kind == Kind.NOTICE]
    assert [(notice.code, notice.text.partition(", ")[2]) for notice in told] == [
        (1007, "which is this hub itself"),
        (1007, "which is not known here"),
    ]
    before = next(iter(node.core.handlers.values()))
    assert not before.closed
    assert node.probes.refused_total == 2
    await hub_wants(peer, node.id, peer_id)
    await eventually(lambda: node.core.routes.find("/a").far)
    async with connect(hub.url) as client:
        asking = asyncio.ensure_future(client.request("$hub/mesh/probe", {"topic": "/a", "wait": PATIENT}))
        await eventually(lambda: node.probes.asked_total)
        for number in range(100):
            links = tuple(((1000 * (number + 1) + one).to_bytes(16, "big"), "no reason") for one in range(100))
            report = ProbeReport(node.id, 1, b"%16d" % number, peer_id, 1, 0, 0, "odd", 0, links, 0)
            await peer.send(encode_probe(report))
        await peer.send(encode_probe(ProbeReport(node.id, 1, peer_id, node.id, 1, 0, 0, "taken", 0, (), 0)))
        rows = await asking
    assert len(rows) == ROWS_LIMIT
    assert {row["outcome"] for row in rows} == {"taken", "odd", "no reason"}


async def hub_wants(peer: RawClient, hub_id: bytes, peer_id: bytes) -> None:
    """Let a peer announce that it wants /a."""
    for frame in encode_routing(Announcement(peer_id, 0, 1, "peer", ((hub_id, 1),), ("/a",)), 1 << 20):
        await peer.send(frame)


BAD = [
    (None, "expected a map"),
    ({}, "expected a map"),
    ({"topic": ""}, "topic is empty"),
    ({"topic": "/\n"}, "control character"),
    ({"topic": "$hub/mesh"}, "do not cross links"),
    ({"topic": "/a", "wait": 0}, "expected 0.01 to 10 seconds"),
    ({"topic": "/a", "wait": 11}, "expected 0.01 to 10 seconds"),
    ({"topic": "/a", "wait": float("nan")}, "expected 0.01 to 10 seconds"),
    ({"topic": "/a", "to": 1}, "expected a map"),
]


@pytest.mark.parametrize(("value", "why"), BAD)
async def test_what_makes_no_sense(hub: Hub, value: Any, why: str) -> None:
    """It fails, with one line that says why; nothing was asked."""
    async with connect(hub.url) as client:
        with pytest.raises(RequestFailedError, match=why) as failed:
            await client.request("$hub/mesh/probe", value)
        assert "\n" not in str(failed.value)
    assert hub.node.probes.asked_total == 0


async def test_who_is_no_admin(hub: Hub) -> None:
    """It is refused: what somebody wants elsewhere is not for everybody."""
    async with connect(hub.url, name="bob") as client:
        give_rights(hub, bob="bob")
        with pytest.raises(NotAllowedError):
            await client.request("$hub/mesh/probe", {"topic": "/a"})


async def test_whoever_asks_may_leave(start_hub: StartHub) -> None:
    """The hub waits no longer than it was asked to, and keeps nothing."""
    shape = await Shape.start(start_hub, ((0, 1),))
    await shape.subscribers("/a", at=[1])
    near = shape.hubs[0]
    add_services(near.node)
    shape.ways[0, 1].hold()
    async with connect(near.url) as client:
        asking = asyncio.ensure_future(client.request("$hub/mesh/probe", {"topic": "/a", "wait": 0.05}))
        await eventually(lambda: near.node.probes.asked_total)
    with pytest.raises(ClosedError):
        await asking
    await eventually(lambda: not near.node.probes.awaited)
    await shape.stop()
