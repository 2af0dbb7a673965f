"""TOKEN: a client shows a fresh token in a running connection, before the proof of who it is ends.

The body is the msgpack array `[request, token]`. NOTICE "confirmed" with the number answers it, and tells in `until`
how long the new proof holds; or NOTICE "error", and the old proof goes on until its own end.

No state, no I/O. Invariant: the token is in no representation and in no error. Not here: what a token is worth
(`peers.users`).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from hub.errors import CloseCode, RejectedError
from hub.frame import encode_frame
from peers.wire.kinds import Kind

__all__ = ["TOKEN_LIMIT_BYTES", "Renewal", "check_token", "decode_token", "encode_token"]

TOKEN_LIMIT_BYTES = 16 * 1024
"""Longest token, bytes of UTF-8: a JWT with hundreds of roles. HTTP headers, too, are rarely taken when longer."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Annotated[int, msgspec.Meta(ge=0)], str]).decode


class Renewal(NamedTuple):
    """The client shows a fresh token."""

    request: int
    """The number to confirm, 0 for none."""
    token: str

    def __repr__(self) -> str:
        return f"Renewal(request={self.request})"


def check_token(token: str) -> str:
    """Return `token` if it is short enough to be looked at.

    Raises:
        RejectedError: It is longer than any token.
    """
    size_bytes = len(token.encode("utf-8", "replace"))
    if size_bytes > TOKEN_LIMIT_BYTES:
        raise RejectedError(CloseCode.TOO_BIG, f"a token of {size_bytes} bytes, the limit is {TOKEN_LIMIT_BYTES} bytes")
    return token


def encode_token(renewal: Renewal) -> bytes:
    """Return the frame; request 0 asks for no confirmation."""
    return encode_frame(Kind.TOKEN, _encode(tuple(renewal)))


def decode_token(body: bytes) -> Renewal:
    """Read the body of TOKEN.

    Raises:
        RejectedError: It is no such array, or the token is too long; the connection goes on.
    """
    try:
        request, token = _decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RejectedError(CloseCode.BAD_DATA, f"TOKEN: {error}") from error
    except UnicodeDecodeError:
        raise RejectedError(CloseCode.BAD_DATA, "TOKEN: the token is not UTF-8") from None
    return Renewal(request, check_token(token))
