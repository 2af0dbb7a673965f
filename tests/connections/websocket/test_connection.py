"""Conversations over real sockets: what is told in place, who may connect, and bad input that troubles nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from websockets.frames import Opcode

from hub.handlers.waiting import WRITE_LIMIT_BYTES
from hub.messages.batch import Batch
from hub.messages.frame import KIND_MESSAGES, encode_frame
from tests.connections.websocket.zeek.clients import ZeekClient
from tests.garbage import leaves_nothing
from tests.hub.fakes import publish
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import RawWebSocket, frame, request, text, upgrade
from tests.hubs.settings import settings_of

JSON = "hub.v1.json"
MSGPACK = "hub.v1.msgpack"


async def test_requests_are_confirmed_if_they_bear_a_number(hub: Hub) -> None:
    client = await hub.websocket()
    for numbered in ({"request": 5}, {"request": 0}, {}):
        await client.say("subscribe", prefixes=["/a"], **numbered)
        await client.say("publish", topic="/b", value=1, **numbered)
        await client.say("unsubscribe", prefixes=["/a"], **numbered)
    assert await client.barrier() == [{"type": "confirmed", "request": 5}] * 3


async def test_a_confirmation_precedes_an_early_write(hub: Hub) -> None:
    client = await hub.websocket("/old")
    publish(hub.server.core, "/old", "x" * (WRITE_LIMIT_BYTES - 1000))
    (connection,) = hub.connections
    read = text({"type": "subscribe", "prefixes": ["/new"], "request": 3}) + text(
        {"type": "publish", "topic": "/new", "value": "y" * 1000}
    )
    connection.data_received(read)
    assert await client.message() == {"type": "confirmed", "request": 3}
    assert [topic for topic, _ in await client.messages(2)] == ["/old", "/new"]


async def test_a_value_that_grows_over_the_limit_is_refused(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(frame_bytes=4096))
    client = await hub.websocket("/t")
    await client.send(text({"type": "publish", "topic": "/t", "value": [0.5] * 700, "request": 3}))
    error = await client.message()
    assert (error["type"], error["code"], error["request"]) == ("error", 1009, 3)
    assert hub.server.rejected_messages == 1


async def test_what_has_no_form_is_told_in_place(hub: Hub) -> None:
    one, other = await hub.websocket("/t", name="json"), await hub.websocket("/t", subprotocol=MSGPACK, name="msgpack")
    ext = b"\xd4\x05x"
    core = hub.server.core
    source = hub.handler("msgpack")
    route = core.routes.find("/t")
    for body in (b"\x01", ext, ext, b"\x02"):
        core.publish(source, route, Batch(encode_frame(KIND_MESSAGES, body, key=b"/t"), 1))
    assert await one.message() == {"type": "messages", "topic": "/t", "values": [1]}
    assert await one.message() == {"type": "dropped", "count": 1}
    assert await one.message() == {"type": "dropped", "count": 1}
    assert await one.message() == {"type": "messages", "topic": "/t", "values": [2]}
    assert [topic for topic, _ in await other.messages(4)] == ["/t"] * 4
    assert hub.handler("json").dropped_messages == 2
    assert hub.handler("json").delivered_messages == 2
    assert hub.handler("msgpack").dropped_messages == 0
    assert [event.value["lost"] for event in core.report_drops()] == [2]


async def test_foreign_pages_are_refused(hub: Hub) -> None:
    for lines in (("Origin: https://evil.com",), ("Origin: null",), ("Origin: http://localhost",) * 2):
        client = await hub.raw_websocket()
        await client.send(upgrade(JSON, *lines))
        answer = await client.response()
        assert answer.status == 403
        assert b"websocket.origins" in answer.body or b"several Origin" in answer.body
    assert not hub.server.core.handlers


async def come_and_go(hub: Hub) -> None:
    asking, silent = await hub.raw_websocket(), await hub.raw_websocket()
    await asking.send(request("/metrics"))
    assert (await asking.response()).status == 200
    zeek = await ZeekClient.subscribed(hub, "/a")
    await zeek.publish("/a", 1)
    await zeek.settle()
    for client in (asking, silent, zeek.raw):
        client.close()
    await eventually(lambda: not hub.server.connections)
    hub.connections.clear()
    await settle()


async def test_what_is_no_client_of_the_hubs_own(hub: Hub) -> None:
    await leaves_nothing(lambda: come_and_go(hub))


async def serving(hub: Hub, *prefixes: str, subprotocol: str = JSON) -> RawWebSocket:
    client = await hub.websocket(subprotocol=subprotocol)
    await client.say("serve", prefixes=list(prefixes), request=5)
    assert await client.message() == {"type": "confirmed", "request": 5}
    return client


async def test_what_has_no_form_in_json(hub: Hub) -> None:
    service = await serving(hub, "/json", subprotocol=JSON)
    other = await serving(hub, "/msgpack", subprotocol=MSGPACK)
    odd = msgspec.msgpack.Ext(99, b"")
    await other.say("request", request=1, topic="/json", value=odd)
    answer = await other.message()
    assert (answer["status"], answer["count"]) == (1, 1)
    assert "no JSON form" in answer["text"]
    await other.say("request", request=2, topic="/json", values=[1, odd, 3])
    assert (await service.message())["value"] == 1
    assert (await service.message())["value"] == 3
    assert (await other.message())["request"] == 3
    await service.say("request", request=1, topic="/msgpack", values=[1, 2])
    asked = await other.message()
    await other.say("reply", request=asked["request"], values=["fine", odd])
    assert await service.message() == {"type": "reply", "request": 1, "value": "fine"}
    failed = await service.message()
    assert (failed["request"], failed["status"]) == (2, 1)


ANSWERS_BYTES = 512 * 1024
"""What may wait for a client that does not read: the transport's high-water mark, and what one read makes it answer."""


