"""The hub in the place of Zeek's central broker, with nodes made of libzmq: who is told what, and who gets what."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from peers.client import connect
from peers.connections.zeek_cluster import remote_end
from peers.connections.zeek_cluster.cluster import TURN_COST, Notices, Wanted
from peers.daemon.daemon import Daemon
from peers.values import Count
from peers.values.event import Event
from tests.connections.zeek_cluster.conftest import StartNode
from tests.connections.zeek_cluster.nodes import HELLO, ZmqNode
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
    ([*HEAD, b""], "no event"),
    ([*HEAD, b"\5\3abc"], "no event"),
    ([*HEAD[:2], b"broker-json-v1", b"{"], "JSON"),
    ([b"zeek.a", b"\xff", b"broker-bin-v1", EVENT], "UTF-8"),
    ([b"zeek.a\xff", *HEAD[1:], EVENT], "UTF-8"),
    ([b"zeek.a", b"x" * 400, b"broker-bin-v1", EVENT], "128 bytes"),
    ([b"zeek.a" * 200, *HEAD[1:], EVENT], "1024"),
    # Behind a beginning that is known by now.
    ([*HEAD, EVENT[:-1]], "not complete"),
    ([*HEAD, EVENT + b"\x00"], "1 bytes follow"),
    ([*HEAD, EVENT[:21] + b"\x02" + b"\xff" * 30], "no type"),
    ([*HEAD, Event("e").encode()[:-2] + b"\x0e\x01" * 500_000 + b"\x00"], "stand in each other"),
    ([*HEAD, EVENT[:21] + b"\x02\x0e\x00\x0e\x00"], "no event"),
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
            await eventually(lambda: [line for line in logs if line["event"] == "skipped what a Zeek node sent"])
            (line,) = [line for line in logs if line["event"] == "skipped what a Zeek node sent"]
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
