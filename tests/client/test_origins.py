"""By which hub a message has entered the mesh, for clients that ask."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode, ProtocolError
from hub.labels.envelope import Envelope, TaggedMessage
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_TAGGED, Origin
from peers.client import Client, Message, MessageStream, connect
from peers.client.reports import OriginMessage, with_origin
from peers.client.values import decode_batch
from peers.wire.control import Notice, decode_subscription, encode_notice, encode_origin
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.client.scripted import ScriptedHub, Told

FAR, FARTHER = b"f" * 16, b"g" * 16


@pytest.fixture
def scripted(scripted: ScriptedHub) -> ScriptedHub:
    scripted.hello = msgspec.structs.replace(scripted.hello, id=b"h" * 16, origins=True)
    return scripted


async def confirm(hub: ScriptedHub, kind: Kind = Kind.SUBSCRIBE) -> None:
    request, _ = decode_subscription(kind, (await hub.next(kind)).body)
    hub.send(encode_notice(Notice("confirmed", request=request)))


async def subscribed(hub: ScriptedHub, client: Client) -> MessageStream:
    stream = client.subscribe("")
    opening = asyncio.ensure_future(stream.open())
    await confirm(hub)
    await opening
    return stream


def said(topic: str, *values: int) -> bytes:
    return Batch.of(topic, values).frames


def entered(messages: list[Message]) -> list[tuple[Any, bytes]]:
    return [(message.value, message.origin) for message in messages]


async def received(stream: MessageStream, count: int) -> list[tuple[Any, bytes]]:
    return entered([await stream.receive() for _ in range(count)])


async def test_each_message_says_where_it_has_entered(scripted: ScriptedHub) -> None:
    async with connect(scripted.url, origins=True) as client:
        stream = await subscribed(scripted, client)
        tagged = Batch.under(Envelope("/t", ("l",)).encode(), [4], FLAG_TAGGED).frames
        scripted.send(said("/a", 1) + encode_origin(Origin(FAR, 3)) + said("/a", 2) + said("/b", 3) + tagged)
        scripted.send(encode_origin(Origin(FARTHER, 0)) + said("/a", 5, 6) + encode_origin(Origin(b"h" * 16, 1)))
        scripted.send(said("/a", 7))
        mine = b"h" * 16
        expected = [(1, mine), (2, FAR), (3, FAR), (4, FAR), (5, FARTHER), (6, FARTHER), (7, mine)]
        assert await received(stream, 7) == expected


async def test_whoever_does_not_ask_is_told_nothing(scripted: ScriptedHub) -> None:
    async with connect(scripted.url) as client:
        assert not Hello.decode((await scripted.next(Kind.HELLO)).body).origins
        stream = await subscribed(scripted, client)
        scripted.send(said("/a", 1))
        assert await received(stream, 1) == [(1, b"")]
        scripted.send(encode_origin(Origin(FAR, 1)))
        with pytest.raises(ProtocolError, match="ORIGIN is not expected with a hub") as error:
            await client.wait_closed()
        assert error.value.code == CloseCode.PROTOCOL_ERROR


async def test_a_new_connection_begins_anew(scripted: ScriptedHub) -> None:
    told = Told()
    async with told.connect(scripted.url, origins=True) as client:
        stream = await subscribed(scripted, client)
        scripted.send(encode_origin(Origin(FAR, 1)) + said("/a", 1))
        assert await received(stream, 1) == [(1, FAR)]
        scripted.hello = msgspec.structs.replace(scripted.hello, id=b"i" * 16)
        scripted.hang_up()
        await told.disconnected.get()
        await confirm(scripted)
        scripted.send(said("/a", 2))
        assert await received(stream, 1) == [(2, b"i" * 16)]


def test_a_message_with_an_origin() -> None:
    envelope = Envelope("/t", ("l",))
    tagged = decode_batch(Batch.under(envelope.encode(), [2], FLAG_TAGGED))[0]
    plain, labelled = with_origin([Message("/a", 1), *tagged], FAR)
    assert (plain, labelled) == (("/a", 1), ("/t", 2))
    assert isinstance(plain, OriginMessage)
    assert isinstance(labelled, TaggedMessage)
    assert (labelled.labels, labelled.origin) == (("l",), FAR)
    assert (plain.labels, plain.sender, plain.destination, plain.origin) == ((), "", "", FAR)
    assert repr(plain) == f"OriginMessage(topic='/a', value=1, origin='{FAR.hex()}')"
    again = pickle.loads(pickle.dumps(plain))  # noqa: S301 -- our own
    assert (again, again.origin) == (plain, FAR)
    assert Message("/a", 1).origin == TaggedMessage(envelope, 1).origin == b""
