"""A client that reads slower than its messages come: back-pressure, losses told where they are, signs of life."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from hub.errors import CloseCode, RejectedError
from hub.messages.batch import Batch
from hub.messages.frame import encode_frame
from peers.client import ConnectionLostError, Message, MessageStream, connect
from peers.client.values import decode_batch
from peers.wire.control import Notice, decode_subscription, encode_close, encode_notice
from peers.wire.kinds import Kind
from tests.client.scripted import PAYLOAD, ScriptedHub, Told, flood
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


async def test_a_full_stream_does_not_keep_requests_from_their_answers(hub: Hub) -> None:
    """Who reads a full stream may subscribe to more without reading on: the answer comes through."""
    async with connect(hub.url) as publisher, connect(hub.url, name="slow") as client:  # noqa: SIM117
        async with client.subscribe("/a", buffer_bytes=10_000) as messages:
            await flood(publisher, "/a", range(2000))
            await eventually(lambda: client.statistics().paused)
            async with client.subscribe("/b"), publisher.serve("/twice", lambda request: request.value * 2):
                assert hub.prefixes("slow") == {"/a": 1, "/b": 1}
                assert await client.request("/twice", 21) == 42
                assert client.statistics().paused
            numbers = [(await anext(messages)).value[0] for _ in range(2000)]
            assert numbers == list(range(2000))


async def test_gaps_reach_every_stream_and_callback(start_hub: StartHub) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url, name="me") as client, client.subscribe("/a") as a, client.subscribe("/b") as b:
        callback = await client.subscribe_callback("/a", lambda _: None)
        handler = hub.handler("me")
        handler.outlet.send_gap(3)
        handler.outlet.send([Batch.of("/a", [1]), Batch.of("/b", [2])])
        assert await told.dropped.get() == 3
        assert a.lost_messages == b.lost_messages == 0, "not before the reader gets there"
        assert (await anext(a)).value == 1
        assert (await anext(b)).value == 2
        assert a.lost_messages == b.lost_messages == callback.lost_messages == 3
        assert client.dropped_messages == client.statistics().dropped_messages == 3
        await hub.crash()
        await told.disconnected.get()
        assert callback.breaks == 1


# Against a scripted hub.


async def test_signs_of_life_on_both_sides() -> None:
    async with ScriptedHub() as hub, connect(hub.url, ping_after_s=0.02, ping_timeout_s=60.0) as client:
        hub.send(encode_frame(Kind.PING, b"are you there"))
        assert (await hub.next(Kind.PONG)).body == b"are you there"
        for _ in range(3):
            await hub.next(Kind.PING)
            hub.send(encode_frame(Kind.PONG, b""))
        assert client.statistics().connections == 1


async def test_a_hub_that_is_gone_without_a_word() -> None:
    told = Told()
    async with ScriptedHub() as hub, told.connect(hub.url, ping_after_s=0.01, ping_timeout_s=0.01) as client:
        assert await told.disconnected.get() == "the hub does not answer to PING"
        await eventually(lambda: client.statistics().connections >= 2)


async def test_a_reader_that_stalls_is_not_taken_for_dead() -> None:
    """While a full stream keeps the client from reading, it shows the hub signs of life by itself."""
    async with ScriptedHub() as hub, connect(hub.url, ping_after_s=0.02, ping_timeout_s=0.02) as client:
        messages = client.subscribe("/a", buffer_bytes=100)
        opening = asyncio.ensure_future(messages.open())
        request, _ = decode_subscription(Kind.SUBSCRIBE, (await hub.next(Kind.SUBSCRIBE)).body)
        hub.send(encode_notice(Notice("confirmed", request=request)))
        await opening
        hub.send(Batch.of("/a", [PAYLOAD]).frames)
        for _ in range(5):
            assert (await hub.next(Kind.PONG)).body == b""
        assert client.statistics().paused
        assert client.statistics().connections == 1
        assert (await anext(messages)).value == PAYLOAD
        messages.close_nowait()


async def test_overslept() -> None:
    """CLOSE with 1002 after a long silence means that the hub gave up waiting for us: that is tried again."""
    told = Told()
    async with ScriptedHub() as hub, told.connect(hub.url, ping_after_s=0.001, ping_timeout_s=60.0) as client:
        await hub.next(Kind.PING)
        hub.send(encode_close(CloseCode.PROTOCOL_ERROR, "no answer to PING within 10 s"))
        assert await told.disconnected.get() == "no answer to PING within 10 s (1002)"
        await eventually(lambda: client.statistics().connections == 2)


async def test_a_hub_that_says_nothing() -> None:
    async with ScriptedHub() as hub:
        hub.answers = False
        with pytest.raises(ConnectionLostError, match=r"does not answer as a hub within 0\.25 s"):
            await connect(hub.url, connect_timeout_s=0.25)
        connecting = asyncio.ensure_future(_connect(hub.url))
        await eventually(lambda: hub.connections == 2)
        connecting.cancel()
        await asyncio.wait([connecting])
        await hub.ends.get()


async def _connect(url: str) -> None:
    async with connect(url):
        raise AssertionError("there is no hub")


async def test_publishing_behind_a_close() -> None:
    """What is published in the very turn that brings the hub's CLOSE waits for the next connection."""
    told = Told()
    async with ScriptedHub() as hub, told.connect(hub.url) as client:
        opening = asyncio.ensure_future(
            client.subscribe_callback("/a", lambda message: client.publish_nowait("/b", message.value))
        )
        request, _ = decode_subscription(Kind.SUBSCRIBE, (await hub.next(Kind.SUBSCRIBE)).body)
        hub.send(encode_notice(Notice("confirmed", request=request)))
        await opening
        hub.send(Batch.of("/a", ["not lost"]).frames + encode_close(CloseCode.GOING_AWAY, "the hub stops"))
        frame = await hub.next(Kind.MESSAGES)
        assert hub.connections == 2
        assert (frame.key, frame.body) == (b"/b", b"\xa8not lost")


