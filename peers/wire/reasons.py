"""The reason in a REPLY whose status is not OK; it is a text if whoever answers keeps to the protocol."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from hub.frame import BATCH_COUNT, FLAG_BATCH
from hub.request_frame import Reply

_decode = msgspec.msgpack.Decoder().decode


def reason_of(reply: Reply) -> str:
    """Return the reason in the words of whoever answered; a value that is no text is written as Python writes it."""
    packed = reply.values[BATCH_COUNT.size :] if reply.flags & FLAG_BATCH else reply.values
    try:
        reason = _decode(packed)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return "the reason that was given cannot be read"
    return reason if isinstance(reason, str) else repr(reason)


# When to come back: said at the end of the text of a close, so that it is the same in every protocol.


RETRY_LIMIT_S: Final = 3600.0
"""Nobody is asked to wait longer, and who is told a longer time waits so long, seconds."""

_RETRY = re.compile(r"; retry after ([0-9]{1,6}(?:\.[0-9]{1,3})?) s\Z")


def with_retry(text: str, seconds: float) -> str:
    """Return the text of a close that says when to come back."""
    return f"{text}; retry after {seconds:.1f} s"


def retry_after_s(text: str) -> float | None:
    """Return how long to wait before coming back, seconds; None if the text of a close does not say so."""
    found = _RETRY.search(text)
    return None if found is None else min(float(found[1]), RETRY_LIMIT_S)


# What a decoder raises when the bytes of somebody else are not what they should be.


MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of a decoder of msgspec, JSON or msgpack, for input that is no such form."""
