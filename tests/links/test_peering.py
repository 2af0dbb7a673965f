"""Hubs that peer: what they tell each other, what they forward, which links stay, and how they come back."""

from __future__ import annotations

import asyncio
import socket

from hub.errors import CloseCode
from hub.handlers.delivery import Role
from hub.limits import QueueLimits
from hub.messages.frame import encode_frame
from peers.transport.transport import UNSENT_BYTES
from peers.wire.hello import Hello, QueueWish
from peers.wire.kinds import Kind
from peers.wire.routing import AnnouncementPart, decode_routing
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.mesh_peer import PEER_ID, MeshPeer, hub_hello
from tests.hubs.raw_client import numbered, publication
from tests.hubs.settings import settings_of


async def link(source: Hub, target: Hub) -> None:
    source.dial(target)
    await eventually(lambda: wants(source, target.server.name, target) and wants(target, source.server.name, source))


def is_linked(hub: Hub, name: str) -> bool:
    return any(one.role is Role.LINK and one.name == name for one in hub.server.core.handlers.values())


def wants(hub: Hub, name: str, other: Hub) -> bool:
    return is_linked(hub, name) and hub.wanted_by(other) == set(other.server.core.prefixes.asked_of_links.minimal)


async def test_little_is_unsent_between_hubs(north: Hub, south: Hub) -> None:
    await north.client("/a")
    await link(north, south)
    assert unsent_bytes(north) == [0, UNSENT_BYTES]
    assert unsent_bytes(south) == [UNSENT_BYTES]


def unsent_bytes(hub: Hub) -> list[int]:
    socks = [one.transport.get_extra_info("socket") for one in hub.server.connections]
    return sorted(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) for sock in socks)


# Filters.


async def test_changes_are_told(north: Hub, south: Hub) -> None:
    await north.client("/a", "/a/b", "/c/d")
    await link(north, south)
    assert (north.wanted_by(south), south.wanted_by(north)) == (set(), {"/a", "/c/d"})
    client = await south.client("/a/b", "/a/c")
    await eventually(lambda: north.wanted_by(south) == {"/a/b", "/a/c"})
    await client.subscribe("/a/")
    await eventually(lambda: north.wanted_by(south) == {"/a/"})
    await client.unsubscribe("/a/")
    await eventually(lambda: north.wanted_by(south) == {"/a/b", "/a/c"})
    client.close()
    await eventually(lambda: not north.wanted_by(south))
    assert set(north.server.core.prefixes.asked_of_links.minimal) == {"/a", "/c/d"}


# Messages.


async def test_messages_cross_where_they_are_wanted(north: Hub, south: Hub) -> None:
    in_south, in_north = await south.client("/a"), await north.client("/b")
    await link(north, south)
    publisher = await north.client()
    await publisher.send(publication("/b", 1), publication("/unwanted", 2), publication("/a", 3))
    assert await in_south.values(1) == [("/a", 3)]
    assert await in_north.values(1) == [("/b", 1)]
    assert north.handler("south").delivered_messages == 1
    await in_south.publish("/b", 4)
    assert await in_north.values(1) == [("/b", 4)]


async def test_the_hubs_own_topics_do_not_cross(north: Hub, south: Hub) -> None:
    watcher = await north.client("")
    await link(north, south)
    await south.client(name="in the south")
    guest = await south.client()
    await guest.publish("/end", 1)
    seen: list[str] = []
    while seen[-1:] != ["/end"]:
        seen += [topic for topic, _ in await watcher.values(1)]
    assert [topic for topic in seen if topic != "$hub/mesh"] == ["$hub/peer/joined", "/end"]


async def test_a_peer_may_not_publish_the_hubs_own_topics(north: Hub) -> None:
    watcher = await north.client("$hub/peer/")
    peer = await raw_link(north)
    assert [topic for topic, _ in await watcher.values(1)] == ["$hub/peer/joined"]
    await peer.send(encode_frame(Kind.MESSAGES, b"\xc0", key=b"$hub/peer/joined"))
    assert [frame.kind for frame in await peer.ping()] == [Kind.NOTICE]
    assert await watcher.ping() == []
    assert is_linked(north, "peer")


