"""Links that are cut, held and slowed: every loss is told on both sides, and a link is up again at once; which stay."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

from hub.errors import CloseCode
from hub.messages.frame import Origin, encode_frame
from peers.transport.transport import UNSENT_BYTES
from peers.wire.control import (
    Account,
    Notice,
    decode_account,
    encode_account,
    encode_close,
    encode_notice,
    encode_origin,
)
from peers.wire.hello import MESH_VERSION, PROTOCOL, Hello, QueueWish
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.mesh_peer import LINK_ID, PEER_ID, MeshPeer, hub_hello
from tests.hubs.raw_client import RawClient, numbered, publication
from tests.hubs.settings import settings_of
from tests.links.meshes import know_each_other
from tests.links.way import Way


async def linked(north: Hub, south: Hub, *prefixes: str) -> None:
    await eventually(lambda: len(north.server.links) == len(south.server.links) == 1)
    await eventually(lambda: has(north, south, prefixes) and has(south, north, ()))


def has(hub: Hub, other: Hub, prefixes: tuple[str, ...]) -> bool:
    found = [handler for handler in hub.server.core.handlers.values() if handler.name == other.server.name]
    return len(found) == 1 and hub.wanted_by(other) == set(prefixes)


async def losses(watcher: RawClient, count: int) -> list[dict[str, Any]]:
    told = []
    while len(told) < count:
        ((topic, value),) = await watcher.values(1)
        assert topic == "$hub/links/lost"
        told.append({key: value[key] for key in ("lost", "exactly", "sent")})
    return told


def told(hub: Hub) -> tuple[int, int, int, int]:
    accounts = hub.server.accounts
    return (
        accounts.lost_messages,
        accounts.possibly_lost_messages,
        accounts.missed_messages,
        accounts.messages_in_doubt,
    )


async def test_what_was_published_was_received_or_is_counted(north: Hub, south: Hub, way: Way) -> None:
    """Under load, while the link is cut over and over again."""
    reader = await south.client("/flood", queue=QueueWish(messages=1_000_000))
    north.dial(way)
    publisher = await north.client()
    published = cuts = 0

    async def is_up_again() -> None:
        await eventually(lambda: way.accepted == 1 + cuts)
        await linked(north, south, "/flood")
        await know_each_other((north, south))

    while cuts < 3:
        await is_up_again()
        for _ in range(20):
            await publisher.send(numbered("/flood", range(published, published + 10)))
            published += 10
            await publisher.ping()
        way.cut()
        cuts += 1
    await is_up_again()
    await eventually(lambda: told(north)[3] == 0)
    await publisher.send(numbered("/flood", range(published, published + 1)))
    received = [-1]
    while received[-1] < published:
        ((_, (number, _)),) = await reader.values(1)
        assert number > received[-1]
        received.append(number)
    lost, possibly, _, _ = told(north)
    assert (possibly, told(south)[2]) == (0, lost)
    unreached = north.server.core.mesh.unreached_messages
    assert len(received) - 2 + lost + unreached == published


async def test_messages_on_their_way_when_a_link_is_cut(north: Hub, south: Hub, way: Way) -> None:
    reader = await south.client("/flood")
    north.dial(way)
    await linked(north, south, "/flood")
    watchers = [await hub.client("$hub/links/") for hub in (north, south)]
    publisher = await north.client()
    await publisher.send(numbered("/flood", range(10)))
    assert await reader.numbers_and_gaps(10) == list(range(10))
    south.later(2.0)
    connections: Any = north.server.connections
    (link,) = [one.conversation.link for one in connections if one.conversation.far_name == "south"]
    await eventually(lambda: link.confirmed == 10)
    way.hold()
    await publisher.send(numbered("/flood", range(10, 91)))
    await publisher.ping()
    way.replace()
    way.cut()
    assert await losses(watchers[0], 1) == [{"lost": 81, "exactly": False, "sent": True}]
    assert await losses(watchers[0], 1) == [{"lost": 81, "exactly": True, "sent": True}]
    assert await losses(watchers[1], 1) == [{"lost": 81, "exactly": True, "sent": False}]
    assert told(north) == (81, 0, 0, 0)
    assert told(south) == (0, 0, 81, 0)
    await linked(north, south, "/flood")
    await publisher.send(numbered("/flood", range(91, 93)))
    assert await reader.numbers_and_gaps(93, start=91) == [91, 92]
    assert told(north) == (81, 0, 0, 0)


async def test_how_soon_a_silent_peer_is_given_up(start_hub: StartHub, south: Hub, way: Way) -> None:
    north = await start_hub(name="north", settings=settings_of(ping_after_s=2.0, ping_timeout_s=1.0))
    await south.client("/flood")
    north.dial(way)
    await linked(north, south, "/flood")
    publisher = await north.client()
    way.hold()
    for steps in range(11):
        await publisher.send(numbered("/flood", range(steps, steps + 1)))
        await publisher.ping()
        if not len(north.server.links):
            break
        north.later(0.5)
    assert 3.0 <= steps / 2 <= 5.0


async def test_both_ends_count_what_waited_as_the_other_side_said_goodbye(north: Hub) -> None:
    peer = await north.peer("/a")
    publisher = await north.client()
    sent = 0
    while north.handler("peer").queued_messages < 200:
        await publisher.send(numbered("/a", range(sent, sent + 100), padding=20_000))
        await publisher.ping()
        sent += 100
    await peer.send(encode_account(Account(LINK_ID, arrived=0, last=True)), encode_close(CloseCode.GOING_AWAY, "bye"))
    assert (await account(peer)).sent == sent


async def account(peer: MeshPeer) -> Account:
    peer.quiet = frozenset()
    async for frame in peer.frames():
        if frame.kind == Kind.ACCOUNT:
            return decode_account(frame.body)
    raise AssertionError("no account")


async def test_accounts_of_a_link(north: Hub) -> None:
    peer = await north.peer("/a")
    north.later(2.0)
    await peer.send(numbered("/a", range(7), together=3))
    await eventually(lambda: north.handler("peer").published_messages == 7)
    north.later(2.0)
    assert await account(peer) == Account(LINK_ID, sent=0, arrived=7)
    north.later(2.0)
    assert Kind.ACCOUNT not in [frame.kind for frame in await peer.ping()]


async def test_a_goodbye_without_all_messages(north: Hub) -> None:
    watcher = await north.client("$hub/links/")
    peer = await north.peer("/a")
    publisher = await north.client()
    await publisher.send(numbered("/a", range(20)))
    await publisher.ping()
    await peer.send(encode_account(Account(LINK_ID, arrived=15, last=True)), encode_frame(Kind.CLOSE, b"\x03\xe9"))
    assert await losses(watcher, 1) == [{"lost": 5, "exactly": True, "sent": True}]
    assert told(north) == (5, 0, 0, 0)


async def test_the_goodbye_of_this_side(north: Hub) -> None:
    peer = await north.peer("/a")
    publisher = await north.client()
    await publisher.send(numbered("/a", range(20)))
    await publisher.ping()
    await peer.send(numbered("/a", range(3)))
    await eventually(lambda: north.handler("peer").published_messages == 3)
    (connection,) = [one for one in north.connections if one.conversation.far_name == "peer"]
    connection.drain()
    assert await account(peer) == Account(LINK_ID, sent=20, arrived=3, last=True)
    assert (await peer.end())[0] == CloseCode.GOING_AWAY
    await peer.send(encode_account(Account(LINK_ID, sent=3, arrived=19, last=True)))
    peer.close()
    await eventually(lambda: connection not in north.server.connections)
    assert told(north) == (1, 0, 0, 0)


async def test_a_stream_that_ends_behind_the_goodbye_of_this_side(north: Hub) -> None:
    peer = await north.peer("/a")
    publisher = await north.client()
    await publisher.send(numbered("/a", range(20)))
    await publisher.ping()
    (connection,) = [one for one in north.connections if one.conversation.far_name == "peer"]
    connection.drain()
    peer.close()
    await eventually(lambda: connection not in north.server.connections)
    assert told(north) == (0, 0, 0, 20)


async def test_a_goodbye_is_answered_with_how_many_have_arrived(north: Hub) -> None:
    peer = await north.peer("/a")
    await peer.send(numbered("/a", range(3)), encode_close(CloseCode.GOING_AWAY, "bye"))
    assert await account(peer) == Account(LINK_ID, sent=0, arrived=3, last=True)


async def test_what_a_peer_has_dropped(north: Hub) -> None:
    watcher = await north.client("$hub/links/")
    peer = await north.peer("/a")
    await peer.send(encode_notice(Notice("dropped", count=12)))
    assert await losses(watcher, 1) == [{"lost": 12, "exactly": True, "sent": False}]
    assert told(north) == (0, 0, 12, 0)


# A link that only one side believes in.


def conversations(hub: Hub) -> list[Any]:
    return [one.conversation for one in hub.connections]


async def test_a_link_that_only_one_side_believes_in(north: Hub, south: Hub, way: Way) -> None:
    reader = await south.client("/a")
    north.dial(way)
    await linked(north, south, "/a")
    (old,) = [one.conversation for one in south.connections if one.conversation.far_name == "north"]
    standing = south.server.links.find(b"\x01" * 16)
    way.hold()
    way.replace()
    way.cut(far=False)
    await eventually(lambda: way.accepted == 2)
    await eventually(lambda: any(one.far_name == "north" and one is not old for one in conversations(south)))
    assert south.server.links.find(b"\x01" * 16) is standing is not None
    south.later(2.0)
    await eventually(lambda: south.server.links.find(b"\x01" * 16) not in (standing, None))
    await linked(north, south, "/a")
    publisher = await north.client()
    await publisher.send(numbered("/a", range(2)))
    assert await reader.numbers_and_gaps(2) == [0, 1]
    assert way.accepted == 2


async def test_nothing_is_read_of_a_link_that_waits(north: Hub) -> None:
    peer = await north.peer("/a")
    reader = await north.client("/a")
    second = await north.raw()
    await second.send(hub_hello(name="second"), numbered("/a", range(3)))
    await settle()
    peer.reset()
    assert await reader.numbers_and_gaps(3) == [0, 1, 2]
    assert Hello.decode((await second.frame()).body).id == north.server.id


# What a mesh has overtaken.


async def mesh_peer(hub: Hub, number: int) -> MeshPeer:
    hub_id = bytes([number]) * 16
    return await hub.peer(id=hub_id, name=f"peer {number}", link=bytes([number]) * 8)


async def test_messages_that_newer_ones_have_overtaken(north: Hub) -> None:
    watcher = await north.client("$hub/links/")
    reader = await north.client("/a")
    old, new = await mesh_peer(north, 7), await mesh_peer(north, 8)
    before, now = Origin(b"\x07" * 16, 10), Origin(b"\x07" * 16, 11)
    await old.send(encode_origin(before), numbered("/a", range(2)))
    assert await reader.numbers_and_gaps(2) == [0, 1]
    await new.send(encode_origin(now), numbered("/a", range(5, 6)))
    assert await reader.numbers_and_gaps(6, start=5) == [5]
    for late in (numbered("/a", range(2, 3)) + numbered("/ab", range(3, 4)), numbered("/a", range(4, 5))):
        await old.send(late)
        await old.ping()
    told_gaps = 0
    while told_gaps < 3:  # a notice for each read
        notice = await reader.notice()
        assert notice.kind == "dropped"
        told_gaps += notice.count
    assert told_gaps == 3
    assert north.server.core.statistics().dropped_messages_total.get("drop-oldest", 0) == 0
    north.later(2.0)
    assert await losses(watcher, 1) == [{"lost": 3, "exactly": True, "sent": False}]
    north.later(2.0)
    await old.send(numbered("/a", range(1)))
    await old.ping()
    old.reset()
    ((_, last),) = await watcher.values(1)
    assert (last["lost"], last["overtaken"], last["name"], last["hub"]) == (1, True, "peer 7", "07" * 16)
    assert told(north) == (0, 0, 0, 0)
    assert north.server.core.mesh.statistics().overtaken_messages_total == 4


# Which links stay, and what does not cross them.


async def test_little_is_unsent_and_the_hubs_own_topics_do_not_cross(north: Hub, south: Hub) -> None:
    watcher = await north.client("")
    north.dial(south)
    await eventually(lambda: len(north.server.links) == len(south.server.links) == 1 and south.wanted_by(north) == {""})
    assert unsent_bytes(north) == [0, UNSENT_BYTES]
    assert unsent_bytes(south) == [UNSENT_BYTES]
    await (await south.client(name="in the south")).publish("/end", 1)
    seen: list[str] = []
    while seen[-1:] != ["/end"]:
        seen += [topic for topic, _ in await watcher.values(1)]
    assert [topic for topic in seen if topic != "$hub/mesh"] == ["$hub/peer/joined", "/end"]


def unsent_bytes(hub: Hub) -> list[int]:
    connections: Iterable[Any] = hub.server.connections
    socks = [one.transport.get_extra_info("socket") for one in connections]
    return sorted(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) for sock in socks)


async def test_a_peer_may_not_publish_the_hubs_own_topics(north: Hub) -> None:
    watcher = await north.client("$hub/peer/")
    peer = await north.peer()
    assert [topic for topic, _ in await watcher.values(1)] == ["$hub/peer/joined"]
    await peer.send(encode_frame(Kind.MESSAGES, b"\xc0", key=b"$hub/peer/joined"))
    assert [frame.kind for frame in await peer.ping()] == [Kind.NOTICE]
    assert await watcher.ping() == []
    assert len(north.server.links) == 1


async def test_a_second_link_is_refused(north: Hub) -> None:
    first = await north.peer()
    first.is_ponging = False
    second = await north.raw()
    await second.send(hub_hello(name="second"))
    while (asked := await first.frame()).kind != Kind.PING:
        pass
    await first.send(encode_frame(Kind.PONG, asked.body))
    text = f"already connected: one link between two hubs is enough, hub {PEER_ID.hex()} has one"
    assert await second.end() == (CloseCode.ALREADY_CONNECTED, text)
    await north.peer(name="another", id=b"\x78" * 16)
    assert len(north.server.links) == 2


async def test_a_client_is_no_peer(north: Hub, south: Hub) -> None:
    await south.stop_listening()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(Hello(protocol=1, role="client").encode())
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", south.endpoint.port)
    dialler = north.dial(south)
    await eventually(lambda: dialler.last_reason != "")
    server.close()
    assert dialler.last_reason == "a peer must be a hub, the other side is a client (1002)"


async def test_a_link_to_a_later_version(start_hub: StartHub) -> None:
    hub = await start_hub()
    later = await hub.peer("/to-later", protocol=PROTOCOL + 1, mesh=MESH_VERSION + 1)
    await later.ping()
    reader, publisher = await hub.client("/from-later"), await hub.client()
    await publisher.send(publication("/to-later", 1))
    assert (await later.frame()).kind == Kind.MESSAGES
    await later.send(publication("/from-later", 2))
    assert (await reader.frame()).kind == Kind.MESSAGES
