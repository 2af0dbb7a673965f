"""Real hubs as a mesh: whatever its shape, each message reaches each subscriber once, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

import pytest

from hub.settings.sections import MeshSettings
from hub.settings.settings import Settings
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind
from tests.connections.bridge.zeeks import Bridged, Zeek, publishing
from tests.connections.rights.conftest import recognise
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.raw_client import numbered, publication
from tests.links.load import Load
from tests.links.reader import Reader
from tests.links.rows import know_each_other
from tests.links.shapes import CHAIN, RING, SHAPES, Edges, Shape
from tests.websocket.zeek.messages import count

_POLICY = """
[roles.linked]
link = { bring = ["/brought", "/both"], take = ["/taken", "/both"] }

[users]
hub-1 = ["linked"]
"""

StartShape = Callable[[Edges], Awaitable[Shape]]


@pytest.fixture
async def start_shape(start_hub: StartHub) -> AsyncIterator[StartShape]:
    """Start hubs that are linked; their ways are taken away when the test is over."""
    shapes: list[Shape] = []

    async def start(edges: Edges) -> Shape:
        shapes.append(await Shape.start(start_hub, edges))
        return shapes[-1]

    yield start
    for shape in shapes:
        await shape.stop()


@pytest.mark.parametrize("edges", SHAPES.values(), ids=SHAPES)
async def test_each_message_reaches_each_subscriber_once(start_shape: StartShape, edges: Edges) -> None:
    """From every hub to every hub, each publisher's messages whole and in order."""
    shape = await start_shape(edges)
    await shape.settled()
    readers = [Reader(client) for client in await shape.subscribers("/from/")]
    publishers = [await hub.client() for hub in shape.hubs]
    for first in range(0, 3_000, 100):
        for number, publisher in enumerate(publishers):
            await publisher.send(numbered(f"/from/{number}", range(first, first + 100), together=1 + number))
    for reader in readers:
        for number in range(len(publishers)):
            await reader.reach(f"/from/{number}", 2_999)
            assert reader.seen[f"/from/{number}"] == list(range(-1, 3_000))
        await reader.stop()
    for hub in shape.hubs:
        assert hub.node.core.mesh.traffic.repeated_messages == hub.node.core.mesh.traffic.overtaken_messages == 0


async def test_messages_go_only_where_they_are_wanted(start_shape: StartShape) -> None:
    """On a chain, what is wanted in the middle does not reach the end, and what nobody wants leaves no hub."""
    shape = await start_shape(CHAIN)
    (middle,) = await shape.subscribers("/a", at=[1])
    (end,) = await shape.subscribers("/b", at=[3])
    publisher = await shape.hubs[0].client()
    await publisher.send(publication("/c", 0), publication("/a", 1), publication("/b", 2))
    assert await middle.values(1) == [("/a", 1)]
    assert await end.values(1) == [("/b", 2)]
    sent = [hub.node.core.statistics().published_messages_total for hub in shape.hubs]
    assert sent == [3, 2, 1, 1]


async def test_a_ring_whose_links_are_cut_under_load(start_shape: StartShape) -> None:
    """No message comes twice or behind a later one; what is lost is accounted; later everything arrives again."""
    shape = await start_shape(RING)
    readers = [Reader(client) for client in await shape.subscribers("/from/")]
    load = Load([await hub.client() for hub in shape.hubs])
    random = Random("ring")  # noqa: S311 -- to be repeated
    for number in range(40):
        edge = random.choice(RING)
        await eventually(lambda edge=edge: shape.is_linked(*edge))  # type: ignore[misc]
        if number % 8 == 7:
            await shape.silence(*edge)
        else:
            shape.ways[edge].cut()
        await asyncio.sleep(random.random() * 0.05)
    await load.stop()
    await shape.settled()
    until = list(load.published)
    await load.publish(500)
    for hub, reader in zip(shape.hubs, readers, strict=True):
        for number, last in enumerate(load.published):
            await reader.reach(f"/from/{number}", last - 1)
            seen = reader.seen[f"/from/{number}"]
            assert seen[-500:] == list(range(until[number], last))
        await reader.miss(hub.node.core.mesh.traffic.overtaken_messages)
        await reader.stop()
    accounts = [hub.node.accounts for hub in shape.hubs]
    assert sum(one.messages_in_doubt + one.possibly_lost_messages for one in accounts) == 0
    assert 0 < sum(one.lost_messages for one in accounts) == sum(one.missed_messages for one in accounts)


async def test_a_hub_that_comes_back_is_another_one(start_hub: StartHub, start_shape: StartShape) -> None:
    """With another id it takes the place of the one that was there, and messages pass in order both ways."""
    shape = await start_shape(((0, 1),))
    for start in range(0, 2_000, 1_000):
        shape.hubs.append(await start_hub(name="hub-2"))
        await shape.lay(1, 2)
        readers = await shape.subscribers("/from/", at=[0, 2])
        await shape.settled()
        for publisher in readers:
            await publisher.send(numbered("/from/each", range(start, start + 1_000)))
            for reader in readers:
                assert await reader.numbers_and_gaps(start + 1_000, start=start) == list(range(start, start + 1_000))
        for reader in readers:
            reader.close()
        await shape.remove(2)


