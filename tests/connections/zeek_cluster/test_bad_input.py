"""What nobody should send to a central broker: it is counted and told, and no node gets anything of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog
import zmq

from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.transport.timing import Liveness
from peers.values import Count
from peers.values.event import Event
from peers.zeek.zmtp.frames import Command, encode_command, encode_frame, encode_message
from peers.zeek.zmtp.session import GREETING_BYTES, Greeting, encode_properties, encode_subscription
from tests.connections.zeek_cluster.conftest import StartNode
from tests.connections.zeek_cluster.nodes import ZmqNode, running
from tests.hubs.eventually import eventually

KINDS = ["XSUB", "XPUB"]
LIMIT_BYTES = 16 * 1024 * 1024  # `limits.frame_bytes`, as it is by default


def handshake(kind: str) -> bytes:
    ready = encode_command(Command(b"READY", encode_properties({"Socket-Type": kind.encode()})))
    return Greeting("NULL").encode() + ready


class Raw:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, hub: Daemon, kind: str, says: bytes = b"") -> Raw:
        endpoint = hub.endpoints[0]
        port = endpoint.port if kind == "XSUB" else endpoint.xsub
        self = cls(*await asyncio.open_connection("127.0.0.1", port))
        self.writer.write(handshake(kind))
        head = await self._reader.readexactly(GREETING_BYTES + 2)
        await self._reader.readexactly(head[-1])
        self.writer.write(says)
        return self

    async def end(self) -> bytes:
        said = b""
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(65_536):
                said += data
        self.writer.close()
        return said


async def quiet_pair(start_node: StartNode) -> tuple[ZmqNode, ZmqNode]:
    node, reader = await start_node("node"), await start_node("reader", "zeek.")
    await eventually(lambda: node.is_told("zeek."))
    return node, reader


async def pass_an_event(node: ZmqNode, reader: ZmqNode, value: int = 0) -> None:
    event = Event("Demo::number", Count(value))
    node.publish_event("zeek.a", event)
    await eventually(lambda: any(parts[3] == event.encode() for parts in reader.events))


GIANT = (LIMIT_BYTES + 1).to_bytes(8, "big")


BREAKS = [
    ("XPUB", b"\x02" + GIANT, "the limit is"),
    ("XPUB", b"\x03" + b"\xff" * 8, "the limit is"),
    ("XPUB", b"\x01\x06zeek.a" * 10 + b"\x02" + GIANT, "the limit is"),
    ("XPUB", b"\x01\x00" * (1 << 16), "more than"),
    ("XPUB", b"\x08\x00", "a frame with the flags 0x08"),
    ("XPUB", b"\x05\x00", "a frame with the flags 0x05"),
    ("XPUB", b"\x01\x06zeek.a\x04\x05\x04PING", "a command between the parts"),
    ("XPUB", b"\x04\x00", "a command without a name"),
    ("XSUB", b"\x02" + GIANT, "the limit is"),
    ("XSUB", encode_subscription(b"x" * (1 << 20), is_wanted=True), "the limit is"),
    ("XSUB", encode_command(Command(b"SUBSCRIBE", b"x" * (1 << 20))), "the limit is"),
    ("XSUB", b"\xff" * 40, "a frame with the flags 0xff"),
]


async def test_what_ends_a_connection(hub: Daemon, start_node: StartNode) -> None:
    node, reader = await quiet_pair(start_node)
    told = len(node.told)
    for number, (kind, says, reason) in enumerate(BREAKS, 1):
        with structlog.testing.capture_logs() as logs:
            said = await (await Raw.connect(hub, kind, says)).end()
            await eventually(lambda number=number: hub.server.zeek.broken_connections == number)  # type: ignore[misc]
            await eventually(lambda logs=logs: any(line["event"] == "connection closed" for line in logs))  # type: ignore[misc]
        assert b"ERROR" not in said
        assert {line["log_level"] for line in logs if line["event"] == "connection closed"} == {"debug"}  # it was told
        lines = [line for line in logs if line["log_level"] != "debug" and "Zeek node" in line["event"]]
        (line,) = [line for line in lines if line["event"] == "a Zeek node broke the protocol"]
        assert reason in line["reason"]
        assert len(lines) <= 2  # it was let in before
        await pass_an_event(node, reader, number)
    assert len(reader.events) == len(BREAKS)
    assert len(node.told) == told


@pytest.mark.parametrize("kind", KINDS)
async def test_silence_ends_no_connection(hub: Daemon, kind: str) -> None:
    raw = await Raw.connect(hub, kind)
    await eventually(lambda: any(one.handler for one in hub.server.connections))
    (connection,) = hub.server.connections
    assert connection.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    connection.liveness = Liveness(hub.server.loop.time(), 0.1, 0.1)
    looked_s: set[float] = set()

    def looked_thrice() -> bool:
        looked_s.add(connection.due_s)
        return connection.is_lost or len(looked_s) > 3

    connection.look_in(0)
    await eventually(looked_thrice)
    assert not connection.is_lost
    assert not connection.reason
    raw.writer.close()


async def test_no_handshake() -> None:
    async with running("hub", [], "zeek+zmq://127.0.0.1:0", limits={"handshake_s": 0.1}) as hub:
        with structlog.testing.capture_logs() as logs:
            reader, writer = await asyncio.open_connection("127.0.0.1", hub.endpoints[1].port)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            await eventually(lambda: any("no handshake within 0.1 s" in str(line) for line in logs))
            writer.close()
        hub.server.draining = True
        late, writer = await asyncio.open_connection("127.0.0.1", hub.endpoints[1].port)
        with contextlib.suppress(ConnectionError):
            assert await late.read() == b""
        writer.close()


async def test_subscriptions_that_are_too_long(hub: Daemon, start_node: StartNode) -> None:
    node, _ = await quiet_pair(start_node)
    long = b"zeek." + b"x" * 1020
    with structlog.testing.capture_logs() as logs:
        raw = await Raw.connect(hub, "XSUB", encode_subscription(long, is_wanted=True) * 100)
        raw.writer.write(encode_command(Command(b"SUBSCRIBE", long)))
        raw.writer.write(encode_frame(b"\x02zeek.") + encode_message([b"\x01zeek.", b""]))
        raw.writer.write(encode_subscription(b"zeek.b", is_wanted=True))
        await eventually(lambda: node.is_told("zeek.b"))
        raw.writer.close()
        await eventually(lambda: node.is_told("zeek.b", is_wanted=False))
    assert hub.server.zeek.refused_subscriptions == 101
    assert hub.server.rejected_messages == 2
    refused = [line for line in logs if line["event"] == "subscription of a Zeek node refused"]
    assert sum(line["messages"] for line in refused) == 101
    assert len(refused) < 20
    assert {line["reason"] for line in refused} == {"a topic of 1025 bytes, the limit is 1024"}
    skipped = [line for line in logs if line["event"] == "skipped what a Zeek node sent"]
    assert sum(line["messages"] for line in skipped) == 2


FOLDER = Path(__file__).parents[2] / "zeek" / "zmtp" / "recordings"
BATCHES = [
    [bytes.fromhex(part) for part in json.loads(line)["parts"]]
    for line in (FOLDER / "z03-log-batches.jsonl").read_text().splitlines()
]
EXPECTED = [json.loads(line) for line in (FOLDER / "z03-log-batches.expected.ndjson").read_text().splitlines()]


@pytest.fixture
async def logger() -> AsyncIterator[Daemon]:
    async with running("hub", [], "zeek+log://127.0.0.1:0") as daemon:
        yield daemon


@pytest.fixture
def push(logger: Daemon) -> zmq.Socket[bytes]:
    socket = zmq.Context.instance().socket(zmq.PUSH)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(f"tcp://127.0.0.1:{logger.endpoints[1].port}")
    return socket


async def test_each_record_is_a_message(logger: Daemon, push: zmq.Socket[bytes]) -> None:
    async with connect(logger.endpoints[0].location) as client, client.subscribe("/zeek/LOG/") as messages:
        for parts in BATCHES:
            push.send_multipart(parts)
        found = [await anext(messages) for _ in EXPECTED]
    assert {message.topic for message in found} == {"/zeek/LOG/conn"}
    nodes = {"zeek-node=" + parts[1].decode() for parts in BATCHES}
    assert {label for message in found for label in message.labels} == nodes
    assert [str(message.value["id.orig_h"]) for message in found] == [record["id.orig_h"] for record in EXPECTED]
    assert found[0].value["id.orig_p"] == 33936
    push.close()


async def test_what_is_no_log_batch(logger: Daemon, push: zmq.Socket[bytes]) -> None:
    kind, node, serializer, batch = BATCHES[0]
    with structlog.testing.capture_logs() as logs:
        async with connect(logger.endpoints[0].location) as client, client.subscribe("/zeek/LOG/") as messages:
            push.send_multipart([kind, node, serializer])
            push.send_multipart([kind, node, b"zeek-bin-2", batch])
            push.send_multipart([kind, b"\xff", serializer, batch])
            push.send_multipart([kind, node, serializer, b""])
            push.send_multipart([kind, node, serializer, batch + b"x"])
            push.send_multipart([kind, node, serializer, batch])
            found = [await anext(messages) for _ in range(4)]
            assert [message.value["uid"] for message in found] == [record["uid"] for record in EXPECTED[:4]]
        await eventually(lambda: logger.server.rejected_messages == 5)
    told = [line["reason"] for line in logs if line["event"] == "skipped what a Zeek node sent"]
    assert len(told) == 5
    assert "1 bytes stand behind the last record" in told[4]
    push.close()
