"""The bridge to a Zeek over real sockets: it comes up, heals, asks for what is wanted, and carries both ways."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import structlog
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Opcode

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from peers.connections import bridge as module
from peers.connections.bridge import BridgeConversation
from peers.connections.connection import Connection
from tests.connections.bridge.zeeks import Bridged, Zeek, linked, publishing
from tests.connections.websocket.zeek.clients import ZeekClient
from tests.garbage import leaves_nothing
from tests.hubs.eventually import eventually, settle
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import RawWebSocket, frame
from tests.hubs.slow_journal import SlowJournal
from tests.websocket.zeek.messages import count


def leaf(hub: Hub) -> Handler:
    (found,) = [handler for handler in hub.server.core.handlers.values() if handler.role is Role.LEAF]
    return found


async def end_of(connection: ServerConnection) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as closed:
        await connection.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def bridged_at(hub: Hub) -> Connection:
    (found,) = [
        one
        for one in hub.server.connections
        if isinstance(one, Connection) and isinstance(one.conversation, BridgeConversation)
    ]
    return found


async def test_events_of_a_zeek(hub: Hub, zeek: Zeek) -> None:
    reader, other = await ZeekClient.subscribed(hub, "/zeek/"), await hub.websocket("/zeek/dns", "$hub/peer/joined")
    async with Bridged(hub, zeek.endpoint):
        connection, prefixes = await zeek.greet()
        assert prefixes == ["/zeek/"]
        assert connection.request is not None
        assert connection.request.headers["X-Application-Name"] == "topichub"
        joined = await other.message()
        assert (joined["topic"], joined["values"][0]["role"]) == ("$hub/peer/joined", "leaf")
        await linked(hub)
        assert leaf(hub).prefixes == {}  # nothing is listed
        await connection.send(count("/zeek/dns", 1).decode())
        await connection.send(count("/zeek/ssh", 2).decode())
        await connection.send(count("/elsewhere", 3).decode())
        assert [await reader.text(), await reader.text()] == [count("/zeek/dns", 1), count("/zeek/ssh", 2)]
        assert await reader.settle() == []


async def test_nothing_is_sent_unless_listed(hub: Hub, zeek: Zeek) -> None:
    publisher = await hub.websocket()
    async with Bridged(hub, publishing(zeek, "/to/", "/to/")):
        connection, prefixes = await zeek.greet()
        assert prefixes == []
        await linked(hub)
        await publisher.publish("/other", 1)
        await publisher.publish("/to/zeek", True)
        await connection.send(count("/to/zeek", 5).decode())
        await publisher.publish("/to/zeek", "x")
        assert (
            await connection.recv() == '{"type":"data-message","topic":"/to/zeek","@data-type":"boolean","data":true}'
        )
        assert await connection.recv() == '{"type":"data-message","topic":"/to/zeek","@data-type":"string","data":"x"}'


async def test_it_heals(hub: Hub, zeek: Zeek) -> None:
    with structlog.testing.capture_logs() as logs:
        async with Bridged(hub, zeek.endpoint) as bridge:
            await zeek.greet()
            await linked(hub)
            await zeek.stop()
            await eventually(lambda: bridge.attempts > 3)
            reader = await ZeekClient.subscribed(hub, "/a")
            await zeek.start()
            connection, prefixes = await zeek.greet()
            assert prefixes == ["/a"]
            await connection.send(count("/a", 1).decode())
            assert await reader.text() == count("/a", 1)
        told = [line["reason"] for line in logs if line["event"] == "no link to peer"]
    assert told[0] == "closed with 1001"
    assert len(told) == len(set(told))


async def test_other_wishes_are_asked_for_over_a_new_connection(hub: Hub, zeek: Zeek) -> None:
    reader = await hub.websocket("/a")
    async with Bridged(hub, zeek.endpoint) as bridge:
        first, prefixes = await zeek.greet()
        assert prefixes == ["/a"]
        await linked(hub)
        with patch.object(module, "RENEW_S", 0.0):
            await reader.say("subscribe", prefixes=["/a/b"])
            await reader.say("unsubscribe", prefixes=["/a"])
            await reader.barrier()
            assert bridge.attempts == 1
            await reader.say("subscribe", prefixes=["/c", "/d"])
            second, prefixes = await zeek.greet()
        assert prefixes == ["/a/b", "/c", "/d"]
        assert await end_of(first) == (1000, "the hub wants other topics")
        await linked(hub)
        await second.send(count("/c", 1).decode())
        message = await _data_message(reader)
        assert message["topic"] == "/c"


async def _data_message(reader: RawWebSocket) -> dict[str, object]:
    while (message := await reader.message())["type"] != "messages":
        assert message["type"] in {"confirmed", "dropped"}
        if message["type"] == "dropped":  # Broker's values have no form in the hub's own protocol
            return {"topic": "/c"}
    return message


async def test_wishes_before_the_ack_are_not_forgotten(hub: Hub, zeek: Zeek) -> None:
    async with Bridged(hub, zeek.endpoint):
        connection = await zeek.connections.get()
        assert await connection.recv() == "[]"
        with patch.object(module, "RENEW_S", 0.0):
            await hub.websocket("/a")
            await connection.send('{"type":"ack","endpoint":"e","version":"v"}')
            _, prefixes = await zeek.greet()
        assert prefixes == ["/a"]


async def test_errors_are_logged_with_their_context(hub: Hub, zeek: Zeek) -> None:
    reader = await ZeekClient.subscribed(hub, "/a")
    with structlog.testing.capture_logs() as logs:
        async with Bridged(hub, zeek.endpoint) as bridge:
            connection, _ = await zeek.greet()
            for text in (
                '{"type":"error","code":"deserialization_failed","context":"input #1 failed to create Zeek event"}',
                "What?",
                count("$hub/x", 1).decode(),
                count("/a", 1).decode(),
            ):
                await connection.send(text)
            assert await reader.text() == count("/a", 1)
            assert bridge.attempts == 1
    told = [(line["event"], line["reason"]) for line in logs if "refused" in line["event"]]
    assert told == [
        ("zeek refused a message", "deserialization_failed: input #1 failed to create Zeek event"),
        ("message of zeek refused", "contained malformed JSON -> Expecting value: line 1 column 1 (char 0)"),
        ("message of zeek refused", "topic '$hub/x': $hub/ is the hub's own"),
    ]
    assert hub.server.rejected_messages == 2


async def test_no_ack(hub: Hub, zeek: Zeek) -> None:
    async with Bridged(hub, zeek.endpoint) as bridge:
        connection = await zeek.connections.get()
        assert await connection.recv() == "[]"
        hub.later(6)
        assert (await end_of(connection))[1] == "no ack within 5 s"
        await eventually(lambda: bridge.attempts == 2)


async def test_silence(hub: Hub, zeek: Zeek) -> None:
    async with Bridged(hub, zeek.endpoint) as bridge:
        connection, _ = await zeek.greet()
        await linked(hub)
        heard_s = hub.clock.time()
        bridged = bridged_at(hub)
        hub.later(21)
        await eventually(lambda: bridged.liveness.heard_s > heard_s)  # the pong
        connection.transport.pause_reading()
        hub.later(21)
        hub.later(11)
        hub.later(3)
        await eventually(lambda: bridge.attempts == 2)
        assert bridged.reason == "no answer to the ping within 10 s (1002)"


async def test_a_zeek_that_feeds_a_journal_which_is_behind_is_not_read_on(hub: Hub, zeek: Zeek) -> None:
    journal = hub.server.journal = SlowJournal(hub.server.core, "/recorded", buffer_bytes=1)
    reader = await ZeekClient.subscribed(hub, "/")
    async with Bridged(hub, zeek.endpoint) as bridge:
        connection, _ = await zeek.greet()
        await linked(hub)
        bridged = bridged_at(hub)
        await connection.send(count("/elsewhere", 1).decode())
        assert await reader.text() == count("/elsewhere", 1)
        assert bridged.transport.is_reading()
        await connection.send(count("/recorded", 2).decode())
        assert await reader.text() == count("/recorded", 2)
        assert not bridged.transport.is_reading()
        await connection.send(count("/recorded", 3).decode())
        for _ in range(10):  # it cannot answer to pings now, and is not taken for dead
            bridged.liveness.heard_s -= 1000
            assert bridged.check(hub.server.loop.time()) > hub.server.loop.time()
        assert await reader.settle() == []
        journal.write()
        assert await reader.text() == count("/recorded", 3)
        assert bridge.attempts == 1


async def bridge_and_part(hub: Hub, zeek: Zeek) -> None:
    reader = await ZeekClient.subscribed(hub, "/zeek/")
    publisher = await hub.websocket()
    async with Bridged(hub, publishing(zeek, "/to/")):
        for _ in range(2):
            connection, _prefixes = await zeek.greet()
            await linked(hub)
            await connection.send(count("/zeek/a", 1).decode())
            assert await reader.text() == count("/zeek/a", 1)
            await publisher.publish("/to/zeek", 1)
            await connection.recv()
            connection.transport.abort()
    reader.raw.close()
    publisher.close()
    await eventually(lambda: not hub.server.connections)
    hub.connections.clear()
    await settle()


async def test_bridges(hub: Hub, zeek: Zeek) -> None:
    await leaves_nothing(lambda: bridge_and_part(hub, zeek))


async def test_what_has_no_form_is_counted(hub: Hub, zeek: Zeek) -> None:
    publisher = await hub.websocket(subprotocol="hub.v1.msgpack")
    async with Bridged(hub, publishing(zeek, "/to")):
        connection, _ = await zeek.greet()
        await linked(hub)
        await publisher.send(frame(Opcode.BINARY, b"\x83\xa4type\xa7publish\xa5topic\xa3/to\xa5value\xd4\x70x"))
        await publisher.publish("/to", True)
        assert str(await connection.recv()).endswith('"data":true}')
        assert leaf(hub).dropped_messages == 1


async def test_given_up_in_the_moment_of_connecting(hub: Hub, zeek: Zeek) -> None:
    connect = hub.clock.create_connection

    async def too_late(*arguments: Any, **named: Any) -> None:
        await connect(*arguments, **named)
        raise TimeoutError

    with structlog.testing.capture_logs() as logs, patch.object(hub.clock, "create_connection", too_late, create=True):
        async with Bridged(hub, zeek.endpoint) as bridge:
            await eventually(lambda: bridge.attempts > 2)
    assert "no connection within 5 s" in {line.get("reason") for line in logs}
    await eventually(lambda: not hub.server.connections)
