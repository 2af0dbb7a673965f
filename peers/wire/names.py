"""Bodies of the frames about service names: CLAIM, RELEASE.

| kind | body, msgpack |
|---|---|
| CLAIM | `[request, name, [label, ...], queue]` |
| RELEASE | `[request, name]` |

The core decides what is a valid name or label (`hub.names`); here only shapes and numbers are checked.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgpack
import msgspec

from hub.messages.frame import encode_frame
from hub.names.claim import Wish
from hub.names.grammar import LABELS_LIMIT
from peers.wire.kinds import Kind
from peers.wire.reasons import decoded

_Request = Annotated[int, msgspec.Meta(ge=0)]
_Labels = Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)]
_encode = msgspec.msgpack.Encoder().encode
_decode_claim = msgspec.msgpack.Decoder(tuple[_Request, str, _Labels, bool]).decode
_decode_release = msgspec.msgpack.Decoder(tuple[_Request, str]).decode


class NameClaim(NamedTuple):
    """A client claims a name."""

    request: int
    """The number to confirm, 0 for none."""
    wish: Wish


class NameRelease(NamedTuple):
    """A client gives up a name, or stops waiting for it."""

    request: int
    """The number to confirm, 0 for none."""
    name: str


def encode_claim(claim: NameClaim) -> bytes:
    """Return the frame; request 0 asks for no confirmation."""
    name, labels, queue = claim.wish
    return encode_frame(Kind.CLAIM, _encode((claim.request, name, tuple(labels), queue)))


def decode_claim(body: bytes) -> NameClaim:
    """Read the body of CLAIM.

    Raises:
        RejectedError: It is no such array; the connection goes on.
    """
    request, name, labels, queue = decoded(_decode_claim, body, "CLAIM")
    return NameClaim(request, Wish(name, labels, queue))


def encode_release(release: NameRelease) -> bytes:
    """Return the frame; request 0 asks for no confirmation."""
    return encode_frame(Kind.RELEASE, _encode(release))


def decode_release(body: bytes) -> NameRelease:
    """Read the body of RELEASE.

    Raises:
        RejectedError: It is no such array; the connection goes on.
    """
    return NameRelease(*decoded(_decode_release, body, "RELEASE"))


def numbered(body: bytes) -> int:
    """Return the request number of an otherwise malformed array, so that the error can name it; 0 if it has none."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(body[1:10])  # the bytes after the head of the array; no number takes more than nine
    try:
        number = unpacker.unpack()
    except (ValueError, msgpack.OutOfData):
        return 0
    return number if type(number) is int and number > 0 else 0
