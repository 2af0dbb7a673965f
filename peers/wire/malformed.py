"""What a decoder raises when the bytes of somebody else are not what they should be.

msgspec names what is wrong with most input, but leaves two kinds to Python: text that is no UTF-8, and values that are
nested deeper than the interpreter's stack. Whoever decodes what another wrote catches all three. No state.
"""

from __future__ import annotations

import msgspec

__all__ = ["MALFORMED"]

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of a decoder of msgspec, JSON or msgpack, for input that is no such form."""
