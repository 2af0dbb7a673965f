"""Every trick with a topic, at every door through which messages come: what is granted arrives, the rest is counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from hub.batch import Batch
from hub.errors import CloseCode
from hub.frame import FLAG_TAGGED
from hub.tags.envelope import Envelope
from peers.client import connect
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from tests.connections.rights.conftest import Guarded
from tests.connections.websocket.test_connection import dial, hear, say
from tests.connections.websocket.zeek.clients import ZeekClient
from tests.hub.policy.tricks import ALLOWED, BRINGABLE
from tests.hubs.raw_client import RawClient, publication

REFUSED = len(BRINGABLE) - len(ALLOWED)

Door = Callable[[Guarded, str], Awaitable[None]]


async def raw(guarded: Guarded, user: str) -> RawClient:
    return await guarded.hub.client(endpoint=guarded.tcp, name=user)


async def read_by_read(guarded: Guarded, user: str) -> None:
    client = await raw(guarded, user)
    for topic in BRINGABLE:
        await client.publish(topic, topic)
        await client.ping()


async def at_once(guarded: Guarded, user: str) -> None:
    client = await raw(guarded, user)
    await client.send(b"".join(publication(topic, topic) for topic in BRINGABLE))
    told = [decode_notice(frame.body) for frame in await client.ping() if frame.kind == Kind.NOTICE]
    assert {notice.code for notice in told} == {CloseCode.NOT_ALLOWED}
    assert sum(notice.count for notice in told) == len(BRINGABLE) - (len(ALLOWED) if user == "alice" else 0)


async def labelled(guarded: Guarded, user: str) -> None:
    client = await raw(guarded, user)
    keys = [Envelope(topic, ("zeek",)).encode() for topic in BRINGABLE]
    await client.send(b"".join(Batch.under(key, [1], FLAG_TAGGED).frames for key in keys))
    await client.ping()


async def over_a_unix_socket(guarded: Guarded, user: str) -> None:
    async with connect(guarded.unix.location, name=user) as client:
        for topic in BRINGABLE:
            await client.publish(topic, topic.encode().ljust(200_000))
    assert guarded.hub.node.shared.messages_total


async def by_a_page(guarded: Guarded, user: str) -> None:
    await _over_websocket(guarded, user, "hub.v1.json")


async def in_msgpack(guarded: Guarded, user: str) -> None:
    await _over_websocket(guarded, user, "hub.v1.msgpack")


async def _over_websocket(guarded: Guarded, user: str, subprotocol: str) -> None:
    async with dial(guarded.hub, subprotocol) as socket:
        await hear(socket)
        await say(socket, type="hello", name=user)
        await hear(socket)
        for number, topic in enumerate(BRINGABLE, 1):
            await say(socket, type="publish", topic=topic, value=topic, request=number)
            answer = await hear(socket)
            assert answer["request"] == number
            if user == "alice" and topic in ALLOWED:
                assert answer["type"] == "confirmed"
            else:
                assert (answer["type"], answer["code"]) == ("error", CloseCode.NOT_ALLOWED)
                assert answer["text"].endswith(f": not granted to user {user!r}")


async def by_a_program_for_zeek(guarded: Guarded, user: str) -> None:
    client = await ZeekClient.connect(guarded.hub, f"X-Application-Name: {user}")
    await client.say(b"[]")
    await client.reply()
    for topic in BRINGABLE:
        await client.publish(topic, 1)
    for _ in range(REFUSED):
        answer = await client.reply()
        assert answer["type"] == "error"
        assert answer["context"].count(f"not granted to user {user!r}")


@pytest.mark.parametrize(
    "door",
    [
        read_by_read,
        at_once,
        labelled,
        over_a_unix_socket,
        by_a_page,
        in_msgpack,
        by_a_program_for_zeek,
    ],
)
class TestEachDoor:
    """What is granted goes through, and nothing else."""

    async def test_tricks(self, guarded: Guarded, door: Door) -> None:
        await door(guarded, "alice")
        await guarded.until(lambda: guarded.refused == REFUSED)
        assert guarded.seen == ALLOWED

    async def test_nothing(self, guarded: Guarded, door: Door) -> None:
        await door(guarded, "bob")
        await guarded.until(lambda: guarded.refused == len(BRINGABLE))
        assert guarded.seen == []
