"""The hub as central broker and logger of libzmq's nodes: who is told and gets what, and what nobody should send."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
import zmq
from hypothesis import given
from hypothesis import strategies as st

from peers.client import connect
from peers.connections.zeek_cluster import remote_end
from peers.connections.zeek_cluster.cluster import TURN_COST, Notices, Wanted
from peers.daemon.daemon import Daemon
from peers.transport.timing import Liveness
from peers.values import Count
from peers.values.event import Event
from peers.zeek.zmtp.frames import Command, encode_command, encode_frame, encode_message
from peers.zeek.zmtp.session import GREETING_BYTES, Greeting, encode_properties, encode_subscription
from tests.connections.zeek_cluster.conftest import StartNode
from tests.connections.zeek_cluster.nodes import HELLO, ZmqNode, running
from tests.hubs.eventually import eventually


def payloads(node: ZmqNode) -> list[bytes]:
    return [parts[3] for parts in node.events]


# Who is told what: section 3.3 of the specification, rule by rule.


async def test_who_comes_late_is_told_all_once(hub: Daemon, start_node: StartNode) -> None:
    first, second = await start_node("first", "zeek.a", "zeek.b"), await start_node("second", "zeek.b")
    await eventually(lambda: second.told.count((True, "zeek.b")) == 2 and second.is_told("zeek.a"))
    late = await start_node("late")
    await eventually(lambda: len(late.told) == 2)
    assert sorted(late.told) == [(True, "zeek.a"), (True, "zeek.b")]
    names = {handler.name for handler in hub.server.core.handlers.values()}
    assert names == {""}
    first.subscribe("zeek.cluster.nodeid.first.")
    await eventually(lambda: "first" in {handler.name for handler in hub.server.core.handlers.values()})


async def test_clients_of_the_hub_count(hub: Daemon, start_node: StartNode) -> None:
    node = await start_node("node")
    async with connect(hub.endpoints[1].location) as client:
        async with client.subscribe("zeek.a"):
            await eventually(lambda: node.is_told("zeek.a"))
            node.subscribe("zeek.a")
            await eventually(lambda: node.told.count((True, "zeek.a")) == 2)
        node.subscribe("zeek.b")
        await eventually(lambda: node.is_told("zeek.b"))
        assert node.is_told("zeek.a")
        node.unsubscribe("zeek.a")
        await eventually(lambda: node.is_told("zeek.a", is_wanted=False))


# Who gets what.


async def test_events_reach_nodes_as_they_were_sent(start_node: StartNode) -> None:
    sender, reader = await start_node("sender", "zeek."), await start_node("reader", "zeek.a", "zeek.a.b", "zeek.c")
    await eventually(lambda: {topic for _, topic in sender.told} == {"zeek.", "zeek.a", "zeek.a.b", "zeek.c"})
    large = Event("Demo::large", "x" * 70_000)
    sent = []
    for number in range(300):
        event = large if number % 100 == 50 else Event("Demo::number", Count(number))
        topic = ("zeek.a", "zeek.a.b", "zeek.b")[number % 3]
        sender.publish_event(topic, event)
        sent.append([topic.encode(), b"sender", b"broker-bin-v1", event.encode()])
    await eventually(lambda: len(sender.events) == 300 and len(reader.events) == 200)
    assert sender.events == sent
    assert reader.events == [parts for parts in sent if parts[0] != b"zeek.b"]


async def test_events_are_messages_of_the_hub(hub: Daemon, start_node: StartNode) -> None:
    node = await start_node("zeromq_worker-1", "zeek.to.nodes")
    async with connect(hub.endpoints[1].location) as client, client.subscribe("zeek.from") as messages:
        await eventually(lambda: node.is_told("zeek.from"))
        node.publish_event("zeek.from.nodes")
        message = await anext(messages)
        assert (message.topic, message.labels) == ("zeek.from.nodes", ("zeek-node=zeromq_worker-1",))
        assert Event.of(message.value) == HELLO
        await client.publish("zeek.to.nodes", HELLO)
        await client.publish("zeek.to.nodes", "no event")
        await client.publish("zeek.to.nodes", HELLO)
        await eventually(lambda: len(node.events) == 2)
    for topic, sender, serializer, payload in node.events:
        assert (topic, serializer, payload) == (b"zeek.to.nodes", b"broker-bin-v1", HELLO.encode())
        assert sender.startswith(b"topichub_hub_")


# Overload and bad input.


async def test_a_stuck_node_keeps_nobody_waiting(hub: Daemon, start_node: StartNode) -> None:
    sender, stuck = await start_node("sender"), await start_node("stuck", "zeek.", receive_hwm=1)
    reader = await start_node("reader", "zeek.")
    await eventually(lambda: sender.told.count((True, "zeek.")) == 2)
    event = Event("Demo::large", "x" * 50_000)
    for sent in range(20, 2001, 20):
        for _ in range(20):
            sender.publish_event("zeek.a", event)
        await eventually(lambda sent=sent: len(reader.events) == sent)  # type: ignore[misc]
    dropped = sum(handler.dropped_messages for handler in hub.server.core.handlers.values())
    assert dropped > 0
    await eventually(lambda: len(stuck.events) == 2000 - dropped)


EVENT = HELLO.encode()

HEAD = [b"zeek.a", b"x", b"broker-bin-v1"]

NO_EVENTS = [
    ([b"zeek.a"], "1 parts"),
    (HEAD, "3 parts"),
    ([*HEAD, EVENT, b""], "5 parts"),
    ([*HEAD[:2], b"broker-bin-v2", EVENT], "broker-bin-v2"),
    ([*HEAD, b""], "not an event"),
    ([*HEAD, b"\5\3abc"], "not an event"),
    ([*HEAD[:2], b"broker-json-v1", b"{"], "JSON"),
    ([b"zeek.a", b"\xff", b"broker-bin-v1", EVENT], "UTF-8"),
    ([b"zeek.a\xff", *HEAD[1:], EVENT], "UTF-8"),
    ([b"zeek.a", b"x" * 400, b"broker-bin-v1", EVENT], "128 bytes"),
    ([b"zeek.a" * 200, *HEAD[1:], EVENT], "1024"),
    # Behind a beginning that is known by now.
    ([*HEAD, EVENT[:-1]], "not complete"),
    ([*HEAD, EVENT + b"\x00"], "1 bytes follow"),
    ([*HEAD, EVENT[:21] + b"\x02" + b"\xff" * 30], "no type"),
    ([*HEAD, Event("e").encode()[:-2] + b"\x0e\x01" * 500_000 + b"\x00"], "are nested"),
    ([*HEAD, EVENT[:21] + b"\x02\x0e\x00\x0e\x00"], "not an event"),
]


async def test_what_is_no_event_reaches_nobody(
    hub: Daemon, start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_end, "LINES_PER_SECOND", 100)
    node, reader = await start_node("node"), await start_node("reader", "zeek.")
    await eventually(lambda: node.is_told("zeek."))
    with structlog.testing.capture_logs() as logs:
        for number, (parts, reason) in enumerate(NO_EVENTS, 1):
            logs.clear()
            node.publish(*parts)
            node.publish(*HEAD, EVENT)
            await eventually(lambda number=number: len(reader.events) >= number)  # type: ignore[misc]
            assert payloads(reader) == [EVENT] * number, parts
            await eventually(
                lambda: [line for line in logs if line["event"] == "skipped invalid data from a Zeek node"]
            )
            (line,) = [line for line in logs if line["event"] == "skipped invalid data from a Zeek node"]
            assert reason in line["reason"], parts
            assert hub.server.rejected_messages == number


WORD_COST = 5
AT_ONCE = 64


class Loop:
    def __init__(self) -> None:
        self.due: deque[Callable[[], object]] = deque()

    def turn(self) -> None:
        for _ in range(len(self.due)):
            self.due.popleft()()


class Told:
    def __init__(self, notices: Notices) -> None:
        self.notices = notices
        self.told: list[bytes] = []
        self.again: dict[bytes, bool] = {}
        self.untold: OrderedDict[bytes, None] = OrderedDict()

    def note(self, topic: bytes, *, again: bool = False) -> None:
        self.untold[topic] = None
        self.again[topic] = again
        self.notices.stand(self)

    @property
    def has_unsent(self) -> bool:
        return bool(self.untold)

    def send_some(self) -> int:
        count = min(len(self.untold), AT_ONCE)
        self.told += [self.untold.popitem(last=False)[0] for _ in range(count)]
        return count * WORD_COST


class Crowd:
    def __init__(self, count: int) -> None:
        self.loop = Loop()
        self.publishers: dict[Any, None] = {}
        self.notices = Notices(self.loop.due.append, self.publishers)
        self.all = [Told(self.notices) for _ in range(count)]
        self.publishers.update(dict.fromkeys(self.all))

    def words(self) -> int:
        return sum(len(publisher.told) for publisher in self.all)


@pytest.mark.parametrize("count", [1, 10, 300])
def test_a_turn_has_a_share(count: int) -> None:
    crowd = Crowd(count)
    topics = [f"zeek.{number}".encode() for number in range(200)]
    for topic in topics:
        crowd.notices.changed(topic, again=False)
    assert crowd.words() == 0
    turns = 0
    while crowd.loop.due:
        before = crowd.words()
        crowd.loop.turn()
        turns += 1
        assert (crowd.words() - before) * WORD_COST <= TURN_COST + AT_ONCE * WORD_COST
        assert len(crowd.loop.due) <= 1
    assert all(publisher.told == topics for publisher in crowd.all)
    assert turns >= count * len(topics) * WORD_COST // (TURN_COST + AT_ONCE * WORD_COST)


@given(st.lists(st.tuples(st.sampled_from("arl"), st.integers(0, 3), st.integers(0, 4)), max_size=60))
def test_publishers_know_what_is_wanted(steps: list[tuple[str, int, int]]) -> None:
    wanted: Wanted[int] = Wanted()
    truth: dict[int, set[bytes]] = {number: set() for number in range(4)}
    told: set[bytes] = set()
    for act, who, number in steps:
        topic = b"t%d" % number
        if act == "a":
            assert wanted.add(who, topic) == (topic not in truth[who])
            told.add(topic)  # each subscribe is told
            truth[who].add(topic)
        elif act == "r":
            if wanted.remove(who, topic):
                told.remove(topic)
            truth[who].discard(topic)
        else:
            told.difference_update(wanted.leave(who))
            truth[who].clear()
        assert told == set().union(*truth.values()) == set(wanted.topics)


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
    connection: Any
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
    skipped = [line for line in logs if line["event"] == "skipped invalid data from a Zeek node"]
    assert sum(line["messages"] for line in skipped) == 2


FOLDER = Path(__file__).parents[2] / "zeek" / "zmtp" / "recorded"
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
    told = [line["reason"] for line in logs if line["event"] == "skipped invalid data from a Zeek node"]
    assert len(told) == 5
    assert "1 bytes follow the last record" in told[4]
    push.close()


async def test_subscriptions_that_are_none(hub: Daemon, start_node: StartNode) -> None:
    node = await start_node("node")
    wrong = (b"\xff", b"$hub/", b"zeek\n")
    for topic in wrong:
        node.ask(b"\1" + topic)
    node.subscribe("zeek.a")
    await eventually(lambda: node.is_told("zeek.a"))
    assert node.told == [(True, "zeek.a")]
    assert hub.server.zeek.refused_subscriptions == len(wrong)
    for topic in wrong:
        node.ask(b"\0" + topic)
    node.unsubscribe("zeek.a")
    await eventually(lambda: node.is_told("zeek.a", is_wanted=False))
