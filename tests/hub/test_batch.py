"""Frames, batches and requests: out and back, cut between any two messages, and what cannot be read is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import RejectedError
from hub.messages.batch import BATCH_OVERHEAD_BYTES, Batch, decode_values, encode_values, value_ends
from hub.messages.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    FLAG_BATCH,
    KIND_MESSAGES,
    Frame,
    encode_frame,
    iterate_frames,
)
from hub.messages.request_frame import FLAG_NAMED, KIND_REPLY, KIND_REQUEST, Reply, Request, Status, failure
from tests.hub.fakes import FLAG_BROKER, Shape, frame, numbers_of, opaque_frame, shapes

limits_bytes = st.integers(0, 2500)


def cuts_of(batch: Batch) -> list[tuple[int, Batch, Batch | None]]:
    return [(messages, *batch.split(messages)) for messages in range(1, batch.messages + 1)]


NO_MSGPACK: list[Any] = [object(), 2**64, {1, 2}, 1j, dt.datetime(2024, 1, 1)]  # noqa: DTZ001 -- without a zone
DEEP: list[Any] = []


for _ in range(1100):
    DEEP = [DEEP]


@pytest.mark.parametrize("value", [*NO_MSGPACK, DEEP], ids=lambda value: type(value).__name__)
def test_values_without_a_msgpack_form_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        Batch.of("/a", [1, value])


def test_the_number_of_values_is_limited() -> None:
    for count in (0, BATCH_LIMIT_MESSAGES + 1):
        with pytest.raises(RejectedError, match=f"a batch of {count} values") as refused:
            encode_values(b"/a", [b"\xc0"] * count)
        assert refused.value.code == 1009
    with pytest.raises(RejectedError):
        Batch.of("/a", [])
    full = Batch(encode_values(b"/a", [b"\xc0"] * BATCH_LIMIT_MESSAGES), BATCH_LIMIT_MESSAGES)
    head, rest = full.split(1)
    assert rest is not None
    assert (head.messages, rest.messages) == (1, BATCH_LIMIT_MESSAGES - 1)


def test_other_forms_are_made_once() -> None:
    batch, nothing, size = Batch.of("/a", [1, 2]), Mock(return_value=None), Mock(return_value=2)
    assert [batch.form(make) for make in (nothing, size, nothing, size)] == [None, 2, None, 2]
    nothing.assert_called_once_with(batch)
    size.assert_called_once_with(batch)


# Cutting.


@given(shapes)
def test_split_cuts_after_any_message(shape: Shape) -> None:
    batch = shape.batch(0)
    numbers = list(range(shape.messages))
    assert numbers_of([batch]) == numbers
    for messages, head, rest in cuts_of(batch):
        assert head.messages == messages
        assert numbers_of([head]) == numbers[:messages]
        if rest is None:
            assert messages == shape.messages
            assert head is batch
        else:
            assert rest.messages == shape.messages - messages
            assert numbers_of([rest]) == numbers[messages:]
        for part in (head, *([rest] if rest else [])):
            assert sum(frame.messages for frame in part.parts()) == part.messages


@given(shapes, st.integers(0, 30), limits_bytes)
def test_the_largest_head_that_fits_and_the_smallest_loss(shape: Shape, limit_messages: int, limit: int) -> None:
    batch = shape.batch(0)
    fitting = [
        messages for messages, head, _ in cuts_of(batch) if head.messages <= limit_messages and head.size_bytes <= limit
    ]
    assert batch.messages_within(limit_messages, limit) == max(fitting, default=0)
    enough = [messages for messages, _, rest in cuts_of(batch) if rest is None or rest.size_bytes <= limit]
    assert batch.messages_beyond(limit) == min(enough)


# Bodies that are not what they say.


OPAQUE = {
    "Broker": opaque_frame(3, b"\x01\x02\x03", flags=FLAG_BROKER),
    "unnamed encoding": opaque_frame(3, b"\x01\x02\x03", flags=0b110),
    "truncated": opaque_frame(3, b"\x01\x02\x93\x01"),
    "too few values": opaque_frame(3, b"\x01\x02"),
    "trailing bytes": opaque_frame(3, b"\x01\x02\x03\x04"),
    "no msgpack": opaque_frame(3, b"\x01\xc1\x01"),
    "nested deep": opaque_frame(3, b"\x01\x02" + b"\x91" * 100_000 + b"\xc0"),
    "huge array": opaque_frame(3, b"\x01\x02\xdd\xff\xff\xff\xff"),
    "huge count": opaque_frame(2**32 - 1, b"\x01\x02\x03"),
}


@pytest.mark.parametrize("opaque", OPAQUE.values(), ids=OPAQUE)
def test_what_cannot_be_told_apart_is_not_cut(opaque: bytes) -> None:
    inside = BATCH_COUNT.unpack_from(opaque, 10)[0]
    before, behind = frame([0, 1]), frame([2, 3])
    batch = Batch(before + opaque + behind, inside + 4)
    assert [part.messages for part in batch.parts()] == [2, inside, 2]
    assert value_ends(list(batch.parts())[1]) is None
    for messages in (3, 4, 2 + inside):
        head, rest = batch.split(messages)
        assert (head.frames, head.messages) == (before + opaque, inside + 2)
        assert rest is not None
        assert (rest.frames, rest.messages) == (behind, 2)
    batch = Batch(before + opaque, inside + 2)
    head, rest = batch.split(3)
    assert (head.frames, rest) == (before + opaque, None)
    for limit_messages in (2, 3, inside + 1):
        assert batch.messages_within(limit_messages, batch.size_bytes) == 2
    assert batch.messages_within(inside + 2, batch.size_bytes) == inside + 2
    assert batch.messages_within(inside + 2, batch.size_bytes - 1) == 2
    assert batch.messages_beyond(len(opaque) + BATCH_OVERHEAD_BYTES) == 2
    assert batch.messages_beyond(len(opaque) + BATCH_OVERHEAD_BYTES - 1) == inside + 2


@given(
    st.lists(
        st.one_of(
            st.builds(opaque_frame, st.integers(1, 9), st.binary(max_size=12), flags=st.sampled_from((0, FLAG_BROKER))),
            st.builds(lambda shape: shape.batch(0).frames, shapes),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 40),
)
def test_whatever_the_bodies_are_nothing_is_lost_in_cutting(frames: list[bytes], messages: int) -> None:
    raw = b"".join(frames)
    batch = Batch(raw, sum(part.messages for part in Batch(raw, 1).parts()))
    head, rest = batch.split(messages)
    assert head.messages >= min(messages, batch.messages)
    assert head.messages + (rest.messages if rest else 0) == batch.messages
    for half in (head, *([rest] if rest else [])):
        assert half.messages > 0
        assert sum(part.messages for part in half.parts()) == half.messages


# Reading bodies.


def body_of(count: int, values: bytes) -> bytes:
    return BATCH_COUNT.pack(count) + values


MALFORMED = {
    "empty": (0, b"", "msgpack ends before the last of 1 values"),
    "array cut short": (0, b"\x92\x01", "msgpack ends before"),
    "text cut short": (0, b"\xd9\x05abc", "msgpack ends before"),
    "trailing byte": (0, b"\x01\x02", "1 bytes follow the last of 1 values"),
    "reserved byte": (0, b"\xc1", "not msgpack"),
    "text not UTF-8": (0, b"\xa1\xff", "not msgpack"),
    "array as map key": (0, b"\x81\x90\x01", "not msgpack"),
    "arrays nested deep": (0, b"\x91" * 100_000 + b"\xc0", "not msgpack"),
    "maps nested deep": (0, b"\x81\x01" * 100_000 + b"\xc0", "not msgpack"),
    "huge array": (0, b"\xdd\xff\xff\xff\xff", "not msgpack"),
    "huge map": (0, b"\xdf\xff\xff\xff\xff", "not msgpack"),
    "huge bytes": (0, b"\xc6\xff\xff\xff\xff", "not msgpack|msgpack ends before"),
    "timestamp out of range": (0, b"\xc7\x0c\xff\0\0\0\0" + b"\x7f" + b"\xff" * 7, "not msgpack"),
    "timestamp of odd size": (0, b"\xc7\x03\xff123", "not msgpack"),
    "Broker": (0b10, b"\x01", "encoding 1 is not read"),
    "unnamed encoding": (0b110, b"\x01", "encoding 3 is not read"),
    "fewer values than said": (FLAG_BATCH, body_of(3, b"\x01\x02"), "ends before the last of 3 values"),
    "more values than said": (FLAG_BATCH, body_of(1, b"\x01\x02"), "1 bytes follow"),
    "huge count": (FLAG_BATCH, body_of(2**32 - 1, b"\x01\x02"), "ends before"),
    "values in a batch of none": (FLAG_BATCH, body_of(0, b"\x01"), "no values"),
    "reserved byte in a batch": (FLAG_BATCH, body_of(2, b"\x01\xc1"), "not msgpack"),
    "no room for the count": (FLAG_BATCH, b"", "shorter than its count"),
    "half a count": (FLAG_BATCH, b"\0\0\0", "shorter than its count"),
}


@pytest.mark.parametrize(("flags", "body", "text"), MALFORMED.values(), ids=MALFORMED)
def test_a_bad_body_is_a_value_error_that_says_why(flags: int, body: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        decode_values(Frame(KIND_MESSAGES, flags, b"/a", body))


@given(st.sampled_from((0, FLAG_BATCH)), st.binary(max_size=60))
def test_any_body_is_read_or_refused(flags: int, body: bytes) -> None:
    part = Frame(KIND_MESSAGES, flags, b"/a", body)
    try:
        values = decode_values(part)
    except ValueError:
        return
    assert len(values) == part.messages


@given(st.integers(0, 8), st.binary(max_size=30))
def test_value_ends_agrees_with_decoding(count: int, values: bytes) -> None:
    part = Frame(KIND_MESSAGES, FLAG_BATCH, b"/a", body_of(count, values))
    ends = value_ends(part)
    if ends is not None:
        starts = [BATCH_COUNT.size, *ends]
        assert len(ends) == count
        assert all(start < end for start, end in zip(starts, ends, strict=False))
        assert ends[-1] == len(part.body)
        for start, end in zip(starts, ends, strict=False):
            unpacker = msgpack.Unpacker()
            unpacker.feed(part.body[start:end])
            unpacker.skip()
            assert unpacker.tell() == end - start
    else:
        with pytest.raises(ValueError, match=r"msgpack|follow|no values"):
            decode_values(part)


frames = st.builds(Frame, st.integers(0, 255), st.integers(0, 255), st.binary(max_size=40), st.binary(max_size=40))


@given(st.lists(frames, max_size=6))
def test_frames_back_to_back_come_out_as_they_went_in(parts: list[Frame]) -> None:
    raw = b"".join(encode_frame(part.kind, part.body, key=part.key, flags=part.flags) for part in parts)
    assert list(iterate_frames(raw)) == parts


ids = st.integers(0, 2**32 - 1)
batches = st.integers(1, 300).map(lambda count: (FLAG_BATCH, count.to_bytes(4) + b"\x01" * count, count))
bodies = st.one_of(st.binary(min_size=1).map(lambda value: (0, value, 1)), batches)


def only(frame: bytes) -> Frame:
    (found,) = iterate_frames(frame)
    return found


@given(target=st.binary(max_size=1024), first=ids, timeout_ms=ids, body=bodies, named=st.booleans())
def test_requests_and_replies(
    target: bytes, first: int, timeout_ms: int, body: tuple[int, bytes, int], *, named: bool
) -> None:
    flags, values, count = body
    request = Request(target, first, timeout_ms, values, flags | FLAG_NAMED * named)
    reply = Reply(first, Status.OK, values, flags)
    assert Request.decode(only(request.encode())) == request
    assert Reply.decode(only(reply.encode())) == reply
    assert request.requests == reply.requests == count


@settings(max_examples=30)
@given(first=ids, count=st.integers(1, 65_536), status=st.sampled_from([one for one in Status if one]), text=st.text())
def test_failures(first: int, count: int, status: Status, text: str) -> None:
    reply = Reply.decode(only(failure(first, count, status, text).encode()))
    assert (reply.first, reply.requests, reply.status) == (first, count, status)
    assert msgpack.unpackb(reply.values[4:] if reply.flags & FLAG_BATCH else reply.values) == text


@pytest.mark.parametrize(
    ("decode", "flags", "body", "text"),
    [
        (Request.decode, 0, bytes(8), "8 bytes hold no value"),
        (Request.decode, 0b10000000, bytes(9), "flags 0b10000000"),
        (Request.decode, FLAG_BATCH, bytes(8) + b"\0\0\0\0\x01", "BATCH of 0 values"),
        (Request.decode, FLAG_BATCH, bytes(8) + b"\0\0\0\x03\x01\x01", "BATCH of 3 values in 6 bytes"),
        (Request.decode, FLAG_BATCH, bytes(8) + b"\0\x01\0\x01" + b"\x01" * 70_000, "BATCH of 65537 values"),
        (Reply.decode, 0, bytes(5), "5 bytes hold no value"),
        (Reply.decode, FLAG_NAMED, bytes(9), "flags 0b00001000"),
        (Reply.decode, FLAG_BATCH, bytes(5) + b"\0\0\0\x03\x01\x01", "BATCH of 3 values"),
        (Reply.decode, FLAG_BATCH, bytes(4) + b"\x01\0\0\0\0\x01", "BATCH of no replies"),
    ],
)
def test_requests_and_replies_that_are_none(
    decode: Callable[[Frame], object], flags: int, body: bytes, text: str
) -> None:
    kind = KIND_REQUEST if decode == Request.decode else KIND_REPLY
    with pytest.raises(RejectedError, match=text):
        decode(only(encode_frame(kind, body, key=b"/a" if kind == KIND_REQUEST else b"", flags=flags)))
