"""Zeek events: to a Broker value and back, and what is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.journal.packing import pack
from hub.labels.envelope import key_of
from hub.messages.batch import Batch
from hub.messages.frame import BROKER_FLAGS, FLAG_BATCH, KIND_MESSAGES, encode_frame
from peers.values import Count, Timespan, Timestamp, decode, encode, from_msgpack
from peers.values.event import NETWORK_TIMESTAMP, USER_METADATA, Event, NoEventError
from peers.values.event_stream import closed_event, dropped_event, events_form, gone_event, recorded_events

MOMENT = datetime(2014, 7, 9, 10, 16, 44, tzinfo=UTC)


def test_as_bytes() -> None:
    event = Event("ping", "my-message", Count(2))
    assert event.encode().hex() == (
        "0e030200000000000000010200000000000000010e02050470696e670e02050a6d792d6d657373616765020000000000000002"
    )
    stamped = Event("ping", timestamp=MOMENT)
    assert stamped.encode().hex() == (
        "0e030200000000000000010200000000000000010e03050470696e670e000e010e0202000000000000000109137f360508027800"
    )
    assert Event.decode(event.encode()) == event
    assert Event.decode(stamped.encode()).timestamp == Timestamp.of(MOMENT)


def test_natural_arguments() -> None:
    event = Event(
        "Demo::hello", ip_address("192.0.2.7"), timedelta(seconds=2), {"a": [1]}, metadata=[(USER_METADATA, "mine")]
    )
    again = Event.of(decode(from_msgpack(event.to_msgpack())))
    assert again == event
    assert hash(again) == hash(event)
    assert again.args[1] == Timespan(2_000_000_000)
    assert again.metadata == ((Count(USER_METADATA), "mine"),)
    assert again.timestamp is None
    assert str(event) == "Demo::hello(192.0.2.7, 2000000000ns, {a -> (1)})"
    assert repr(Event("a", Count(1))) == "Event('a', Count(1))"
    assert event != Event("Demo::hello")


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ((Count(1), Count(3), ("stream", ("a",))), "of kind 3, an event has kind 1"),
        ((1, 1, ("ping", ())), r"not a Zeek event: \(1, 1, \(ping, \(\)\)\)"),
        ((Count(1), Count(1), ("ping",)), "not a Zeek event"),
        ({"a": 1}, "not a Zeek event: "),
        (None, "not a Zeek event: nil"),
    ],
)
def test_no_events(value: object, cause: str) -> None:
    with pytest.raises(NoEventError, match=cause):
        Event.of(value)


def test_metadata_that_is_none() -> None:
    event = Event.of((Count(1), Count(1), ("ping", (), ((NETWORK_TIMESTAMP, Timestamp(5)), (1, 2), "no pair"))))
    assert event.timestamp == Timestamp(5)
    assert len(event.metadata) == 1
    assert Event.of((Count(1), Count(1), ("ping", (), "nothing"))).metadata == ()


def parsed(stream: bytes) -> list[tuple[str, Any, str | None]]:
    found = []
    for text in stream.decode().split("\n\n")[:-1]:
        fields: dict[str, str] = {}
        for line in text.split("\n"):
            name, _, value = line.partition(": ")
            assert name in {"id", "event", "data"}
            assert name not in fields
            fields[name] = value
        found.append((fields.get("event", "message"), json.loads(fields["data"]), fields.get("id")))
    return found


def told(batch: Batch) -> tuple[list[tuple[str, Any]], int]:
    form = batch.form(events_form)
    return [(name, data) for name, data, _ in parsed(form.frames(batch))], form.lost_messages


@settings(max_examples=30)
@given(st.lists(st.recursive(st.none() | st.text() | st.integers(-9, 9), st.lists), min_size=1, max_size=5))
def test_values(values: list[Any]) -> None:
    events = [("message", {"topic": "/a\u2028", "value": value}) for value in values]
    assert told(Batch.of("/a\u2028", values)) == (events, 0)


KEY, FLAGS = key_of("/a", ["y", "x"], "org.example.Me")
BAD = encode_frame(KIND_MESSAGES, b"\xc1", key=b"/a")
GOOD = encode_frame(KIND_MESSAGES, b"\x01", key=b"/a")
BROKEN = encode_frame(KIND_MESSAGES, b"\x00\x00\x00\x03\x01", key=b"/a", flags=FLAG_BATCH)
TAGGED = encode_frame(KIND_MESSAGES, b"\x01", key=KEY, flags=FLAGS)
OF_ZEEK = encode_frame(KIND_MESSAGES, encode(Count(3)), key=b"/a", flags=BROKER_FLAGS)


def test_labels_values_of_zeek_and_what_has_no_form() -> None:
    one = ("message", {"topic": "/a", "value": 1})
    labelled = {"topic": "/a", "labels": ["x", "y"], "sender": "org.example.Me", "value": 1}
    assert told(Batch(TAGGED + OF_ZEEK, 2)) == (
        [("message", labelled), ("message", {"topic": "/a", "value": 3})],
        0,
    )
    assert told(Batch(BAD + BAD + GOOD + BROKEN, 6)) == (
        [("dropped", {"count": 2}), one, ("dropped", {"count": 3})],
        5,
    )


def test_what_else_is_told() -> None:
    assert parsed(dropped_event(3)) == [("dropped", {"count": 3}, None)]
    assert parsed(gone_event(1, 5)) == [("gone", {"from": 1, "to": 5}, None)]
    assert parsed(closed_event(1001, 'the "hub"\nstops')) == [
        ("closed", {"code": 1001, "text": 'the "hub"\nstops'}, None)
    ]


def test_records() -> None:
    frames = b"".join(encode_frame(KIND_MESSAGES, msgspec.msgpack.encode(number), key=b"/a") for number in range(5))
    blocks = pack([(1_000_001, frames[: len(frames) // 5] + BAD + frames[len(frames) // 5 :])], 100)
    texts, left_out = recorded_events(blocks, 1000, 7)
    events = parsed(b"".join(texts))
    assert left_out is None
    assert [number for _, _, number in events] == ["7-100", None, "7-102", "7-103", "7-104", "7-105"]
    assert events[0][1] == {"topic": "/a", "time_ms": 1000.001, "value": 0}
    texts, left_out = recorded_events(blocks, 3, 7)
    assert (len(texts), left_out) == (3, 103)
