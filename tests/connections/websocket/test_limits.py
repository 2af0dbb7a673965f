"""Time limits, the limit of connections, and stopping."""

from __future__ import annotations

import pytest
from websockets.frames import Opcode

from peers.transport.transport import unread_bytes
from tests.hub.fakes import publish
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import flood, frame, request, upgrade
from tests.hubs.settings import settings_of

JSON = "hub.v1.json"


@pytest.mark.parametrize("sent", [b"", b"G", upgrade()[:-1]])
async def test_half_a_handshake(hub: Hub, sent: bytes) -> None:
    client = await hub.raw_websocket()
    await client.send(sent)
    await eventually(lambda: hub.node.connections)
    hub.later(4)
    hub.later(2)
    answer = await client.response()
    assert answer.status == 408
    assert b"5 s" in answer.body
    client.close()
    await eventually(lambda: not hub.node.connections)


async def test_who_stays_after_the_end_is_cut_off(hub: Hub) -> None:
    client = await hub.raw_websocket()
    await client.send(request("/healthz"))
    assert (await client.response()).status == 200
    (connection,) = hub.connections
    await eventually(lambda: unread_bytes(connection.transport) == 0)
    hub.later(4)
    await eventually(lambda: not hub.node.connections)


async def test_silence(hub: Hub) -> None:
    client = await hub.websocket(name="me")
    for _ in range(3):
        hub.later(21)
        assert await client.frame() == (Opcode.PING, b"")
        await client.send(frame(Opcode.PONG))
        assert await client.barrier() == []
    hub.later(15)
    assert hub.handler("me")


async def test_silence_without_an_answer(hub: Hub) -> None:
    client = await hub.websocket(name="me")
    hub.later(21)
    hub.later(11)
    assert await client.frame() == (Opcode.PING, b"")
    assert await client.end() == (1002, "no answer to the ping within 10 s")
    assert not hub.node.core.handlers


@pytest.mark.parametrize(
    ("begun", "piece"),
    [
        (frame(Opcode.TEXT, bytes(60_000))[:1000], b"x"),
        (frame(Opcode.TEXT, bytes(1000), fin=False), frame(Opcode.CONT, b"x", fin=False)),
        (frame(Opcode.TEXT, bytes(1000), fin=False), frame(Opcode.PING) + frame(Opcode.CONT, b"x", fin=False)),
    ],
    ids=["bytes", "fragments", "fragments and pings"],
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
    await eventually(lambda: not hub.node.core.handlers)


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
    assert hub.node.admission.refused == 2
    first.close()
    await eventually(lambda: not hub.node.connections)
    assert (await (await hub.websocket("/a")).barrier()) == []


async def test_stopping(hub: Hub) -> None:
    client = await hub.websocket("/a", name="me")
    silent = await hub.websocket()
    half = await hub.raw_websocket()
    await half.send(b"GET ")
    await eventually(lambda: len(hub.node.connections) == 3)
    publish(hub.node.core, "/a", 1)
    hub.node.draining = True
    for connection in list(hub.node.connections):
        connection.drain()
    assert await client.messages(1) == [("/a", 1)]
    assert await client.end() == (1001, "the hub stops")
    assert await silent.end() == (1001, "the hub stops")
    assert (await half.response()).status == 503
    late = await hub.raw_websocket()
    await late.send(upgrade())
    answer = await late.response()
    assert (answer.status, answer.body) == (503, b"the hub is stopping\n")


async def test_stopping_with_a_slow_client(hub: Hub) -> None:
    client = await hub.websocket("/flood", name="slow", receive_bytes=4096)
    hub.shrink_buffers()
    publisher = await hub.websocket()
    total = await flood(publisher, hub.handler("slow"), 200)
    hub.node.draining = True
    for connection in list(hub.node.connections):
        connection.drain()
    assert await publisher.end() == (1001, "the hub stops")
    assert await client.numbers_and_gaps(total) == list(range(total))
    assert await client.end() == (1001, "the hub stops")