async def test_a_hub_without_mesh_is_one_hop(start_shape: StartShape) -> None:
    """What it brings stays at the hub that it is linked with, which brings it what enters there, and nothing else."""
    shape = await start_shape(((0, 1), (1, 2)))
    (near, middle, far) = await shape.subscribers("/a")
    peer = await shape.hubs[1].client(role="hub", id=b"old!" * 4, name="old")
    await peer.send(encode_subscription(Kind.SUBSCRIBE, ["/a"]))
    await eventually(lambda: "/a" in shape.hubs[1].handler("old").prefixes)
    for number, client in enumerate((near, middle, far)):
        await client.publish("/a", number)
        for subscriber in (near, middle, far):
            assert await subscriber.values(1) == [("/a", number)]
    await peer.publish("/a", 3)
    assert await middle.values(1) == [("/a", 3)]
    told = await peer.ping()
    assert [frame.body for frame in told if frame.kind == Kind.MESSAGES] == [b"\x01"]
    assert not [frame for frame in told if frame.kind in {Kind.ORIGIN, Kind.ROUTING}]
    assert await near.ping() == await far.ping() == []


async def test_what_a_link_in_the_middle_may_bring_and_take(start_shape: StartShape) -> None:
    """What it may not is refused there, in both directions, and the rest goes on."""
    shape = await start_shape(CHAIN)
    guarded = shape.hubs[2]
    recognise(guarded, policy_of(_POLICY))
    shape.ways[1, 2].cut()
    await eventually(lambda: any(one.rights is not None for one in guarded.node.core.handlers.values()))
    readers = [Reader(client) for client in await shape.subscribers("/", at=[0, 3])]
    await shape.settled()
    for number, reader in ((0, readers[1]), (3, readers[0])):
        publisher = await shape.hubs[number].client()
        for topic in ("/brought/", "/taken/", "/other/", "/both/"):
            await publisher.send(numbered(f"{topic}{number}", range(10)))
        await reader.reach(f"/both/{number}", 9)
        others = {topic for topic in reader.seen if topic.endswith(str(number))}
        assert others == {f"/both/{number}", f"/taken/{number}" if number else f"/brought/{number}"}
    for reader in readers:
        await reader.stop()
    assert guarded.node.audit.refused_total == 20


@pytest.mark.parametrize("linked", ["row", "ring", "ring, late"])
async def test_a_hub_between_cannot_keep_what_is_wanted(start_hub: StartHub, linked: str) -> None:
    """All of it arrives all the same, by that hub or around it, and so does what is left once some is taken back."""
    small = Settings(mesh=MeshSettings(prefixes=60))
    hubs = a, b, c = [await start_hub(name=name, settings=small if name == "b" else None) for name in "abc"]
    a.dial(b)
    b.dial(c)
    if linked == "ring":
        a.dial(c)
    await know_each_other(hubs)
    wanted = [f"/{number:02}" for number in range(100)]
    reader, publisher = await c.client(*wanted), await a.client()
    await eventually(lambda: b.wanted_by(c) == {""})
    if linked == "ring, late":
        await eventually(lambda: a.wanted_by(c) == {""})
        a.dial(c)
    await eventually(lambda: a.wanted_by(c) == ({""} if linked == "row" else set(wanted)))
    await eventually(lambda: all(hub.node.core.mesh.is_settled for hub in hubs))
    await publisher.send(*(publication(topic, 1) for topic in wanted))
    assert await reader.values(100) == [(topic, 1) for topic in wanted]
    await reader.unsubscribe(*wanted[:60])
    await publisher.send(*(publication(topic, 2) for topic in wanted[60:]))
    assert await reader.values(40) == [(topic, 2) for topic in wanted[60:]]
    await eventually(lambda: a.wanted_by(c) == b.wanted_by(c) == set(wanted[60:]))


async def test_everything_is_what_a_link_may_take(start_hub: StartHub) -> None:
    """A hub that is sent everything, as what it wants was not kept, gets only what it may take."""
    a, c = await start_hub(name="a", settings=Settings(mesh=MeshSettings(prefixes=1))), await start_hub(name="hub-1")
    recognise(a, policy_of(_POLICY))
    c.dial(a)
    await know_each_other([a, c])
    reader, publisher = await c.client("/taken/", "/other/"), await a.client()
    await eventually(lambda: a.wanted_by(c) == {""})
    await publisher.send(publication("/other/", 1), publication("/taken/", 2))
    assert await reader.values(1) == [("/taken/", 2)]
    assert a.handler("hub-1").delivered_messages == 1


async def test_a_zeek_reaches_a_client_three_hops_away(start_shape: StartShape) -> None:
    """What a leaf publishes at one end of a chain, and what is published for it at the other end."""
    shape = await start_shape(CHAIN)
    zeek = Zeek()
    await zeek.start()
    (reader,) = await shape.subscribers("/zeek", at=[3])
    async with Bridged(shape.hubs[0], publishing(zeek, "/for/")):
        connection, prefixes = await zeek.greet()
        assert prefixes == ["/zeek"]
        await connection.send(count("/zeek/dns", 7).decode())
        assert (await reader.frame()).topic == b"/zeek/dns"
        await eventually(lambda: shape.hubs[3].wanted_by(shape.hubs[0]) == {"/for/"})
        await reader.publish("/for/zeek", 8)
        assert "/for/zeek" in str(await connection.recv())
    await zeek.crash()
