"""ACCOUNT: how many messages of a link a hub has sent and received, told to the peer hub so that no loss is silent.

`peers.node.accounts` says what it is good for.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hub.errors import CloseCode, ProtocolError
from hub.frame import encode_frame
from peers.wire.kinds import Kind
from peers.wire.reasons import MALFORMED

__all__ = ["LINK_ID_BYTES", "Account", "decode_account", "encode_account"]

LINK_ID_BYTES = 8
"""Length of a link's id, which is random and given by the side that dials."""

_Count = Annotated[int, msgspec.Meta(ge=0)]


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one hub, the speaker, says of a link: of this one, or of a former one between the same two hubs."""

    link: bytes
    """The id of the link."""
    sent: _Count = 0
    """How many messages the speaker had for the other side: written, dropped from its queue, or still waiting there."""
    arrived: _Count = 0
    """How many messages of the other side the speaker has read."""
    last: bool = False
    """Whether the speaker reads no more from this link, so that the numbers are final; CLOSE comes next."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Account).decode


def encode_account(account: Account) -> bytes:
    """Return the frame."""
    return encode_frame(Kind.ACCOUNT, _encode(account))


def decode_account(body: bytes) -> Account:
    """Read the body of an ACCOUNT frame.

    Raises:
        ProtocolError: It is not such a map.
    """
    try:
        return _decode(body)
    except MALFORMED as error:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"ACCOUNT: {error}") from error
