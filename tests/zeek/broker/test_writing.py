"""Envelopes from batches: what Broker's spelling has is copied, the rest converted, and what cannot be is counted."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.labels.envelope import tagged
from hub.messages.batch import Batch
from hub.messages.frame import (
    BATCH_COUNT,
    BROKER_FLAGS,
    FLAG_BATCH,
    FLAG_TAGGED,
    KIND_MESSAGES,
    encode_frame,
    iterate_frames,
)
from hub.messages.stretch import Run, Stretch
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker.envelopes import (
    LEVELS_LIMIT,
    STEPS_LIMIT,
    UNREAD_BYTES,
    Incoming,
    Reader,
    _reaches,
    data_envelopes,
    nests_too_deep,
)
from peers.zeek.broker.messages import NIL_ID, TTL, Envelope, EnvelopeType, decode_envelope
from tests.wire.pair import Table
from tests.zeek.broker.recorded import HIGH, LOW, split


def convert(body: bytes) -> bytes:
    if body == b"\xc0":
        raise ValueError("nil has none here")
    return b"converted " + body


def broker(topic: bytes, body: bytes) -> bytes:
    return encode_frame(KIND_MESSAGES, body, key=topic, flags=BROKER_FLAGS)


def plain(topic: bytes, value: Any) -> bytes:
    return encode_frame(KIND_MESSAGES, msgpack.packb(value), key=topic)


def several(topic: bytes, values: list[Any]) -> bytes:
    body = BATCH_COUNT.pack(len(values)) + b"".join(map(msgpack.packb, values))
    return encode_frame(KIND_MESSAGES, body, key=topic, flags=FLAG_BATCH)


def written(frames: bytes, messages: int) -> tuple[list[tuple[bytes, bytes]], int]:
    envelopes, lost = data_envelopes(Batch(frames, messages), HIGH, convert)
    found = [decode_envelope(frame) for frame in split(envelopes)]
    for envelope in found:
        assert envelope == Envelope(HIGH, NIL_ID, EnvelopeType.DATA, envelope.topic, envelope.payload, TTL)
    return [(envelope.topic, envelope.payload) for envelope in found], lost


TOPICS = st.sampled_from([b"/a", b"/a", b"/b", b"/longer"])
FRAMES = st.one_of(
    st.builds(broker, TOPICS, st.sampled_from([b"\x00", b"\x00", b"\x01\x01", b"", b"x" * 50])),
    st.builds(plain, TOPICS, st.sampled_from([None, 1, "text"])),
    st.builds(several, TOPICS, st.lists(st.sampled_from([None, 1, "text"]), min_size=1, max_size=4)),
)


def naive(frames: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
    out: list[tuple[bytes, bytes]] = []
    lost = 0
    for frame in iterate_frames(frames):
        if frame.flags == BROKER_FLAGS:
            bodies = [frame.body]
        else:
            unpacker = msgpack.Unpacker()
            unpacker.feed(frame.body[4 * (frame.flags & FLAG_BATCH) :])
            bodies = [b"" if value is None else convert(msgpack.packb(value)) for value in unpacker]
        out += [(frame.key, body) for body in bodies if body]
        lost += bodies.count(b"")
    return out, lost


@given(st.lists(FRAMES, min_size=1, max_size=12).map(b"".join))
def test_value_by_value_gives_the_same(frames: bytes) -> None:
    messages = sum(frame.messages for frame in iterate_frames(frames))
    found, lost = written(frames, messages)
    assert (found, lost) == naive(frames)
    assert len(found) + lost == messages


@given(st.lists(st.tuples(TOPICS, st.binary(min_size=1, max_size=9)), min_size=1, max_size=20))
def test_what_is_written_is_read_again(values: list[tuple[bytes, bytes]]) -> None:
    frames = b"".join(broker(topic, body) for topic, body in values)
    incoming = Incoming(1 << 20)
    reader = Reader(incoming, Table(), LOW, HIGH)
    incoming.feed(data_envelopes(Batch(frames, len(values)), HIGH, convert)[0])
    found = b""
    while (item := reader.next_item()) is not NEED_DATA:
        assert isinstance(item, Run | Stretch)
        found += item.frames if isinstance(item, Run) else item.whole().frames
    assert found == frames


@pytest.mark.parametrize(
    ("frame", "messages"),
    [
        (encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(3) + b"\x01\x01", key=b"/a", flags=FLAG_BATCH), 3),
        (encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(2) + b"\x00\x00", key=b"/a", flags=FLAG_BATCH | BROKER_FLAGS), 2),
        (encode_frame(KIND_MESSAGES, b"\x01", key=b"/a", flags=0b100), 1),
        (encode_frame(KIND_MESSAGES, b"", key=b"/a", flags=BROKER_FLAGS), 1),
    ],
    ids=["malformed BATCH", "BATCH of Broker values", "unknown encoding", "empty body"],
)
def test_what_has_no_form_is_lost_alone(frame: bytes, messages: int) -> None:
    around = broker(b"/a", b"\x00")
    assert written(around + frame + around, messages + 2) == ([(b"/a", b"\x00")] * 2, messages)


def test_labels_are_left_out() -> None:
    key = tagged("/a", ["x"], "s.s").encode()
    frames = encode_frame(KIND_MESSAGES, b"\x00", key=key, flags=BROKER_FLAGS | FLAG_TAGGED)
    assert written(frames, 1) == ([(b"/a", b"\x00")], 0)
    frames = encode_frame(KIND_MESSAGES, b"\x01", key=key, flags=FLAG_TAGGED)
    plain = encode_frame(KIND_MESSAGES, b"\x01", key=b"/a")
    assert written(frames, 1) == written(plain, 1)


NONE, COUNT = b"\x00", b"\x02" + bytes(8)
EMPTY_VECTOR = b"\x0e\x00"


def nested(levels: int, opener: bytes = b"\x0e\x01", inner: bytes = NONE) -> bytes:
    return opener * levels + inner


def large(value: bytes) -> bytes:
    return b"\x0e\x02" + b"\x05\x80\x80\x04" + b"x" * 65536 + value


DEEP = {
    "vectors": nested(LEVELS_LIMIT + 1),
    "500,000 vectors": nested(500_000),
    "sets": nested(LEVELS_LIMIT + 1, b"\x0c\x01"),
    "tables, in their values": nested(LEVELS_LIMIT + 1, b"\x0d\x01" + COUNT),
    "vectors with something before": nested(LEVELS_LIMIT + 1, b"\x0e\x02" + COUNT),
    "vectors that are not complete": nested(LEVELS_LIMIT + 1, inner=b""),
    "behind a string": large(nested(LEVELS_LIMIT)),
}
HARMLESS = {
    "as deep as may be": nested(LEVELS_LIMIT, b"\x0e\x02" + COUNT) + NONE * LEVELS_LIMIT,
    "a string of openers": b"\x05\x80\x80\x04" + b"\x0e" * 65536,
    "many that are empty": b"\x0e\xa0\x9c\x01" + EMPTY_VECTOR * 20_000,
    "many of one": b"\x0e\xa0\x9c\x01" + b"\x0e\x01\x00" * 20_000,
    "openers behind the value": NONE + b"\x0e\x01" * 20_000,
    "no value": b"\xff" + b"\x0e\x01" * 20_000,
    "a length without an end": b"\x0e" + b"\x8e" * 40_000,
}


@pytest.mark.parametrize("case", DEEP)
def test_too_deep(case: str) -> None:
    assert nests_too_deep(DEEP[case])


@pytest.mark.parametrize("case", HARMLESS)
def test_not_too_deep(case: str) -> None:
    assert len(HARMLESS[case]) > UNREAD_BYTES
    assert not nests_too_deep(HARMLESS[case])


def test_what_is_small_cannot_be_deep() -> None:
    assert not nests_too_deep(nested(UNREAD_BYTES // 2, inner=b""))


def test_a_search_has_an_end() -> None:
    wide = b"\x0e\xc0\x9a\x0c" + EMPTY_VECTOR * (STEPS_LIMIT + 1)
    assert nests_too_deep(wide)


_values = st.recursive(
    st.sampled_from(
        [NONE, COUNT, b"\x01\x01", b"\x05\x02\x0e\x0e", b"\x0b\x01\x0c", b"\x08\x00\x35\x02", b"\x07" + bytes(17)]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda some: bytes((14, len(some))) + b"".join(some)),
        st.lists(inner, max_size=4).map(lambda some: bytes((12, len(some))) + b"".join(some)),
        st.lists(st.tuples(inner, inner), max_size=3).map(
            lambda some: bytes((13, len(some))) + b"".join(key + value for key, value in some)
        ),
    ),
    max_leaves=30,
)


def depth(body: bytes, position: int = 0) -> tuple[int, int]:
    tag = body[position]
    if tag not in (12, 13, 14):
        if tag in (5, 11):
            return 0, position + 2 + body[position + 1]
        return 0, position + 1 + {0: 0, 1: 1, 2: 8, 7: 17, 8: 3}[tag]
    deepest, end = 0, position + 2
    for _ in range(body[position + 1] * (2 if tag == 13 else 1)):
        levels, end = depth(body, end)
        deepest = max(deepest, levels)
    return deepest + 1 if body[position + 1] else 0, end


@given(body=_values, limit=st.integers(0, 6))
def test_against_recursion(body: bytes, limit: int) -> None:
    assert _reaches(body, limit) == (depth(body)[0] > limit)


def test_it_is_lost_alone() -> None:
    bodies = [NONE, nested(500_000), HARMLESS["many of one"], NONE]
    frames = b"".join(encode_frame(KIND_MESSAGES, body, key=b"/a", flags=BROKER_FLAGS) for body in bodies)
    found, lost = written(frames, len(bodies))
    assert found == [(b"/a", bodies[0]), (b"/a", bodies[2]), (b"/a", bodies[3])]
    assert lost == 1
