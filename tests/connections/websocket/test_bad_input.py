"""Bad input over real sockets: one clear answer each, everybody else unaffected, and memory bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from websockets.frames import Opcode

from peers.transport.transport import unread_bytes
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import RawWebSocket, frame, request, text, upgrade
from tests.hubs.settings import settings_of

JSON = "hub.v1.json"

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


async def test_a_client_that_talks_on_after_the_end(hub: Hub) -> None:
    client = await hub.websocket()
    await client.send(
        frame(Opcode.TEXT, b"{"), *(text({"type": "publish", "topic": "/t", "value": 1}) for _ in range(500))
    )
    assert (await client.end())[0] == 1007
    client.close()
    await eventually(lambda: not hub.server.connections)
    assert hub.server.core.statistics().published_messages_total == 0


JSON = "hub.v1.json"


@pytest.mark.parametrize("sent", [b"", b"G", upgrade()[:-1]])
async def test_half_a_handshake(hub: Hub, sent: bytes) -> None:
    client = await hub.raw_websocket()
    await client.send(sent)
    await eventually(lambda: hub.server.connections)
    hub.later(4)
    hub.later(2)
    answer = await client.response()
    assert answer.status == 408
    assert b"5 s" in answer.body
    client.close()
    await eventually(lambda: not hub.server.connections)


async def test_who_stays_after_the_end_is_cut_off(hub: Hub) -> None:
    client = await hub.raw_websocket()
    await client.send(request("/healthz"))
    assert (await client.response()).status == 200
    (connection,) = hub.connections
    await eventually(lambda: unread_bytes(connection.transport) == 0)
    hub.later(4)
    await eventually(lambda: not hub.server.connections)


@pytest.mark.parametrize(
    ("begun", "piece"),
    [
        (frame(Opcode.TEXT, bytes(1000), fin=False), frame(Opcode.CONT, b"x", fin=False)),
        (frame(Opcode.TEXT, bytes(1000), fin=False), frame(Opcode.PING) + frame(Opcode.CONT, b"x", fin=False)),
    ],
    ids=["fragments", "fragments and pings"],
)
async def test_a_message_that_drips(hub: Hub, begun: bytes, piece: bytes) -> None:
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
