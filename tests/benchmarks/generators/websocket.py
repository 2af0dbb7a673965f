"""WebSocket frames as a client sees them (RFC 6455, section 5.2): no more of them than a measurement needs.

```
 0  FIN, opcode
 1  length < 126 │ 126, then u16 │ 127, then u64          a server's frames are not masked
    payload
```
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

__all__ = ["CLOSE", "DATA", "Head", "encode_frame", "frame_head", "take_frame"]

DATA = frozenset({0, 1, 2})
"""The opcodes of continuation, text and binary."""

CLOSE = 8
_FINAL = 0x80
_MASKED = 0x80
_NO_MASK = bytes(4)
_U16 = Struct(">H")
_U64 = Struct(">Q")
_MEDIUM_MARK = 126
_LONG_MARK = 127


class Head(NamedTuple):
    """What stands before a payload."""

    opcode: int
    head_bytes: int
    payload_bytes: int


def frame_head(data: bytes | bytearray | memoryview, position: int = 0) -> Head | None:
    """Read the head of a frame at `position`, None while it is not complete."""
    left = len(data) - position
    if left < 2:
        return None
    opcode, length = data[position] & 0x0F, data[position + 1]
    if length < _MEDIUM_MARK:
        return Head(opcode, 2, length)
    if length == _MEDIUM_MARK:
        return Head(opcode, 4, _U16.unpack_from(data, position + 2)[0]) if left >= 4 else None
    if length == _LONG_MARK:
        return Head(opcode, 10, _U64.unpack_from(data, position + 2)[0]) if left >= 10 else None
    raise ConnectionError("a server's frame is masked")


def take_frame(data: bytearray) -> bytes | None:
    """Cut the first whole data frame off and return its payload; None if there is none."""
    while (head := frame_head(data)) is not None and len(data) >= head.head_bytes + head.payload_bytes:
        payload = bytes(data[head.head_bytes : head.head_bytes + head.payload_bytes])
        del data[: head.head_bytes + head.payload_bytes]
        if head.opcode in DATA:
            return payload
        if head.opcode == CLOSE:
            raise ConnectionError(f"the broker closed: {payload!r}")
    return None


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """Return one whole frame, masked with zeros, as a client must mask."""
    size = len(payload)
    if size < _MEDIUM_MARK:
        head = bytes((_FINAL | opcode, _MASKED | size))
    elif size <= 0xFFFF:
        head = bytes((_FINAL | opcode, _MASKED | _MEDIUM_MARK)) + _U16.pack(size)
    else:
        head = bytes((_FINAL | opcode, _MASKED | _LONG_MARK)) + _U64.pack(size)
    return head + _NO_MASK + payload
