"""Real hubs as a mesh: whatever its shape, each message reaches each subscriber once, and in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hub.settings.sections import MeshSettings
from hub.settings.settings import Settings
from tests.connections.bridge.zeeks import Bridged, Zeek, publishing
from tests.connections.rights.conftest import recognise
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.raw_client import numbered, publication
from tests.links.reader import Reader
from tests.links.rows import know_each_other
from tests.links.shapes import CHAIN, SHAPES, Edges, Shape
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
    shapes: list[Shape] = []

    async def start(edges: Edges) -> Shape:
        shapes.append(await Shape.start(start_hub, edges))
        return shapes[-1]

    yield start
    for shape in shapes:
        await shape.stop()


@pytest.mark.parametrize("edges", SHAPES.values(), ids=SHAPES)
async def test_each_message_reaches_each_subscriber_once(start_shape: StartShape, edges: Edges) -> None:
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


async def test_what_a_link_in_the_middle_may_bring_and_take(start_shape: StartShape) -> None:
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
