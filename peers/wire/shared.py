"""Frames about values in shared memory: SEGMENT, RELEASED, and handles in place of values; see docs/protocol.md.

A handle is `u8 0, u64 bytes` of values in memory of its own, or `u8 1, u64 bytes, u32 segment, u64 offset, u64
generation` of a block of a segment. A frame with SHARED has a handle in place of its one value, or with BATCH in place
of the values behind their count. A descriptor travels with the first byte of each frame whose handle has memory of its
own, and of each SEGMENT whose size is not 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from hub.errors import CloseCode, ProtocolError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_SHARED, HEADER_BYTES, Frame, encode_frame
from peers.wire.kinds import Kind

DESCRIPTORS = 0  # this number stands in RELEASED in place of a segment's, for memory that has a descriptor of its own

_MEMFD = Struct(">BQ")
_BLOCK = Struct(">BQIQQ")
_SEGMENT = Struct(">IQ")
_RELEASED = Struct(">IQ")


class Handle(NamedTuple):
    """The place of values in shared memory."""

    size_bytes: int  # how many bytes the values take
    segment: int = 0  # the number of the segment; 0 if the values are in memory of their own
    offset: int = 0  # where the block begins in the segment; 0 for memory of their own
    generation: int = 0  # 1 or more in a segment, each higher than those before; 0 for memory of their own

    def encode(self) -> bytes:
        if not self.segment:
            return _MEMFD.pack(0, self.size_bytes)
        return _BLOCK.pack(1, self.size_bytes, self.segment, self.offset, self.generation)


class SharedMessages(NamedTuple):
    """A MESSAGES frame with its values in shared memory."""

    frame: Frame
    handle: Handle


class Segment(NamedTuple):
    """The far side has made or removed a segment."""

    number: int  # the number of the segment; of a new one, the number of the request for it
    size_bytes: int
    """The size of a new segment. 0 means the end of the segment, and then no descriptor comes with the frame."""


class Released(NamedTuple):
    """The far side no longer uses memory that it was given."""

    each: list[tuple[int, int]]  # pairs of a segment's number and a generation


def decode_handle(values: bytes, flags: int) -> Handle:
    """Read the handle that stands in the place of values.

    Raises:
        ProtocolError: It is no handle, so it is unknown whether a descriptor belongs to it.
    """
    handle = values[BATCH_COUNT.size :] if flags & FLAG_BATCH else values
    if len(handle) == _MEMFD.size and handle[0] == 0:
        return Handle(_MEMFD.unpack(handle)[1])
    if len(handle) == _BLOCK.size and handle[0] == 1:
        _, size_bytes, segment, offset, generation = _BLOCK.unpack(handle)
        if segment and generation:
            return Handle(size_bytes, segment, offset, generation)
    raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"SHARED: {len(handle)} bytes that are no handle")


def shared_messages(frame: Frame) -> SharedMessages:
    return SharedMessages(frame._replace(flags=frame.flags & ~FLAG_SHARED), decode_handle(frame.body, frame.flags))


def plain_bytes(frame: Frame, values_bytes: int) -> int:
    """Return the size of a frame with its values, of `values_bytes`, in place of their handle."""
    count_bytes = BATCH_COUNT.size if frame.flags & FLAG_BATCH else 0
    return HEADER_BYTES + len(frame.key) + count_bytes + values_bytes


def encode_segment(segment: Segment) -> bytes:
    return encode_frame(Kind.SEGMENT, _SEGMENT.pack(*segment))


def decode_segment(body: bytes) -> Segment:
    if len(body) != _SEGMENT.size:  # then it is unknown whether a descriptor belongs to it
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"SEGMENT: {len(body)} bytes, expected {_SEGMENT.size}")
    return Segment(*_SEGMENT.unpack(body))


def encode_released(released: Iterable[tuple[int, int]]) -> bytes:
    return encode_frame(Kind.RELEASED, b"".join([_RELEASED.pack(*one) for one in released]))


def decode_released(body: bytes) -> Released:
    if not body or len(body) % _RELEASED.size:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"RELEASED: {len(body)} bytes, expected {_RELEASED.size} each")
    return Released(list(_RELEASED.iter_unpack(body)))
