"""Recorded clusters, as one of their nodes: what this one says is what theirs have said, byte for byte.

Of each story, a node is played by `Discovery` and `EventWriter`: it is told what that node was told, and hears what it
has heard. Compared is each greeting, all four parts of it. Not compared is what scripts have said besides (`Demo::...`,
`Check::...`, subscriptions of their own), as that follows from no protocol.
"""

from __future__ import annotations

import math
from collections import Counter

import pytest

from hub.batch import Batch
from hub.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from peers.zeek.zmtp.discovery import Discovery, Down, Say, Up
from peers.zeek.zmtp.events import EventWriter
from peers.zeek.zmtp.frames import encode_message
from tests.zeek.zmtp.recordings import NODE_ID, STORIES, Step, story

THREE = "z04-node-joins-late-and-broker-restarts-parts.jsonl"


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


def test_the_node_that_stands_for_a_hub() -> None:
    steps = story(THREE)
    known = ids(steps)
    own = known["proxy"]
    told = [
        step._replace(is_sent=False, socket="XPUB" if step.socket == "XSUB" else "XSUB")
        for step in steps
        if step.is_sent
        and step.topic.startswith(NODE_ID)
        and (step.socket == "XSUB" or step.topic == NODE_ID + own + b".")
    ]
    # The recording has no line for when it was told its own subscription: it is told to all, so it was told then, too.
    seen = next(step for step in steps if step.node == "manager" and step.topic == NODE_ID + own + b".")
    said, raised = played(sorted([*told, seen]), "proxy", own, math.inf)
    heard = [step.parts for step in steps if not step.is_sent and len(step.parts) > 1 and step.parts[1] == own]
    assert Counter(said) == Counter(encode_message(parts) for parts in heard if parts[0].startswith(NODE_ID))
    assert raised == [Up(known[name].decode(), name) for name in ("manager", "worker-1")]
