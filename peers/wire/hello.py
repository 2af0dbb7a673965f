"""HELLO, the first frame of both sides."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from hub import __version__
from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.limits import Overflow, QueueLimits
from hub.messages.frame import encode_frame
from peers.wire.control import MALFORMED, check_token
from peers.wire.kinds import Kind

# Versions of the protocol, and of the mesh between hubs. Both sides speak the lower one of their two: so hubs of a mesh
# are upgraded one after the other, and a later version must still speak those from OLDEST on.
PROTOCOL = 1
MESH_VERSION = 1
OLDEST = 1

SOFTWARE = f"topichub {__version__}"

SOFTWARE_CHARACTERS = 128  # the text in `software` is cut to this length, which is about that of a browser's User-Agent
FRAME_LIMIT_BYTES = 16 * 1024 * 1024  # default of the largest body that a side accepts, bytes
NAME_LIMIT_BYTES = 64  # longest name that a side may give itself, bytes of UTF-8
ID_BYTES = 16  # length of a hub's id
HubId = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]  # a hub's id, as it stands in bodies


def fitting_name(name: str, ending: str = "") -> str:
    """Return a name with its ending, as much of it as `NAME_LIMIT_BYTES` leave; no character is cut in two."""
    return name.encode("utf-8", "replace")[: NAME_LIMIT_BYTES - len(ending.encode())].decode("utf-8", "ignore") + ending


class QueueWish(msgspec.Struct, frozen=True, omit_defaults=True):
    """The queue that a client asks for, or was granted. The listener's defaults fill in the rest."""

    messages: Annotated[int, msgspec.Meta(ge=1)] | None = None
    bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    overflow: Overflow | None = None


class Hello(msgspec.Struct, frozen=True, omit_defaults=True):
    """Describes its sender: role, identity and limits."""

    protocol: int  # the newest version that the sender speaks
    role: Literal["client", "hub"]
    id: bytes = b""  # the id of a hub, which is a random UUID (version 4) of 16 bytes; a client may leave it out
    name: str = ""  # a name for people, at most 64 bytes
    software: str = SOFTWARE  # the program and its version, for people
    token: str = ""  # the token of a client, or of a hub that dials; empty for none. `repr` leaves it out.
    narrow: bool = False  # from a client: a subscription wider than its rights is narrowed to them, not refused
    queue: QueueWish | None = None  # the queue that a client asks for, or that the hub granted; None for the default
    frame: Annotated[int, msgspec.Meta(ge=1)] = FRAME_LIMIT_BYTES  # largest body that the sender accepts, bytes
    journal: bytes = b""  # the id of a hub's journal, which is 16 random bytes made with it; empty if it has no journal
    link: bytes = b""  # of a link: 8 random bytes, made by the hub that has dialled, repeated by the other one
    mesh: Annotated[int, msgspec.Meta(ge=0)] = 0  # from a hub: its newest version of the mesh protocol
    origins: bool = False  # a client asks for ORIGIN in front of messages; a hub sends it
    shared: Annotated[int, msgspec.Meta(ge=0)] = 0
    """From a client, 1 if it can use shared memory, which works over a Unix socket only. From a hub, the size in bytes
    above which values should travel in shared memory; 0 for never."""
    until: Annotated[float, msgspec.Meta(ge=0.0)] | None = None  # hub: when the far side's proof expires

    def __repr__(self) -> str:
        return f"Hello(role={self.role!r}, name={self.name!r}, software={self.software!r})"

    def without_token(self) -> Hello:
        """Return a copy without the token, which is of no use once it was checked."""
        return msgspec.structs.replace(self, token="") if self.token else self

    def encode(self) -> bytes:
        body: dict[str, object] = msgspec.to_builtins(self, builtin_types=(bytes,))
        body["software"] = self.software  # as the default is left out otherwise
        return encode_frame(Kind.HELLO, msgspec.msgpack.encode(body))

    @classmethod
    def decode(cls, body: bytes) -> Hello:
        """Read the body of a HELLO frame.

        Raises:
            ProtocolError: It is not such a map, or of a version below `OLDEST`; the text says why.
        """
        try:
            hello = msgspec.msgpack.decode(body, type=cls)
        except MALFORMED as error:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"HELLO: {error}") from error
        if hello.protocol < OLDEST:
            text = f"HELLO: protocol {hello.protocol}, this side speaks {OLDEST} to {PROTOCOL}"
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, text)
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
    """Return the limits of a client's queue: those it asks for, up to the most that is allowed."""
    if wish is None:
        return default
    return QueueLimits(
        messages=default.messages if wish.messages is None else min(wish.messages, most_messages),
        bytes=default.bytes if wish.bytes is None else min(wish.bytes, most_bytes),
        overflow=default.overflow if wish.overflow is None else wish.overflow,
    )
