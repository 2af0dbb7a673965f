"""REQUEST and REPLY frames: what is written is what is read, and what cannot be is refused."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import RejectedError
from hub.frame import FLAG_BATCH, Frame, encode_frame, iterate_frames
from hub.request_frame import FLAG_NAMED, KIND_REPLY, KIND_REQUEST, Reply, Request, Status, failure

ids = st.integers(0, 2**32 - 1)
batches = st.integers(1, 300).map(lambda count: (FLAG_BATCH, count.to_bytes(4) + b"\x01" * count, count))
bodies = st.one_of(st.binary(min_size=1).map(lambda value: (0, value, 1)), batches)


def only(frame: bytes) -> Frame:
    (found,) = iterate_frames(frame)
    return found


@given(target=st.binary(max_size=1024), first=ids, timeout_ms=ids, body=bodies, named=st.booleans())
def test_requests(target: bytes, first: int, timeout_ms: int, body: tuple[int, bytes, int], named: bool) -> None:  # noqa: FBT001
    flags, values, count = body
    request = Request(target, first, timeout_ms, values, flags | FLAG_NAMED * named)
    assert Request.decode(only(request.encode())) == request
    assert request.requests == count


@given(first=ids, body=bodies)
def test_replies(first: int, body: tuple[int, bytes, int]) -> None:
    flags, values, count = body
    reply = Reply(first, Status.OK, values, flags)
    assert Reply.decode(only(reply.encode())) == reply
    assert reply.requests == count


@given(first=ids, count=st.integers(1, 65_536), status=st.sampled_from([one for one in Status if one]), text=st.text())
def test_failures(first: int, count: int, status: Status, text: str) -> None:
    reply = Reply.decode(only(failure(first, count, status, text).encode()))
    assert (reply.first, reply.requests, reply.status) == (first, count, status)
    assert msgpack.unpackb(reply.values[4:] if reply.flags & FLAG_BATCH else reply.values) == text


@pytest.mark.parametrize(
    ("flags", "body", "text"),
    [
        (0, bytes(8), "8 bytes hold no value"),
        (0b10000000, bytes(9), "flags 0b10000000"),
        (FLAG_BATCH, bytes(8) + b"\0\0\0\0\x01", "BATCH of 0 values"),
        (FLAG_BATCH, bytes(8) + b"\0\0\0\x03\x01\x01", "BATCH of 3 values in 6 bytes"),
        (FLAG_BATCH, bytes(8) + b"\0\x01\0\x01" + b"\x01" * 70_000, "BATCH of 65537 values"),
    ],
)
def test_requests_that_are_none(flags: int, body: bytes, text: str) -> None:
    with pytest.raises(RejectedError, match=text):
        Request.decode(only(encode_frame(KIND_REQUEST, body, key=b"/a", flags=flags)))


@pytest.mark.parametrize(
    ("flags", "body", "text"),
    [
        (0, bytes(5), "5 bytes hold no value"),
        (FLAG_NAMED, bytes(9), "flags 0b00001000"),
        (FLAG_BATCH, bytes(5) + b"\0\0\0\x03\x01\x01", "BATCH of 3 values"),
        (FLAG_BATCH, bytes(4) + b"\x01\0\0\0\0\x01", "BATCH of no replies"),
    ],
)
def test_replies_that_are_none(flags: int, body: bytes, text: str) -> None:
    with pytest.raises(RejectedError, match=text):
        Reply.decode(only(encode_frame(KIND_REPLY, body, flags=flags)))
