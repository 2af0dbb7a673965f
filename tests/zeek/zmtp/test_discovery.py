"""Which nodes of a cluster are up, and what they say to each other: simulated clusters, and what goes wrong."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.messages.batch import Batch
from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from peers.values.event import Event
from peers.zeek.zmtp import discovery
from peers.zeek.zmtp.discovery import NODE_ID, Discovery, Down, Odd, Say, Up
from peers.zeek.zmtp.events import EventWriter
from peers.zeek.zmtp.frames import encode_message
from tests.zeek.zmtp.recordings import STORIES, Step, story

GREETING = "Cluster::Backend::ZeroMQ::hello"
ANSWER = "Cluster::hello"


def topic(node_id: str) -> bytes:
    return NODE_ID + node_id.encode() + b"."


def said(changes: list[Any]) -> list[tuple[str, bytes]]:
    return [(Event.decode(change.payload).name, change.topic) for change in changes if isinstance(change, Say)]


def word(name: str, *args: Any) -> bytes:
    return Event(name, *args).encode()


def heard() -> Discovery:
    own = Discovery("hub", "own")
    own.subscribing()
    own.subscribed(topic("own"))
    assert own.changes() == []
    return own


def with_one() -> Discovery:
    own = heard()
    own.subscribed(topic("w"))
    own.hear(word(GREETING, "worker-1", "w"))
    own.hear(word(ANSWER, "worker-1", "w"))
    own.changes()
    assert own.nodes == {"w": "worker-1"}
    return own


@pytest.mark.parametrize("order", list(itertools.permutations(["subscription", "greeting", "answer"])))
def test_a_greeting_in_any_order(order: tuple[str, ...]) -> None:
    own, changes = heard(), []
    for step in order:
        if step == "subscription":
            own.subscribed(topic("w"))
        else:
            own.hear(word(GREETING if step == "greeting" else ANSWER, "worker-1", "w"))
        changes += own.changes()
    assert said(changes) == [(GREETING, topic("w")), (ANSWER, topic("w"))]
    assert [change for change in changes if not isinstance(change, Say)] == [Up("w", "worker-1")]
    assert all(Event.decode(change.payload).args == ("hub", "own") for change in changes if isinstance(change, Say))


def test_a_node_comes_again_whose_end_was_not_told() -> None:
    own = with_one()
    own.hear(word(ANSWER, "worker-1", "w2"))
    assert own.changes() == [Down("w", "worker-1", "w2 has its name now"), Up("w2", "worker-1")]
    assert own.nodes == {"w2": "worker-1"}


def test_the_broker_is_restarted() -> None:
    own = with_one()
    own.subscribed(topic("x"))
    own.hear(word(GREETING, "worker-2", "x"))
    own.hear(word(ANSWER, "worker-2", "x"))
    own.changes()
    own.interrupted()
    own.subscribing()
    own.look()
    own.subscribed(topic("w"))
    own.subscribed(topic("own"))
    assert own.changes() == []
    own.look()
    assert own.changes() == [Down("x", "worker-2", "it is not there again since the connection was lost")]
    own.look()
    own.subscribed(topic("x"))
    assert own.changes() == [Up("x", "worker-2")]
    assert own.nodes == {"w": "worker-1", "x": "worker-2"}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"garbage",
        word("Demo::hello", "worker-1", "w"),
        word(GREETING),
        word(GREETING, "worker-1", 7),
        word(ANSWER, "x" * 257, "w"),
        word(ANSWER, "worker-1", "own"),
    ],
)
def test_what_is_no_greeting(payload: bytes) -> None:
    own = heard()
    own.hear(payload)
    is_wrong = b"ello" in payload and b"Demo" not in payload and b"own" not in payload
    assert [type(change) for change in own.changes()] == [Odd] * is_wrong
    assert own.nodes == {}


def test_subscriptions_that_mean_nobody() -> None:
    own = heard()
    for one in (NODE_ID, NODE_ID + b".", NODE_ID + b"\xff."):
        own.subscribed(one)
        own.unsubscribed(one)
    assert own.changes() == []


def test_nodes_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "NODES_LIMIT", 3)
    own = with_one()
    for node_id in ("x", "y", "z"):
        own.subscribed(topic(node_id))
    changes = own.changes()
    assert said(changes) == [(GREETING, topic("x")), (GREETING, topic("y"))]
    assert [change.reason for change in changes if isinstance(change, Odd)] == [
        "3 nodes are known: no further ones are greeted"
    ]
    own.interrupted()
    own.look()
    own.look()
    own.subscribing()
    own.subscribed(topic("own"))
    own.subscribed(topic("z"))
    assert (GREETING, topic("z")) in said(own.changes())


class Net:
    def __init__(self, names: list[str]) -> None:
        self.nodes = {f"id-{name}": Discovery(name, f"id-{name}") for name in names}
        self.there: dict[str, None] = {}
        self.ways: dict[tuple[str, str, str], list[Any]] = {}

    def join(self, node_id: str) -> None:
        self.nodes[node_id].subscribing()
        for other in self.there:
            self._send("broker", node_id, "subscribed", topic(other))
        self.there[node_id] = None
        for other in self.there:
            self._send("broker", other, "subscribed", topic(node_id))

    def leave(self, node_id: str) -> None:
        del self.there[node_id]
        for way in self.ways:
            if node_id in way[:2]:
                self.ways[way].clear()
        self.nodes[node_id].interrupted()
        for other in self.there:
            self._send("broker", other, "unsubscribed", topic(node_id))

    def step(self, choice: int) -> bool:
        ways = [way for way, waiting in self.ways.items() if waiting]
        if not ways:
            return False
        way = ways[choice % len(ways)]
        what, arg = self.ways[way].pop(0)
        getattr(self.nodes[way[1]], what)(arg)
        for change in self.nodes[way[1]].changes():
            if isinstance(change, Say):
                to = change.topic[len(NODE_ID) : -1].decode()
                if to in self.there:
                    self._send(way[1], to, "hear", change.payload)
        return True

    def _send(self, source: str, to: str, what: str, arg: bytes) -> None:
        self.ways.setdefault((source, to, "says" if what == "hear" else "tells"), []).append((what, arg))


@settings(max_examples=100)
@given(st.data())
def test_simulated_clusters(data: st.DataObject) -> None:
    names = ["a", "b", "c", "d"][: data.draw(st.integers(2, 4))]
    net = Net(names)
    for _ in range(data.draw(st.integers(1, 8))):
        node_id = data.draw(st.sampled_from(sorted(net.nodes)))
        (net.leave if node_id in net.there else net.join)(node_id)
        for _ in range(data.draw(st.integers(0, 12))):
            net.step(data.draw(st.integers(0, 50)))
    steps = 0
    while net.step(data.draw(st.integers(0, 50))):
        steps += 1
        assert steps < 500
    for node_id in net.there:
        known = net.nodes[node_id].nodes
        assert {other for other in known if other in net.there} == net.there.keys() - {node_id}


def ids(steps: list[Step]) -> dict[str, bytes]:
    found = {}
    for step in steps:
        if step.topic.startswith(NODE_ID):
            node_id = step.topic[len(NODE_ID) : -1]
            found[node_id.split(b"_")[1].decode()] = node_id
    return found


def played(steps: list[Step], name: str, own: bytes, away_s: float) -> tuple[list[bytes], list[Up | Down]]:
    """Let this node be one of a story.

    Args:
        steps: What it was told, and what it has heard.
        name: Of the node.
        own: Its id.
        away_s: When it notices that the broker is away.

    Returns:
        What it says, as events on the wire, and who is up or down.
    """
    discovery, writer = Discovery(name, own.decode()), EventWriter(own)
    discovery.subscribing()
    said: list[bytes] = []
    raised: list[Up | Down] = []
    for step in steps:
        if step.t_s > away_s:
            discovery.interrupted()
            discovery.subscribing()
            away_s = math.inf
        if step.socket == "XPUB":
            (discovery.subscribed if step.parts[0][:1] == b"\1" else discovery.unsubscribed)(step.topic)
        else:
            discovery.hear(step.parts[3])
        for change in discovery.changes():
            if isinstance(change, Say):
                frame = encode_frame(KIND_MESSAGES, change.payload, key=change.topic, flags=BROKER_FLAGS)
                said.append(writer.write(Batch(frame, 1))[0])
            elif isinstance(change, Up | Down):
                raised.append(change)
    return said, raised


def is_told(step: Step, own: bytes) -> bool:
    if step.is_sent or not step.topic.startswith(NODE_ID):
        return False
    return step.socket == "XPUB" or step.topic == NODE_ID + own + b"."


@pytest.mark.parametrize("is_interrupted", [False, True])
@pytest.mark.parametrize("name", ["manager", "worker-1"])
@pytest.mark.parametrize("recording", STORIES)
def test_a_node_that_was_recorded(recording: str, name: str, is_interrupted: bool) -> None:  # noqa: FBT001
    steps = story(recording)
    own = ids(steps)[name]
    told = [step for step in steps if step.node == name and is_told(step, own)]
    said, raised = played(told, name, own, STORIES[recording] if is_interrupted else math.inf)
    greetings = [step for step in steps if step.node == name and step.is_sent and step.topic.startswith(NODE_ID)]
    assert said == [encode_message(step.parts) for step in greetings if step.socket == "XPUB"]
    others = {other: node_id.decode() for other, node_id in ids(steps).items() if other != name}
    ended = {step.topic for step in told if step.socket == "XPUB" and step.parts[0][:1] == b"\0"}
    gone = [other for other, node_id in others.items() if NODE_ID + node_id.encode() + b"." in ended]
    expected: list[Up | Down] = [Up(node_id, other) for other, node_id in others.items()]
    expected += [Down(others[other], other, "it has gone") for other in gone]
    assert sorted(raised, key=str) == sorted(expected, key=str)
    assert [type(change) for change in raised] == [Up] * len(others) + [Down] * len(gone)
    assert gone or name == "worker-1"
