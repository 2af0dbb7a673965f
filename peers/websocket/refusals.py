"""What is wrong with a message that a codec does not take, with the request that it bore.

A message that cannot be read at all ends the connection (`ProtocolError`); one that is sound, but none that the hub
takes, is refused alone (`RefusedError`). To tell these apart, and to name type and request, it is read a second time,
with nothing expected of it but that it is a map. No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from hub.errors import CloseCode, ProtocolError
from hub.topics import printable
from peers.websocket.messages import RefusedError
from peers.wire.malformed import MALFORMED

__all__ = ["JSON_ENVELOPE", "MSGPACK_ENVELOPE", "EnvelopeReader", "malformed", "refused", "too_many"]

_READ_AGAIN_BYTES = 4 * 1024 * 1024
"""Largest message that, having too many parts, is still looked through for the request that it bears: 5 ms a MiB."""


class _Envelope(msgspec.Struct):
    """What is read of a message that is refused, to say why."""

    type: Any = None
    request: Any = 0


class EnvelopeReader(NamedTuple):
    """Reads what every message has, in one encoding."""

    encoding: str
    decode: Callable[[bytes], _Envelope]
    check: Callable[[bytes], object]
    """Passes over any one value."""


_TYPES = (
    "hello",
    "subscribe",
    "unsubscribe",
    "publish",
    "ping",
    "fetch",
    "request",
    "reply",
    "serve",
    "unserve",
    "claim",
    "release",
    "rule",
    "unrule",
    "token",
)

JSON_ENVELOPE = EnvelopeReader("JSON", msgspec.json.Decoder(_Envelope).decode, msgspec.json.Decoder(msgspec.Raw).decode)
MSGPACK_ENVELOPE = EnvelopeReader(
    "msgpack", msgspec.msgpack.Decoder(_Envelope).decode, msgspec.msgpack.Decoder(msgspec.Raw).decode
)


def too_many(what: str, found: int, limit: int) -> str:
    """Say that there is too much of something in a message, and what to do."""
    return f"{found} {what} in one message, the limit is {limit}: send several smaller ones"


def malformed(encoding: str, error: Exception) -> ProtocolError:
    """Make the error that ends a connection whose client sends what is no JSON, or no msgpack."""
    reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
    return ProtocolError(CloseCode.BAD_DATA, f"not {encoding}: {reason}")


def refused(reader: EnvelopeReader, payload: bytes, code: int, text: str) -> RefusedError | ProtocolError:
    """Say what is wrong with a message, with the request that it bore; or that it is worse than it seemed."""
    if len(payload) > _READ_AGAIN_BYTES:
        return RefusedError(code, text)
    try:
        reader.check(payload)
        read = reader.decode(payload)
    except msgspec.ValidationError:
        return RefusedError(CloseCode.BAD_DATA, "a message is a map with a `type`")
    except MALFORMED as error:
        return malformed(reader.encoding, error)
    request = read.request if type(read.request) is int and read.request > 0 else 0
    if not isinstance(read.type, str):
        return RefusedError(CloseCode.BAD_DATA, "a message is a map with a `type`, which is text", request)
    if read.type not in _TYPES:
        expected = ", ".join(_TYPES)
        return RefusedError(CloseCode.BAD_DATA, f"unknown type {printable(read.type)}, expected {expected}", request)
    return RefusedError(code, f"{read.type}: {text}", request, about=read.type)
