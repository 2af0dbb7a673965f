"""HELLO: the first frame of both sides."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from hub import __version__
from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import encode_frame
from hub.overflow import Overflow, QueueLimits
from peers.wire.control import check_token
from peers.wire.kinds import Kind
from peers.wire.reasons import MALFORMED

PROTOCOL = 1
"""The version of the protocol; the far side must speak the same."""

MESH_VERSION = 1
"""What a hub says as `mesh`; the far side must say the same."""

SOFTWARE = f"topichub {__version__}"

SOFTWARE_CHARACTERS = 128
"""How much is kept of what a far side says that it runs: a browser says about so much."""

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""Default of the largest body that a side takes, bytes."""

NAME_LIMIT_BYTES = 64
"""Longest name that a side may give itself, bytes of UTF-8."""

ID_BYTES = 16
"""Length of a hub's id."""

HubId = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
"""A hub's id, as it stands in bodies."""


def fitting_name(name: str, ending: str = "") -> str:
    """Return a name with its ending, as much of it as `NAME_LIMIT_BYTES` leave; no character is cut in two."""
    return name.encode("utf-8", "replace")[: NAME_LIMIT_BYTES - len(ending.encode())].decode("utf-8", "ignore") + ending


class QueueWish(msgspec.Struct, frozen=True, omit_defaults=True):
    """The queue that a client wishes for, or was granted. What a wish leaves out is set by the listener's defaults."""

    messages: Annotated[int, msgspec.Meta(ge=1)] | None = None
    bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    overflow: Overflow | None = None


class Hello(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the speaker says of itself, and what it takes."""

    protocol: int
    role: Literal["client", "hub"]
    id: bytes = b""
    """The id of a hub, which is a random UUID (version 4) of 16 bytes; a client may leave it out."""
    name: str = ""
    """A name for people, at most 64 bytes."""
    software: str = SOFTWARE
    """The program and its version, for people."""
    token: str = ""
    """What a client, or a hub that has dialled, shows for who it is; empty for nothing. It is in no representation."""
    narrow: bool = False
    """From a client: a subscription to more than it may see is taken, for the part that it may see, and not refused."""
    queue: QueueWish | None = None
    """A client's wish, or what a hub has granted; None for no wish."""
    frame: Annotated[int, msgspec.Meta(ge=1)] = FRAME_LIMIT_BYTES
    """Largest body that the speaker takes, bytes."""
    journal: bytes = b""
    """The id of a hub's journal, which is 16 random bytes made with it; empty if it has no journal."""
    link: bytes = b""
    """The id of a link between two hubs: 8 random bytes, made by the hub that has dialled. The other hub
    repeats them."""
    mesh: Annotated[int, msgspec.Meta(ge=0)] = 0
    """From a hub: which version of the mesh it speaks."""
    origins: bool = False
    """From a client, whether it asks for ORIGIN in front of messages; from a hub, whether it will say it there."""
    shared: Annotated[int, msgspec.Meta(ge=0)] = 0
    """From a client, 1 if it takes shared memory, which works over a Unix socket only. From a hub that grants it, the
    size in bytes above which values should travel that way; 0 if it does not grant it."""
    until: Annotated[float, msgspec.Meta(ge=0.0)] | None = None
    """From a hub: how many seconds are left before what the far side has shown for who it is ends; None for never."""

    def __repr__(self) -> str:
        return f"Hello(role={self.role!r}, name={self.name!r}, software={self.software!r})"

    def without_token(self) -> Hello:
        """Return the same without the token, which nobody needs to remember once it was looked at."""
        return msgspec.structs.replace(self, token="") if self.token else self

    def encode(self) -> bytes:
        """Return the frame."""
        body: dict[str, object] = msgspec.to_builtins(self, builtin_types=(bytes,))
        body["software"] = self.software  # as the default is left out otherwise
        return encode_frame(Kind.HELLO, msgspec.msgpack.encode(body))

    @classmethod
    def decode(cls, body: bytes) -> Hello:
        """Read the body of a HELLO frame.

        Raises:
            ProtocolError: It is not such a map, or of another protocol version; the text says what is wrong.
        """
        try:
            hello = msgspec.msgpack.decode(body, type=cls)
        except MALFORMED as error:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"HELLO: {error}") from error
        if hello.protocol != PROTOCOL:
            raise ProtocolError(
                CloseCode.PROTOCOL_ERROR, f"HELLO: protocol {hello.protocol}, this side speaks {PROTOCOL}"
            )
        if hello.role == "hub" and len(hello.id) != ID_BYTES:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"HELLO: a hub's id has {ID_BYTES} bytes")
        if len(hello.name.encode("utf-8", "replace")) > NAME_LIMIT_BYTES:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"HELLO: name is over {NAME_LIMIT_BYTES} bytes")
        try:
            check_token(hello.token)
        except RejectedError as error:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"HELLO: {error.text}") from error
        return hello


def grant(wish: QueueWish | None, default: QueueLimits, most_messages: int, most_bytes: int) -> QueueLimits:
    """Return the queue that a client gets: its wish, where it has one, but not more than what is allowed."""
    if wish is None:
        return default
    return QueueLimits(
        messages=default.messages if wish.messages is None else min(wish.messages, most_messages),
        bytes=default.bytes if wish.bytes is None else min(wish.bytes, most_bytes),
        overflow=default.overflow if wish.overflow is None else wish.overflow,
    )
