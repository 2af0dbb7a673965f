"""The reason in a REPLY whose status is not OK; it is a text if whoever answers keeps to the protocol."""

from __future__ import annotations

import msgspec

from hub.frame import BATCH_COUNT, FLAG_BATCH
from hub.request_frame import Reply

__all__ = ["reason_of"]

_decode = msgspec.msgpack.Decoder().decode


def reason_of(reply: Reply) -> str:
    """Return the reason in the words of whoever answered; a value that is no text is written as Python writes it."""
    packed = reply.values[BATCH_COUNT.size :] if reply.flags & FLAG_BATCH else reply.values
    try:
        reason = _decode(packed)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return "the reason that was given cannot be read"
    return reason if isinstance(reason, str) else repr(reason)
