"""`Mechanism`: how the two sides of a ZMTP connection get to know each other; `Null`, which has them say what they are.

```
greeting of both ─▶ begin: the first word ─▶ take: command after command ─▶ Step with the far side's metadata: open
                                                                                   seal ─▶ frames as they are written
                                                                                   incoming ─▶ frames as they are read
```

A session has one as its part. The other one is CURVE (`peers.zeek.zmtp.curve`).

Owner: one session; `Null` has no state, so that all have the same one. Not here: what is in the metadata
(`peers.zeek.zmtp.properties`).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from hub.errors import CloseCode, ProtocolError
from peers.zeek.zmtp.frames import Command, Incoming, encode_command

__all__ = ["NULL", "Fault", "HandshakeError", "Mechanism", "Null", "Step"]


class Fault(Enum):
    """Why a session has failed, as it is counted."""

    MECHANISM = "mechanism"
    """The far side uses another one."""
    KEY = "key"
    """It has a key that is not allowed, or that is not the one that it should have."""
    REFUSED = "refused"
    """It says that it refuses this side."""
    GARBLED = "garbled"
    """What it says is no ZMTP, or does not fit."""
    ENDED = "ended"
    """It has ended the stream in the handshake."""


class HandshakeError(ProtocolError):
    """A handshake that fails for a reason of its own.

    Args:
        fault: Which kind.
        text: What was wrong, for people.
    """

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(CloseCode.PROTOCOL_ERROR, text)
        self.fault = fault


class Step(NamedTuple):
    """What a command of the far side leads to."""

    said: bytes = b""
    """What this side answers."""
    metadata: bytes | None = None
    """What the far side says of itself, with which the handshake is done; None before."""
    key: bytes = b""
    """The long-term public key that it has proved to have; empty where it has shown none."""


class Mechanism(Protocol):
    """Of one side of one connection."""

    @property
    def name(self) -> str:
        """As it stands in the greeting."""

    @property
    def is_server(self) -> bool:
        """Whether this side is the mechanism's server."""

    @property
    def doubt(self) -> str:
        """What may be wrong if the far side ends the stream now; empty for nothing particular."""

    def incoming(self, limit_bytes: int) -> Incoming:
        """Make what finds frames in what is read; called once. The argument is that of `Incoming`."""

    def begin(self, metadata: bytes) -> bytes:
        """Both greetings fit: return this side's first word.

        Args:
            metadata: What the far side is to be told of this side.
        """

    def take(self, command: Command) -> Step:
        """Take a command of the far side, until the handshake is done.

        Raises:
            ProtocolError: It does not fit.
        """

    def seal(self, frames: bytes) -> bytes:
        """Return whole frames as they are written, once the handshake is done; in the order in which they are."""


class Null:
    """The mechanism NULL: nothing is encrypted, and nobody proves who he is."""

    name: Final = "NULL"
    is_server: Final = False
    doubt: Final = ""

    def incoming(self, limit_bytes: int) -> Incoming:
        """Frames stand as they are."""
        return Incoming(limit_bytes)

    def begin(self, metadata: bytes) -> bytes:
        """Say READY, which is all."""
        return encode_command(Command(b"READY", metadata))

    def take(self, command: Command) -> Step:
        """Take the far side's READY."""
        if command.name != b"READY":
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"ZMTP: {command.name!r} before READY")
        return Step(metadata=command.data)

    def seal(self, frames: bytes) -> bytes:
        """Frames stand as they are."""
        return frames


NULL: Final = Null()
"""The one that there need be."""
