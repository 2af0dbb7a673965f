"""Why a request failed, when to reconnect, and decoders and encoders of bodies with their errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, encode_frame
from hub.messages.request_frame import Reply
from peers.wire.kinds import Kind

T = TypeVar("T")

_decode = msgspec.msgpack.Decoder().decode


def reason_of(reply: Reply) -> str:
    """Return the reason of a REPLY whose status is not OK; a value that is no text is returned as its `repr`."""
    packed = reply.values[BATCH_COUNT.size :] if reply.flags & FLAG_BATCH else reply.values
    try:
        reason = _decode(packed)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return "the reason that was given cannot be read"
    return reason if isinstance(reason, str) else repr(reason)


# The time to reconnect stands at the end of the text of a close, so that it is the same in every protocol.
RETRY_LIMIT_S: Final = 3600.0  # the longest time that a hub asks for, and that a client waits, seconds

_RETRY = re.compile(r"; retry after ([0-9]{1,6}(?:\.[0-9]{1,3})?) s\Z")


def with_retry(text: str, seconds: float) -> str:
    """Return the text of a close with the time after which to reconnect."""
    return f"{text}; retry after {seconds:.1f} s"


def retry_after_s(text: str) -> float | None:
    """Return after how many seconds to reconnect; None if the text of a close does not say."""
    found = _RETRY.search(text)
    return None if found is None else min(float(found[1]), RETRY_LIMIT_S)


MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # of msgspec


def decoded(decode: Callable[[bytes], T], body: bytes, name: str) -> T:
    """Return the decoded body of a frame of the kind `name`.

    Raises:
        RejectedError: The body is malformed. The next frame is found all the same, so the connection goes on.
    """
    try:
        return decode(body)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"{name}: {error}") from error


def reader(kind: Kind, of: type[T], *, ends: bool = False) -> Callable[[bytes], T]:
    """Return the decoder of the bodies of one kind.

    It raises `RejectedError` for malformed ones, after which the connection goes on; if it `ends`, `ProtocolError`.
    """
    decode, name = msgspec.msgpack.Decoder(of).decode, kind.name

    def read(body: bytes) -> T:
        try:
            return decode(body)
        except MALFORMED as error:
            if ends:
                raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"{name}: {error}") from error
            raise RejectedError(CloseCode.BAD_DATA, f"{name}: {error}") from error

    return read


def writer(kind: Kind) -> Callable[[Any], bytes]:
    """Return the encoder of frames of one kind with msgpack bodies."""
    encode = msgspec.msgpack.Encoder().encode
    return lambda value: encode_frame(kind, encode(value))
