"""Which messages of a consumer keep their order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.consumers.consumer import Consumer, ConsumerLimits, Member, Progress, order_of
from hub.consumers.terms import Terms
from hub.frame import Encoding
from hub.journal.block import Record

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
NAMES = st.text(min_size=1, max_size=4).filter(lambda name: _is_key(f"field:{name}"))


def _is_key(key: str) -> bool:
    try:
        msgspec.convert({"prefixes": ["/"], "key": key}, Terms)
    except msgspec.ValidationError:
        return False
    return True


def record(value: Any, topic: str = "/t", offset: int = 0) -> Record:
    return Record(offset, 0, topic, Encoding.MSGPACK, msgspec.msgpack.encode(value))


def test_words() -> None:
    one, other, far = record(1), record(2, offset=1), record(1, "/u", 2)
    assert order_of("topic")(one) == order_of("topic")(other) != order_of("topic")(far)
    assert order_of("all")(one) == order_of("all")(far)
    assert order_of("none")(one) != order_of("none")(other)


def test_a_field_of_all_topics() -> None:
    key_of = order_of("field:uid")
    assert key_of(record({"uid": "C1", "x": [1, {}]})) == key_of(record({"a": 2, "uid": "C1"}, "/u"))
    values = ["C1", "C2", 5, "5", 5.0, True, [1], {"a": 1}, "x" * 100, "x" * 101, b"C1", "\0"]
    assert len({key_of(record({"uid": value})) for value in values}) == len(values)


@pytest.mark.parametrize("value", [{}, {"uid": None}, {"id": "C1"}, {1: 2}, [["uid", 1]], "uid", 5, None])
def test_without_the_field(value: Any) -> None:
    assert order_of("field:uid")(record(value, "/zeek/conn")) == "/zeek/conn"


def test_no_topic_is_taken_for_the_value_of_a_field() -> None:
    key_of = order_of("field:uid")
    spelled = msgspec.msgpack.encode("C1").decode("latin-1")
    assert key_of(record(1, spelled)) != key_of(record({"uid": "C1"}))


def test_a_field_within_another() -> None:
    key_of = order_of("field:id.orig_h")
    expected = key_of(record({"id.orig_h": "10.0.0.1"}))
    assert expected != "/t"
    assert key_of(record({"id": {"resp_h": "x", "orig_h": "10.0.0.1"}})) == expected
    assert key_of(record({"id": {"orig_h": "x"}, "id.orig_h": "10.0.0.1"})) == expected
    assert order_of("field:a.b.c")(record({"a": {"b.c": 1}})) == order_of("field:a.b.c")(record({"a": {"b": {"c": 1}}}))
    for value in ({"id": 1}, {"id": {}}, {"id": None}, {"id": {"orig_h": None}}):
        assert key_of(record(value)) == "/t"


@pytest.mark.parametrize("name", [".", "..", "a.", ".a", "a..b"])
def test_names_with_dots_at_odd_places(name: str) -> None:
    assert order_of(f"field:{name}")(record({name: 1})) != "/t"
    assert order_of(f"field:{name}")(record({"a": 1})) == "/t"


def test_other_spellings() -> None:
    broker = Record(0, 0, "/t", Encoding.BROKER, msgspec.msgpack.encode({"uid": "C1"}))
    assert order_of("field:uid")(broker) == "/t"


@given(JSON, NAMES, st.binary(max_size=40))
def test_any_value(value: Any, name: str, body: bytes) -> None:
    """Whatever a body holds, and if it is nothing at all, it has a key, and always the same."""
    key_of = order_of(f"field:{name}")
    for one in (record({"other": value, name: value}), record(value), Record(0, 0, "/t", Encoding.MSGPACK, body)):
        assert key_of(one) == key_of(one)
    assert (key_of(record({name: value})) == "/t") is (value is None)


@pytest.mark.parametrize(
    "key", ["", "field", "field:", "Topic", "topic\n", 'field:"', "field:\\", "field:\n", "field:" + "x" * 257]
)
def test_no_such_key(key: str) -> None:
    assert not _is_key(key)


@pytest.mark.parametrize("key", ["topic", "all", "none", "field:id.orig_h", "field:naïve key", "field:" + "x" * 256])
def test_keys(key: str) -> None:
    assert _is_key(key)


def test_a_consumer_keeps_the_order_of_a_field() -> None:
    consumer = Consumer(Terms(("/",), key="field:uid"), Progress(0), ConsumerLimits(100, 1 << 20))
    one, other = Member(2, 1 << 20), Member(100, 1 << 20)
    for member in (one, other):
        consumer.join(member)
    for offset, uid in enumerate("AABAB"):
        consumer.offer(record({"uid": uid}, f"/{offset}", offset))
    assert [item.record.offset for item in consumer.take(one, 0.0, 1 << 20)] == [0, 1]
    assert [item.record.offset for item in consumer.take(other, 0.0, 1 << 20)] == [2, 4]
    consumer.acknowledge(one, [0, 1])
    assert [item.record.offset for item in consumer.take(other, 0.0, 1 << 20)] == [3]
