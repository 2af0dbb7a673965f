"""How deep arrays and maps nest in a JSON text or a msgpack value, found out before it is read.

Readers of both go as deep as the interpreter's stack lets them, which is 1,000 levels in one version of Python and
10,000 in the next. With a limit of its own, the hub behaves the same on all of them.

No state, no I/O. Cost: a count or two for most; for JSON texts with more brackets than levels are allowed about 2 ns a
byte, 40 ns a string and as much a bracket; for msgpack with more bytes that may begin a container about 8 ns a byte.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

import msgpack

NESTING_LIMIT: Final = 500
"""Most levels. msgpack-python, which clients write values with, goes to 511, and the oldest Python that this runs on
to some 900."""

_QUOTES_LIMIT: Final = 1_000_000
"""A text with more quotation marks is left to its reader, which has a limit too: looking through it takes too long."""

_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""One up, and, read as a signed byte, one down."""
_OTHERS = bytes(set(range(256)) - set(b'[{]}"'))

_CONTAINER_MARKS = bytes([*range(0x81, 0x90), *range(0x91, 0xA0), *range(0xDC, 0xE0)])
"""First bytes of msgpack's arrays and maps, those left out that are always empty."""


def is_nested_too_deep(text: bytes) -> bool:
    """Tell whether more than `NESTING_LIMIT` arrays and maps stand in each other. The text may be no JSON at all."""
    if text.count(b"[") + text.count(b"{") <= NESTING_LIMIT or text.count(b'"') > _QUOTES_LIMIT:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of quotation marks bounds strings
    outside = b"".join(text.translate(None, _OTHERS).split(b'"')[::2])
    return max(accumulate(memoryview(outside.translate(_STEPS)).cast("b")), default=0) > NESTING_LIMIT


def is_packed_too_deep(packed: bytes) -> bool:
    """Tell whether more than `NESTING_LIMIT` arrays and maps stand in each other, an empty innermost one left out.

    Args:
        packed: One msgpack value; it may be no msgpack at all. What stands behind the first value is not looked at.
    """
    if len(packed) <= NESTING_LIMIT or len(packed) - len(packed.translate(None, _CONTAINER_MARKS)) <= NESTING_LIMIT:
        return False
    unpacker = msgpack.Unpacker(max_buffer_size=0)  # without a bound: all is here already
    unpacker.feed(_OUTER_LEVELS + packed)
    try:
        unpacker.skip()
    except msgpack.StackError:
        return True
    except (msgpack.UnpackException, ValueError):  # no msgpack: for its reader to say
        return False
    return False


def _outer_levels() -> bytes:
    """Return the beginnings of as many arrays as the unpacker's stack has levels more than `NESTING_LIMIT`.

    The compiled unpacker has a stack of its own, whose size is fixed when it is compiled: 1,024 levels in the version
    that this was written with. With these arrays around it, a value has exactly `NESTING_LIMIT` levels left. Where
    there is no compiled unpacker there is no such stack, and how deep a value may be is left to its reader.
    """
    if "_cmsgpack" not in msgpack.Unpacker.__module__:
        return b""
    levels = NESTING_LIMIT
    while _is_skipped(b"\x91" * (levels + 1) + b"\xc0"):
        levels += 1
    return b"\x91" * (levels - NESTING_LIMIT)


def _is_skipped(packed: bytes) -> bool:
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(packed)
    try:
        unpacker.skip()
    except msgpack.StackError:
        return False
    return True


_OUTER_LEVELS: Final = _outer_levels()
