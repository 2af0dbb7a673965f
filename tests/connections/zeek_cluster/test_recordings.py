"""Recorded clusters, played to the hub: their nodes to the hub as the broker, their broker to the hub as a node."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import structlog
import zmq

from hub.limits import QueueLimits
from peers.client import connect
from peers.connections.zeek_diallers import cluster_diallers
from peers.daemon.daemon import Daemon
from peers.transport.endpoints import Endpoint, Scheme
from peers.values.event import Event
from peers.zeek.zmtp.frames import Command, Incoming, Message, encode_command, encode_message
from peers.zeek.zmtp.session import GREETING_BYTES, decode_properties
from tests.connections.zeek_cluster.nodes import joined, running
from tests.hubs.eventually import eventually, settle
from tests.zeek.zmtp.recordings import NODE_ID, STORIES, TO_BROKER, TO_NODE, Step, story, wire

WIRE = wire("z01-null-wire.jsonl")
XSUB, XPUB = "worker-1 XSUB to broker XPUB", "worker-1 XPUB to broker XSUB"


def handshake(stream: bytes) -> tuple[bytes, bytes]:
    end = GREETING_BYTES + 2 + stream[GREETING_BYTES + 1]
    return stream[:GREETING_BYTES], stream[GREETING_BYTES:end]


def fits(said: bytes, recorded: bytes) -> bool:
    (greeting, ready), (like, like_ready) = handshake(said), handshake(recorded)
    properties, expected = (decode_properties(frame[2 + len(b"\x05READY") :]) for frame in (ready, like_ready))
    return greeting == like and expected.items() <= properties.items()


class Socket:
    def __init__(self, own: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._own, self._reader, self._writer = own, reader, writer
        self._incoming = Incoming(1 << 20)
        self.got: list[Message | Command] = []
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def connect(cls, own: bytes, port: int, stream: bytes, like: bytes) -> Socket:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        greeting, ready = handshake(stream)
        writer.write(greeting[:11])
        writer.write(greeting[11:] + ready)
        said = await reader.readexactly(GREETING_BYTES + 2)
        said += await reader.readexactly(said[-1])
        assert fits(said, like)
        return cls(own, reader, writer)

    async def _read(self) -> None:
        while data := await self._reader.read(65_536):
            self._incoming.feed(data)
            while (found := self._incoming.next_message()) is not None:
                # A node drops what it has published itself.
                if isinstance(found, Command) or len(found.parts) == 1 or found.parts[1] != self._own:
                    self.got.append(found)

    @property
    def topics(self) -> Counter[tuple[bool, bytes]]:
        return Counter(
            (found.parts[0][:1] == b"\1", found.parts[0][1:])
            if isinstance(found, Message)
            else (found.name == b"SUBSCRIBE", found.data)
            for found in self.got
        )

    def send(self, frames: bytes) -> None:
        self._writer.write(frames)

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


class Stage:
    def __init__(self, ids: dict[str, bytes]) -> None:
        self._ids = ids
        self.sockets: dict[tuple[str, str], Socket] = {}
        # What each node wants, for when it comes again.
        self.wanted: dict[str, dict[bytes, None]] = {}

    async def open(self, endpoint: Endpoint, *names: str) -> None:
        for name in names:
            own = self._ids[name]
            for kind, port, which in (("XSUB", endpoint.port, XSUB), ("XPUB", endpoint.xsub, XPUB)):
                stream, like = (b"".join(WIRE[which + "#1", way]) for way in (TO_BROKER, TO_NODE))
                self.sockets[name, kind] = await Socket.connect(own, port, stream, like)
            for topic in self.wanted.setdefault(name, {}):
                self.sockets[name, "XSUB"].send(encode_command(Command(b"SUBSCRIBE", topic)))

    def send(self, step: Step) -> None:
        if step.socket == "XSUB":
            wanted = self.wanted[step.node]
            if step.parts[0][:1] == b"\1":
                wanted[step.topic] = None
            else:
                wanted.pop(step.topic, None)
        self.sockets[step.node, step.socket].send(encode_message(step.parts))

    def close(self, *names: str) -> None:
        for name, kind in list(self.sockets):
            if name in names:
                self.sockets.pop((name, kind)).close()


def ids_of(steps: list[Step]) -> dict[str, bytes]:
    found = {}
    for step in steps:
        if step.topic.startswith(NODE_ID):
            node_id = step.topic[len(NODE_ID) : -1]
            found[node_id.split(b"_")[1].decode()] = node_id
    return found


def written_out(steps: list[Step]) -> list[Step]:
    """Add what nodes have sent of which only what came of it was recorded.

    That is all that "proxy" has sent, and that nodes have gone at the end: a step of nothing on the socket "gone".
    """
    if any(step.socket == "gone" for step in steps):
        return steps
    ids = ids_of(steps)
    names = {node_id: name for name, node_id in ids.items()}
    recorded = {step.node for step in steps if step.is_sent}
    asked: set[bytes] = set().union(*({step.topic} for step in steps if step.is_sent and step.socket == "XSUB"))
    left = {(step.topic) for step in steps if step.is_sent and step.socket == "XSUB" and step.parts[0][:1] == b"\0"}
    added: list[Step] = []
    gone: set[str] = set()
    for step in steps:
        if step.is_sent:
            continue
        if step.socket == "XPUB" and step.topic not in asked and step.parts[0][:1] == b"\1":
            asked.add(step.topic)
            added.append(_sent(step, "proxy", "XSUB"))
        elif step.socket == "XPUB" and step.parts[0][:1] == b"\0" and step.topic not in left:
            goes = "proxy" if "proxy" in ids else "worker-1"
            if goes not in gone:
                gone.add(goes)
                added.append(Step(step.t_s - 1e-7, goes, "gone", is_sent=True, parts=[b"\0", b""]))
        elif len(step.parts) > 1 and names[step.parts[1]] not in recorded:
            added.append(_sent(step, names[step.parts[1]], "XPUB"))
    return sorted([*steps, *added], key=lambda step: step.t_s)


def _sent(step: Step, node: str, socket: str) -> Step:
    return step._replace(t_s=step.t_s - 1e-7, node=node, socket=socket, is_sent=True)


@pytest.mark.parametrize("recording", STORIES)
async def test_the_hub_in_the_place_of_the_broker(recording: str) -> None:
    steps = written_out(story(recording))
    stage = Stage(ids_of(steps))
    names = {step.node for step in steps}
    away_s = STORIES[recording]
    for part in ([step for step in steps if step.t_s < away_s], [step for step in steps if step.t_s >= away_s]):
        if not part:
            continue
        async with running("hub", [], "zeek+zmq://127.0.0.1:0") as hub:
            # A node that comes late in the story is told what was wanted before, in whichever order.
            late = [name for name in names if not stage.wanted.get(name)]
            await stage.open(hub.endpoints[1], *sorted(names - {"proxy"} if late else names))
            await play(part, stage, hub.endpoints[1], has_proxy="proxy" in names)
            stage.close(*names)


async def play(part: list[Step], stage: Stage, endpoint: Endpoint, *, has_proxy: bool) -> None:
    expected: dict[tuple[str, str], list[Step]] = {key: [] for key in stage.sockets if key[0] != "proxy"}

    def all_has_come() -> bool:
        return all(len(stage.sockets[key].got) >= len(some) for key, some in expected.items())

    for step in part:
        if not step.is_sent:
            expected[step.node, step.socket].append(step)
            continue
        if has_proxy and step.node == "proxy" and ("proxy", "XSUB") not in stage.sockets:
            await stage.open(endpoint, "proxy")
        await eventually(all_has_come)
        if step.socket == "gone":
            stage.close(step.node)
            for kind in ("XSUB", "XPUB"):
                expected.pop((step.node, kind), None)
        else:
            stage.send(step)
    await eventually(all_has_come)
    await settle()
    for key, some in expected.items():
        socket = stage.sockets[key]
        if key[1] == "XPUB":
            assert socket.topics == Counter((step.parts[0][:1] == b"\1", step.topic) for step in some)
        else:
            got = by_sender([found.parts for found in socket.got if isinstance(found, Message)])
            assert got == by_sender([step.parts for step in some])


def by_sender(events: list[list[bytes]]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for parts in events:
        found.setdefault(parts[1], []).append(encode_message(parts))
    return found


# The hub as a node.


class FarBroker:
    def __init__(self) -> None:
        self.turn = 1
        self.said: list[bytes] = []  # what the hub has said on each connection
        self._writers: list[asyncio.StreamWriter] = []

    @classmethod
    @asynccontextmanager
    async def run(cls) -> AsyncIterator[tuple[FarBroker, Endpoint]]:
        self = cls()
        async with AsyncExitStack() as stack:
            ports = []
            for which in (XSUB, XPUB):
                server = await asyncio.start_server(partial(self._serve, which), "127.0.0.1", 0)
                await stack.enter_async_context(server)
                ports.append(server.sockets[0].getsockname()[1])
            yield self, Endpoint(Scheme.ZEEK_ZMQ, "127.0.0.1", ports[0], xsub=ports[1])
            self.hang_up()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, which: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        said = await reader.readexactly(GREETING_BYTES)
        number = len(self.said)
        self.said.append(said)
        for read in WIRE[f"{which}#{self.turn}", TO_NODE]:
            writer.write(read)
        while data := await reader.read(65_536):
            self.said[number] += data


async def test_the_hub_as_a_node_of_the_recorded_broker() -> None:
    async with AsyncExitStack() as stack:
        broker, endpoint = await stack.enter_async_context(FarBroker.run())
        hub = await stack.enter_async_context(running("hub", []))
        client = await stack.enter_async_context(connect(hub.endpoints[0].location))
        messages = await stack.enter_async_context(client.subscribe("zeek.", "demo."))
        both = cluster_diallers(hub.server, endpoint, QueueLimits())
        tasks = [asyncio.ensure_future(dialler.run()) for dialler in both]
        for turn in (1, 2):
            broker.turn = turn
            broker.hang_up()
            expected = events_of(f"{XSUB}#{turn}")
            got = [await anext(messages) for _ in expected]
            assert [(one.topic.encode(), one.labels, Event.of(one.value)) for one in got] == expected
            wanted = wanted_of(f"{XPUB}#{turn}")
            await eventually(lambda wanted=wanted: wants(hub) == wanted)  # type: ignore[misc]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(broker.said) == 4
    for said in broker.said:
        which = XPUB if b"XPUB" in said else XSUB
        assert fits(said, b"".join(WIRE[which + "#1", TO_BROKER]))


def wants(hub: Daemon) -> set[str]:
    return {prefix for one in joined(hub) if one.handler is not None for prefix in one.handler.prefixes}


def messages_of(connection: str) -> list[Message | Command]:
    stream = b"".join(WIRE[connection, TO_NODE])
    incoming = Incoming(1 << 20)
    incoming.feed(stream[len(b"".join(handshake(stream))) :])
    return list(iter(incoming.next_message, None))  # type: ignore[arg-type]


def events_of(connection: str) -> list[tuple[bytes, tuple[str, ...], Event]]:
    parts = [found.parts for found in messages_of(connection) if isinstance(found, Message)]
    return [(topic, (f"zeek-node={sender.decode()}",), Event.decode(payload)) for topic, sender, _, payload in parts]


def wanted_of(connection: str) -> set[str]:
    wanted: dict[str, None] = {}
    for found in messages_of(connection):
        is_wanted, topic = (
            (found.parts[0][:1] == b"\1", found.parts[0][1:])
            if isinstance(found, Message)
            else (found.name == b"SUBSCRIBE", found.data)
        )
        if is_wanted:
            wanted[topic.decode()] = None
        else:
            wanted.pop(topic.decode(), None)
    return set(wanted)


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
