"""Values to msgpack and back: what arrives, what is reported instead, and that nothing raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.labels.envelope import tagged
from hub.messages.batch import Batch, Message
from hub.messages.frame import FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, encode_frame
from peers.client.values import InvalidValueError, decode_batch, encode_value, encode_values, is_plain, pure_is_plain
from peers.values import Count, Port, Set
from peers.values.event import Event

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.datetimes(timezones=st.just(UTC)),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def single(topic: str, value: Any) -> bytes:
    return encode_frame(KIND_MESSAGES, encode_value(value), key=topic.encode())


def several(topic: str, *packed: bytes, count: int | None = None) -> bytes:
    body = (len(packed) if count is None else count).to_bytes(4, "big") + b"".join(packed)
    return encode_frame(KIND_MESSAGES, body, key=topic.encode(), flags=FLAG_BATCH)


@given(st.lists(st.tuples(st.sampled_from(["/a", "/b", "/ä"]), st.lists(values, min_size=1, max_size=3)), max_size=6))
def test_round_trip(batches: list[tuple[str, list[Any]]]) -> None:
    frames = b"".join(
        single(topic, some[0]) if len(some) == 1 else several(topic, *map(encode_value, some))
        for topic, some in batches
    )
    messages, bad = decode_batch(Batch(frames, max(1, len(batches))))
    assert messages == [Message(topic, value) for topic, some in batches for value in some]
    assert bad == []


@given(st.binary(max_size=40), st.sampled_from([0, FLAG_BATCH, 0b10, 0b11]))
def test_any_bytes(body: bytes, flags: int) -> None:
    if flags & FLAG_BATCH:
        body = (3).to_bytes(4, "big") + body
    odd = encode_frame(KIND_MESSAGES, body, key=b"/odd", flags=flags)
    messages, bad = decode_batch(Batch(single("/a", 1) + odd + single("/a", 2), 3))
    assert messages[0] == Message("/a", 1)
    assert messages[-1] == Message("/a", 2)
    assert all(message.topic == "/odd" for message in messages[1:-1])
    assert all(each.topic == "/odd" and each.reason for each in bad)
    said = 3 if flags & FLAG_BATCH else 1
    assert len(messages) - 2 + sum(each.messages for each in bad) == said


def test_one_bad_value_in_a_batch() -> None:
    """Where values can be told apart, only the bad one of a batch is lost; where they cannot, the whole batch is."""
    messages, bad = decode_batch(Batch(several("/a", b"\x01", b"\xa1\xff", b"\x03"), 3))
    assert [message.value for message in messages] == [1, 3]
    assert [(each.body, each.messages) for each in bad] == [(b"\xa1\xff", 1)]
    messages, bad = decode_batch(Batch(several("/a", b"\x01", b"\xc1", b"\x03"), 3))
    assert messages == []
    assert [each.messages for each in bad] == [3]


@pytest.mark.parametrize(
    "body",
    [
        b"\x91" * 100_000 + b"\xc0",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\x01",
        b"\xc6\xff\xff\xff\xff",
        b"\x81\x80\x01",
        b"\xc7\x0c\xff" + b"\xff" * 12,
        b"\x01\x02",
        b"",
    ],
)
def test_bombs(body: bytes) -> None:
    """Deep nesting, sizes that are not there, odd keys and dates, too much and too little: reported, never raised."""
    messages, bad = decode_batch(Batch(encode_frame(KIND_MESSAGES, body, key=b"/a"), 1))
    assert messages == []
    assert [(each.body, each.messages) for each in bad] == [(body, 1)]
    assert bad[0].reason.startswith("not msgpack: ")


def test_another_encoding() -> None:
    frame = encode_frame(KIND_MESSAGES, b"\x00\x00\x00\x02xy", key=b"/a", flags=0b101)
    together = encode_frame(KIND_MESSAGES, b"\x00\x00\x00\x02xy", key=b"/a", flags=0b11)
    messages, bad = decode_batch(Batch(frame + together, 4))
    assert messages == []
    assert [each.messages for each in bad] == [2, 2]
    assert bad[0].reason == "encoding 2 is not read by this version"
    assert bad[1].reason == "not a Zeek value: several of them in one frame cannot be separated"


def test_what_has_no_form() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (object(), 2**64, -(2**63) - 1, "\ud800", 1j, [len], deep):
        with pytest.raises(InvalidValueError, match="no msgpack form"):
            encode_value(value)


def test_extensions_and_rich_types() -> None:
    moment = datetime(2024, 2, 29, tzinfo=UTC)

    class Point(msgspec.Struct):
        x: int

    extension = msgspec.msgpack.Ext(42, b"many")
    packed = several("/a", *map(encode_value, (moment, extension, [1], (1, 2), Point(3))))
    messages, _ = decode_batch(Batch(packed, 5))
    assert [message.value for message in messages] == [moment, extension, [1], [1, 2], {"x": 3}]


def test_values_of_zeek() -> None:
    event = Event("ping", Count(2), Port(53, "udp"), ip_address("192.0.2.7"))
    packed = several("/a", *map(encode_value, (event, Count(7), Set([1, Count(1)]), {"at": ip_address("::1")})))
    messages, bad = decode_batch(Batch(packed, 4))
    assert not bad
    values = [message.value for message in messages]
    assert Event.of(values[0]) == event
    assert [type(value) for value in values[1:]] == [Count, Set, dict]
    assert values[1:] == [Count(7), Set([1, Count(1)]), {"at": ip_address("::1")}]
    spelled = encode_frame(KIND_MESSAGES, event.encode(), key=b"/a", flags=0b10)
    messages, _ = decode_batch(Batch(spelled * 3, 3))
    assert [Event.of(message.value) for message in messages] == [event] * 3


def test_labels_and_names_come_with_the_message() -> None:
    envelope = tagged("/a", ["low", "b"], "s.s", "d.d")
    key = envelope.encode()
    frames = (
        Batch.of("/a", [0]).frames
        + Batch.under(key, [1, 2], FLAG_TAGGED).frames
        + encode_frame(KIND_MESSAGES, b"\xc1", key=key, flags=FLAG_TAGGED)
        + Batch.under(key, [3], FLAG_TAGGED).frames
        + Batch.of("/a", [4]).frames
    )
    messages, bad = decode_batch(Batch(frames, 6))
    assert messages == [("/a", 0), ("/a", 1), ("/a", 2), ("/a", 3), ("/a", 4)]
    assert [message.labels for message in messages] == [(), ("b", "low"), ("b", "low"), ("b", "low"), ()]
    assert {(message.sender, message.destination) for message in messages[1:4]} == {("s.s", "d.d")}
    assert (messages[0].sender, messages[0].destination) == ("", "")
    assert [(one.topic, one.messages) for one in bad] == [("/a", 1)]
    assert repr(messages[1]) == (
        "TaggedMessage(topic='/a', value=1, labels=('b', 'low'), sender='s.s', destination='d.d')"
    )


@dataclass
class Reading:
    at: datetime


NAIVE = datetime(2026, 11, 22, 3, 11, 43)  # noqa: DTZ001 -- that is the point


@pytest.mark.parametrize(
    "value",
    [
        NAIVE,
        NAIVE.replace(microsecond=1),
        datetime.min,  # noqa: DTZ901
        {"a": ["T", {"b": NAIVE}]},
        {NAIVE: 1},
        [Reading(NAIVE)],
        ("x", (1, [NAIVE.replace(microsecond=999_999)])),
    ],
)
def test_a_time_without_a_zone(value: object) -> None:
    """Is refused wherever it stands: it would become a text, and nobody could know which time it is."""
    for encode in (encode_value, lambda one: encode_values([1, one])):
        with pytest.raises(InvalidValueError, match=r"has no zone: give it one, as datetime.now\(UTC\)"):
            encode(value)


class Colour(Enum):
    RED = "red"


class Answer(IntEnum):
    ALL = 42


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Decimal("1.50"), "Decimal '1.50' would become another type: convert it, as by str(value)"),
        (UUID(int=1), "UUID '00000000-0000-0000-0000-000000000001' would become"),
        (Colour.RED, "Colour 'Colour.RED' would become another type: convert it, as by value.value"),
        (Answer.ALL, "Answer '42' would become"),
        ({1, 2}, "set '{1, 2}' would become another type: convert it, as by sorted(value)"),
        (frozenset(), "frozenset"),
        (date(2026, 11, 23), "date '2026-11-23' would become another type: convert it, as by value.isoformat()"),
        (time(3, 4), "time '03:04:00' would become"),
        (timedelta(seconds=90), "timedelta '0:01:30' would become another type: convert it, as by value.total_s"),
        (msgpack.ExtType(5, b"x"), "would become another type: convert it, as by msgspec.msgpack.Ext(value.code"),
    ],
)
def test_no_type_changes_silently(value: object, advice: str) -> None:
    for whole in (value, [value], {"a": (1, value)}, Reading(value)):
        with pytest.raises(InvalidValueError) as caught:
            encode_value(whole)
        assert advice in str(caught.value)


@given(values)
@pytest.mark.parametrize("check", [is_plain, pure_is_plain], ids=["chosen", "pure"])
def test_what_is_plain(check: Callable[[object], bool], value: object) -> None:
    assert check(value) == (b"datetime" not in repr(value).encode())
    assert not check([value, {"a": {1}}])
    assert not check({Answer.ALL: value})
