"""The beginning of a ZMTP connection: the greetings, the mechanism NULL, and what the two sides say of themselves.

```
 0  ff, 7 times 00, 01, 7f   signature                      u8 length  name  u32 length  value    a property of READY
10  u8 major, u8 minor
12  20 bytes           mechanism, filled up with zeros      greeting of both ─▶ begin: the first word ─▶ take: command
32  u8                 whether this side is its server      after command ─▶ Step with the far side's metadata: open
33  31 times 00
```

A side that speaks ZMTP 1 or 2 is refused: libzmq takes what such a side says for messages, and passes them on to
all. The other mechanism is CURVE (`peers.zeek.zmtp.curve`). Source: RFC 23 and 37 of ZeroMQ, recordings of libzmq 4.3.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import Final, NamedTuple, Protocol

from hub.errors import CloseCode, ProtocolError
from peers.zeek.zmtp.frames import Command, Incoming, encode_command

GREETING_BYTES = 64

OPENING_BYTES = 11
"""As far as either side must say it so that the other one says the rest: signature and major version."""

_SIGNATURE = b"\xff\0\0\0\0\0\0\0\x01\x7f"
"""As libzmq writes it: to a side that speaks ZMTP 1, it is the header of a frame of one byte, flags included."""
_SIGNATURE_END = 0x7F
_MAJOR = 3
_MECHANISM = slice(12, 32)


class Greeting(NamedTuple):
    """What one side says of itself first."""

    mechanism: str
    """Name of the security mechanism."""
    minor: int = 1
    """Of the version: 1 knows subscriptions as commands, 0 does not."""
    is_server: bool = False

    def encode(self) -> bytes:
        """Return the greeting as it stands on the wire."""
        mechanism = self.mechanism.encode("ascii").ljust(20, b"\0")
        return _SIGNATURE + bytes((_MAJOR, self.minor)) + mechanism + bytes((self.is_server,)) + bytes(31)

    @classmethod
    def decode(cls, data: bytes) -> Greeting:
        """Take the first 64 bytes apart.

        Raises:
            ProtocolError: They are no greeting of ZMTP 3.
        """
        check_beginning(data)
        name = data[_MECHANISM].rstrip(b"\0")
        if not name.isalnum() or not name.isascii():
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"ZMTP: {name!r} is no name of a mechanism")
        return cls(name.decode(), data[11], bool(data[32]))


def check_beginning(data: bytes) -> None:
    """Check as much of a greeting as there is, so that nobody waits for the rest of what is none.

    Raises:
        ProtocolError: A greeting of ZMTP 3 does not begin like this.
    """
    if data[:1] and data[0] != _SIGNATURE[0]:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"the first byte is {data[0]:#04x}: this is no ZMTP 3")
    # What stands between the first byte and the last one of the signature is not looked at, as RFC 23 says.
    if len(data) > 9 and data[9] != _SIGNATURE_END:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"byte 9 is {data[9]:#04x}: this is no ZMTP 3")
    if len(data) > 10 and data[10] != _MAJOR:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"the far side speaks ZMTP {data[10]}, this side speaks {_MAJOR}")


SOCKET_TYPE = "socket-type"
"""The property that says what kind of socket it is."""

HUB = "x-topichub"
"""The property with the id of a hub, so that hubs know each other; RFC 23 leaves names that begin so to everybody."""

_LENGTH = Struct(">I")


def encode_properties(properties: dict[str, bytes]) -> bytes:
    """Return properties as the data of a READY command."""
    parts: list[bytes] = []
    for name, value in properties.items():
        parts += (bytes((len(name),)), name.encode("ascii"), _LENGTH.pack(len(value)), value)
    return b"".join(parts)


def decode_properties(data: bytes) -> dict[str, bytes]:
    """Take the data of a READY command apart; names in small letters.

    Raises:
        ProtocolError: A length goes beyond the end.
    """
    properties: dict[str, bytes] = {}
    position = 0
    while position < len(data):
        name_end = position + 1 + data[position]
        value_start = name_end + _LENGTH.size
        if value_start > len(data):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "ZMTP: READY ends within a property")
        value_end = value_start + _LENGTH.unpack_from(data, name_end)[0]
        if value_end > len(data):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "ZMTP: READY ends within a property")
        name = data[position + 1 : name_end].decode("latin-1").lower()
        properties[name] = data[value_start:value_end]
        position = value_end
    return properties


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
