"""How deep arrays and maps nest in a JSON text, found out before the text is read.

Readers of JSON go as deep as the interpreter's stack lets them, which is 1,000 levels in one version of Python and
10,000 in the next. With a limit of its own, the hub behaves the same on all of them.

No state, no I/O. Cost: two counts for most texts; for those with more brackets than levels are allowed about 2 ns a
byte, 40 ns a string and as much a bracket.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

__all__ = ["NESTING_LIMIT", "is_nested_too_deep"]

NESTING_LIMIT: Final = 500
"""Most levels. msgpack-python, which clients write values with, goes to 511, and the oldest Python that this runs on
to some 900."""

_QUOTES_LIMIT: Final = 1_000_000
"""A text with more quotation marks is left to its reader, which has a limit too: looking through it takes too long."""

_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""One up, and, read as a signed byte, one down."""
_OTHERS = bytes(set(range(256)) - set(b'[{]}"'))


def is_nested_too_deep(text: bytes) -> bool:
    """Tell whether more than `NESTING_LIMIT` arrays and maps stand in each other. The text may be no JSON at all."""
    if text.count(b"[") + text.count(b"{") <= NESTING_LIMIT or text.count(b'"') > _QUOTES_LIMIT:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of quotation marks bounds strings
    outside = b"".join(text.translate(None, _OTHERS).split(b'"')[::2])
    return max(accumulate(memoryview(outside.translate(_STEPS)).cast("b")), default=0) > NESTING_LIMIT
