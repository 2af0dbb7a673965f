"""WebSocket frames as a server writes them: whole, final, unmasked, header included (RFC 6455, section 5.2).

The library makes a frame for one connection and one write. These are plain bytes, made once and written to any number
of connections.
"""

from __future__ import annotations

from struct import Struct

_FINAL = 0x80
_SHORT = Struct(">BB")
_MEDIUM = Struct(">BBH")
_LONG = Struct(">BBQ")
_MEDIUM_MARK = 126
_LONG_MARK = 127
_MEDIUM_LIMIT_BYTES = 0xFFFF


def encode_message(opcode: int, *parts: bytes | memoryview) -> bytes:
    """Return one whole frame whose payload is the parts, one after the other."""
    size = sum(map(len, parts))
    if size < _MEDIUM_MARK:
        header = _SHORT.pack(_FINAL | opcode, size)
    elif size <= _MEDIUM_LIMIT_BYTES:
        header = _MEDIUM.pack(_FINAL | opcode, _MEDIUM_MARK, size)
    else:
        header = _LONG.pack(_FINAL | opcode, _LONG_MARK, size)
    return b"".join((header, *parts))
