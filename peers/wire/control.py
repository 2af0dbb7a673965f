"""Bodies of the small frames: SUBSCRIBE and UNSUBSCRIBE, NOTICE, CLOSE. No state, no I/O."""

from __future__ import annotations

from struct import Struct
from typing import Annotated, Literal

import msgspec

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import encode_frame
from peers.wire.kinds import Kind
from peers.wire.reasons import MALFORMED

__all__ = [
    "CLOSE_TEXT_LIMIT_BYTES",
    "PING_LIMIT_BYTES",
    "PREFIXES_LIMIT",
    "Notice",
    "decode_close",
    "decode_notice",
    "decode_subscription",
    "encode_close",
    "encode_notice",
    "encode_subscription",
]

PING_LIMIT_BYTES = 128
"""Longest body of a PING, which PONG repeats."""

CLOSE_TEXT_LIMIT_BYTES = 123
"""Longest text in CLOSE. It is that of a WebSocket's Close, so that one text fits both."""

PREFIXES_LIMIT = 10_000
"""Most prefixes in one frame: ten times what a client may have, by default. A frame of the largest size could hold
eight million of them, and keep the hub busy for seconds."""

_CODE = Struct(">H")
_Subscription = tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[list[str], msgspec.Meta(max_length=PREFIXES_LIMIT)]]

# Made once: building a decoder for a type costs more than using it.
_encode = msgspec.msgpack.Encoder().encode
_decode_subscription = msgspec.msgpack.Decoder(_Subscription).decode


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hub tells a client or a peer hub, apart from messages."""

    kind: Literal["confirmed", "dropped", "error", "recorded", "unrecorded", "owned", "queued", "lost"]
    """What it is about. "recorded" or "unrecorded" answers each frame of messages with CONFIRM, in their order;
    "owned", "queued" and "lost" tell the standing of the claim to `name`."""
    request: int = 0
    """The number of the request that it answers, 0 for none."""
    count: int = 0
    """How many messages were lost, refused, or recorded."""
    code: int = 0
    text: str = ""
    offset: int | None = None
    """An offset in the journal: that of the first recorded message, or where the journal stood when a subscription
    began."""
    again: bool = False
    """Whether the COMMIT that is confirmed had been carried out before."""
    name: str = ""
    """The service name that was claimed."""
    segment: int = 0
    """In "confirmed", the number that the hub has given to a new segment."""
    until: float | None = None
    """In "confirmed" of a TOKEN, how many seconds are left before the new proof ends; None for never."""


_decode_notice = msgspec.msgpack.Decoder(Notice).decode


def encode_notice(notice: Notice) -> bytes:
    """Return the frame."""
    return encode_frame(Kind.NOTICE, _encode(notice))


def decode_notice(body: bytes) -> Notice:
    """Read the body of a NOTICE frame.

    Raises:
        ProtocolError: It is not such a map.
    """
    try:
        return _decode_notice(body)
    except MALFORMED as error:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"NOTICE: {error}") from error


def encode_subscription(kind: Kind, prefixes: list[str], request: int = 0) -> bytes:
    """Return a SUBSCRIBE or UNSUBSCRIBE frame; request 0 asks for no confirmation."""
    return encode_frame(kind, _encode((request, prefixes)))


def decode_subscription(kind: int, body: bytes) -> tuple[int, list[str]]:
    """Read the body of SUBSCRIBE or UNSUBSCRIBE.

    Raises:
        RejectedError: The body is no such array. Where the next frame begins is known, so the connection goes on.
    """
    try:
        subscription: tuple[int, list[str]] = _decode_subscription(body)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"{Kind(kind).name}: {error}") from error
    return subscription


def encode_close(code: int, text: str) -> bytes:
    """Return a CLOSE frame; a text over the limit is cut."""
    return encode_frame(Kind.CLOSE, _CODE.pack(code) + cut_text(text))


def cut_text(text: str) -> bytes:
    """Return the text of a close as UTF-8 within the limit."""
    return text.encode("utf-8", "replace")[:CLOSE_TEXT_LIMIT_BYTES].decode("utf-8", "ignore").encode()


def decode_close(body: bytes) -> tuple[int, str]:
    """Read the body of a CLOSE frame.

    Raises:
        ProtocolError: It is shorter than a code.
    """
    if len(body) < _CODE.size:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CLOSE: {len(body)} bytes, a code has {_CODE.size}")
    return _CODE.unpack_from(body)[0], body[_CODE.size :].decode("utf-8", "replace")