# A peer that does not read.


async def raw_link(hub: Hub, *prefixes: str, name: str = "peer", hub_id: bytes = PEER_ID) -> MeshPeer:
    return await hub.peer(*prefixes, receive_bytes=4096, name=name, id=hub_id)


async def test_a_link_that_stalls(start_hub: StartHub) -> None:
    north = await start_hub(settings=settings_of(queue=QueueLimits(messages=100)))
    await raw_link(north, "/flood")
    reader = await north.client("/flood", queue=QueueWish(messages=1_000_000))
    publisher = await north.client()
    total = 0
    while north.handler("peer").dropped_messages < 2000:
        await publisher.send(numbered("/flood", range(total, total + 500), padding=1000))
        await publisher.ping()
        total += 500
    assert await reader.numbers_and_gaps(total) == list(range(total))
    assert north.handler("peer").statistics().queued_messages == 100


async def test_changes_wait_for_a_link_that_stalls(north: Hub) -> None:
    peer = await raw_link(north, "/flood")
    publisher = await north.client()
    while north.handler("peer").writable:
        await publisher.send(publication("/flood", bytes(10_000)) * 20)
        await publisher.ping()
    client = await north.client()
    for number in range(300):
        await client.subscribe(f"/{number}")
        await client.unsubscribe(f"/{number}")
    await client.subscribe("/last")
    peer.quiet = frozenset()
    told = set[object]()
    async for frame in peer.frames():
        if frame.kind == Kind.ROUTING and isinstance(part := decode_routing(frame.body), AnnouncementPart):
            told.update(part.added)
            if "/last" in told:
                break
    assert len(told) < 30  # some as they stood while it still read


# Which links stay.


async def test_a_second_link_is_refused(north: Hub) -> None:
    first = await raw_link(north)
    first.is_ponging = False
    for _ in range(2):
        second = await north.raw()
        await second.send(hub_hello(name="second"))
        while (asked := await first.frame()).kind != Kind.PING:
            pass
        await first.send(encode_frame(Kind.PONG, asked.body))
        code, text = await second.end()
        assert code == CloseCode.ALREADY_CONNECTED
        assert text == f"already connected: one link between two hubs is enough, hub {PEER_ID.hex()} has one"
    assert len(north.server.links) == 1
    assert is_linked(north, "peer")
    await raw_link(north, name="another", hub_id=b"\x78" * 16)
    assert len(north.server.links) == 2


async def test_two_hubs_that_dial_each_other(north: Hub, south: Hub) -> None:
    diallers = [north.dial(south), south.dial(north)]
    reader = await south.client("/a")
    await eventually(lambda: any(dialler.last_reason.endswith("(4009)") for dialler in diallers))
    await eventually(lambda: is_linked(north, "south") and wants(north, "south", south))
    await settle()
    ends = [socket_ends(hub) for hub in (north, south)]
    assert len(ends[0]) == len(ends[1]) == 1
    assert ends[0] == [end[::-1] for end in ends[1]]
    publisher = await north.client()
    await publisher.publish("/a", 1)
    await publisher.publish("/a", 2)
    assert await reader.values(2) == [("/a", 1), ("/a", 2)]


def socket_ends(hub: Hub) -> list[tuple[object, object]]:
    transports = [one.outlet.transport for one in hub.server.core.handlers.values() if one.role is Role.LINK]  # type: ignore[attr-defined]
    return [(one.get_extra_info("sockname"), one.get_extra_info("peername")) for one in transports]


async def test_a_client_is_no_peer(start_hub: StartHub) -> None:
    hub = await start_hub()
    other = await start_hub()
    await other.stop_listening()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(Hello(protocol=1, role="client").encode())
        said.extend(await reader.read(-1))
        writer.close()

    said = bytearray()
    server = await asyncio.start_server(answer, "127.0.0.1", other.endpoint.port)
    dialler = hub.dial(other)
    await eventually(lambda: dialler.last_reason != "")
    server.close()
    assert dialler.last_reason == "a peer must be a hub, the far side is a client (1002)"