async def test_confirmations() -> None:
    async with ScriptedHub() as hub, connect(hub.url) as client:
        publishing = [
            asyncio.ensure_future(client.publish_confirmed(topic, 1)) for topic in ("/a", "/b", "/b", "/c", "/d", "/e")
        ]
        for _ in range(5):
            await hub.next(Kind.MESSAGES)
        publishing[4].cancel()
        for notice in (
            Notice("recorded", count=1, offset=7),
            Notice("unrecorded", count=2, code=4012, text="full"),
            Notice("recorded", count=1),
            Notice("recorded", count=2**40, offset=20),
        ):
            hub.send(encode_notice(notice))
        results = await asyncio.gather(*publishing, return_exceptions=True)
        assert (results[0], results[5]) == (7, 21)
        assert [str(error) for error in results[1:3]] == ["full (4012)"] * 2
        assert isinstance(results[3], RejectedError), "recorded, and no offset"
        later = asyncio.ensure_future(client.publish_confirmed("/a", 2))
        await hub.next(Kind.MESSAGES)
        hub.hang_up()
        with pytest.raises(ConnectionLostError, match="may be recorded or not"):
            await later


class NoSource:
    async def open(self, sink: MessageStream, wants: Iterable[Any]) -> list[Any]:  # noqa: ARG002
        return []

    def release(self, sink: MessageStream, claims: list[Any]) -> None: ...

    def hold(self, sink: MessageStream) -> None: ...

    def let_go(self, sink: MessageStream) -> None: ...


async def opened() -> MessageStream:
    stream = MessageStream(NoSource(), ("/a",), lambda batch: decode_batch(batch)[0], 1000)
    await stream.open()
    return stream


def batch(*values: object) -> Batch:
    return Batch.of("/a", values)


def values_of(messages: list[Message]) -> list[Any]:
    return [message.value for message in messages]


async def test_a_mark_alone_wakes_nobody() -> None:
    """A reader is not woken for a loss alone; it learns of it with the next message, or at the end."""
    stream = await opened()
    reading = asyncio.ensure_future(stream.batch())
    await asyncio.sleep(0)
    stream.put_gap(3)
    await asyncio.sleep(0)
    assert not reading.done()
    stream.finish(None)
    assert await reading == []
    assert stream.lost_messages == 3


async def test_cancelled_waits() -> None:
    stream = await opened()
    reading = asyncio.ensure_future(stream.batch())
    await asyncio.sleep(0)
    stream.put(batch(1))
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    assert values_of(await stream.batch()) == [1]
    stream.put(batch(1, 2, 3))
    assert (await stream.receive()).value == 1
    assert values_of(stream.batch_nowait()) == [2, 3]
    stream.close_nowait()
    stream.put(batch(4))
    assert (stream.buffered_bytes, stream.ended) == (0, True)