@pytest.fixture
async def bystander(hub: Hub) -> AsyncIterator[RawWebSocket]:
    client = await hub.websocket("/t", name="bystander")
    yield client
    await client.publish("/t", "still here")
    assert await client.messages(1) == [("/t", "still here")]


@pytest.mark.parametrize(
    "data",
    [
        frame(Opcode.PING, bytes(8)) * 1000,
        text({"type": "ping", "request": 1}) * 500,
        text({"type": "subscribe", "prefixes": ["/a"], "request": 1}) * 300,
        text({"type": "request", "topic": "/nobody", "value": 1, "request": 1}) * 300,
    ],
)
async def test_who_makes_the_hub_answer_must_read(hub: Hub, data: bytes) -> None:
    client = await hub.websocket(name="flood", receive_bytes=4096)
    hub.shrink_buffers()
    (connection,) = hub.connections
    transport = connection.transport
    waiting_bytes = 0
    rest = data
    while transport.is_reading():
        rest = rest[client.send_nowait(rest) :] or data
        await client.turn()
        waiting_bytes = max(waiting_bytes, transport.get_write_buffer_size())
    assert waiting_bytes < ANSWERS_BYTES
    other = await hub.websocket("/t")
    await other.publish("/t", 1)
    assert await other.messages(1) == [("/t", 1)]
    while not transport.is_reading():  # the client reads, and so it goes on
        await client.frame()


@pytest.mark.parametrize("pings", [b"", frame(Opcode.PING)], ids=["fragments", "fragments and pings"])
async def test_a_message_that_drips(hub: Hub, pings: bytes) -> None:
    begun, piece = frame(Opcode.TEXT, bytes(1000), fin=False), pings + frame(Opcode.CONT, b"x", fin=False)
    client = await hub.websocket(name="me")
    (connection,) = hub.connections
    session = connection.session
    await client.send(begun)
    for _ in range(12):
        held = session.held_bytes
        await client.send(piece)
        await eventually(lambda held=held: session.held_bytes != held)  # type: ignore[misc]
        hub.later(10)
        if session.closed:
            break
    assert session.closed
    answer = await client.frame()
    while answer[0] != Opcode.CLOSE:
        answer = await client.frame()
    assert answer[1][2:] == b"a frame has been incomplete for more than 60 s"
    await eventually(lambda: not hub.server.core.handlers)


async def test_messages_that_are_always_begun(hub: Hub) -> None:
    client = await hub.websocket(name="me")
    begun = frame(Opcode.TEXT, b'{"type":"ping",', fin=False)
    await client.send(begun)
    for _ in range(12):
        await client.send(frame(Opcode.CONT, b'"request":4}') + begun)
        assert await client.message() == {"type": "pong", "request": 4}
        hub.later(10)
    assert hub.handler("me")


async def test_one_connection_too_many(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(connections=1))
    first = await hub.websocket("/a")
    program = await hub.raw_websocket()
    await program.send(upgrade())
    answer = await program.response()
    assert answer.status == 503
    assert answer.body == b"1 connections are open, which is the limit\n"
    page = await hub.raw_websocket()
    await page.shake_hands(JSON, "Origin: http://localhost")
    assert await page.end() == (1013, "1 connections are open, which is the limit")
    assert await first.barrier() == []
    assert hub.server.admission.refused == 2
    first.close()
    await eventually(lambda: not hub.server.connections)
    assert (await (await hub.websocket("/a")).barrier()) == []


async def test_stopping(hub: Hub) -> None:
    half = await hub.raw_websocket()
    await half.send(b"GET ")
    await eventually(lambda: hub.server.connections)
    hub.server.draining = True
    for connection in list(hub.server.connections):
        connection.drain()
    assert (await half.response()).status == 503
    late = await hub.raw_websocket()
    await late.send(upgrade())
    answer = await late.response()
    assert (answer.status, answer.body) == (503, b"the hub is stopping\n")


async def test_what_is_no_request(hub: Hub) -> None:
    client = await hub.raw_websocket()
    await client.send(b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n")
    answer = await client.response()
    assert (answer.status, b"the client uses TLS" in answer.body) == (400, True)
    client = await hub.raw_websocket()
    await client.send(request("/v1/hub"))
    assert (await client.response()).status == 426
