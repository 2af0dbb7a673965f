"""The hub's own messages: their topics and fields."""

from __future__ import annotations

from typing import Any

import pytest

from hub import events
from hub.batch import Batch
from hub.delivery import Role
from hub.events import MESH_SHOWN, STATISTICS_TOPIC, Event, joined, left, mesh_changed, name_event, overflow, unreadable
from hub.handler import Handler
from hub.mesh.graph import GraphChange
from hub.names.claim import Claim
from hub.overflow import Overflow
from hub.topics import RESERVED
from tests.hub.fakes import handler_of, values_of


def handler(role: Role) -> Handler:
    made = handler_of(role=role, name="zeek-1", messages=1, overflow=Overflow.DROP_NEWEST)
    made.attach(5, lambda _: None, lambda _: None)
    return made


@pytest.mark.parametrize(
    ("event", "topic", "more"),
    [
        (joined(handler(Role.CLIENT)), "$hub/client/joined", {"role": "client"}),
        (left(handler(Role.CLIENT), "done"), "$hub/client/left", {"role": "client", "reason": "done"}),
        (joined(handler(Role.LINK)), "$hub/peer/joined", {"role": "link"}),
        (left(handler(Role.LINK), "lost"), "$hub/peer/left", {"role": "link", "reason": "lost"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_comings_and_goings(event: Event, topic: str, more: dict[str, Any]) -> None:
    assert event == Event(topic, {"id": 5, "name": "zeek-1", "address": "nowhere"} | more)
    assert values_of([Batch.of(event.topic, [event.value])]) == [event.value]


def test_the_mesh_has_changed() -> None:
    a, b = b"a" * 16, b"b" * 16
    event = mesh_changed(GraphChange((b,), (), ((a, b, 3),), ()), {a: "here", b: "there"})
    here, there = {"hub": a.hex(), "name": "here"}, {"hub": b.hex(), "name": "there"}
    linked = [{"between": [here, there], "cost": 3}]
    fields: dict[str, Any] = {"appeared": [there], "forgotten": [], "linked": linked, "cut": [], "left_out": 0}
    assert event == Event("$hub/mesh", fields)
    many = [number.to_bytes(16, "big") for number in range(MESH_SHOWN + 5)]
    gone = mesh_changed(GraphChange((), tuple(many), (), tuple((hub, b) for hub in many)), {b: "there"})
    assert gone.value["forgotten"] == [{"hub": hub.hex(), "name": ""} for hub in many[:MESH_SHOWN]]
    assert [cut["between"][1] for cut in gone.value["cut"]] == [there] * MESH_SHOWN
    assert gone.value["left_out"] == 10
    assert values_of([Batch.of(gone.topic, [gone.value])]) == [gone.value]


@pytest.mark.parametrize("what", ["appeared", "gone"])
def test_names_come_and_go(what: str) -> None:
    event = name_event(what, Claim("a.b", handler(Role.CLIENT), ("x", "y"), 7, b"\x0a" * 16, 5))
    assert event == Event(f"$hub/names/{what}", {"name": "a.b", "labels": ["x", "y"], "owner": 5, "hub": "0a" * 16})


def test_overflow_says_what_was_lost_and_what_is_held() -> None:
    slow = handler(Role.CLIENT)
    slow.prefixes = {"/a": 1, "/b": 2}
    slow.pause()
    slow.offer(Batch.of("/a", [1, 2, 3]))
    event = overflow(slow, 2)
    assert event.topic == "$hub/overflow"
    assert event.value == {
        "id": 5,
        "name": "zeek-1",
        "address": "nowhere",
        "role": "client",
        "lost": 2,
        "total": 2,
        "overflow": "drop-newest",
        "queued": 1,
        "prefixes": ["/a", "/b"],
    }


def test_all_topics_are_the_hubs_own_and_documented() -> None:
    documented = events.__doc__ or ""
    topics = [
        event.topic for role in (Role.CLIENT, Role.LINK) for event in (joined(handler(role)), left(handler(role), ""))
    ]
    topics += [lost(handler(Role.CLIENT), 1).topic for lost in (overflow, unreadable)]
    for topic in [*topics, STATISTICS_TOPIC]:
        assert topic.startswith(RESERVED)
        assert topic in documented
