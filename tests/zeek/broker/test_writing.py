"""Envelopes from batches: what Broker's spelling has is copied, the rest converted, and what cannot be is counted."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch
from hub.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, encode_frame, iterate_frames
from hub.stretch import Run, Stretch
from hub.tags.envelope import tagged
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker.messages import NIL_ID, TTL, Envelope, EnvelopeType, decode_envelope
from peers.zeek.broker.reading import Incoming, Reader
from peers.zeek.broker.writing import data_envelopes
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
