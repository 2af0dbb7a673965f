"""Zeek events: to a Broker value and back, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest

from peers.values import Count, Timespan, Timestamp, decode, from_msgpack
from peers.values.event import NETWORK_TIMESTAMP, USER_METADATA, Event, NoEventError

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
