"""`Greeting`: the first 64 bytes that either side says, at once.

```
 0  ff, 7 times 00, 01, 7f   signature
10  u8 major, u8 minor
12  20 bytes           mechanism, filled up with zeros: NULL, CURVE
32  u8                 whether this side is the server of the mechanism
33  31 times 00
```

A side that speaks ZMTP 1 begins with the length of a frame instead, and one that speaks ZMTP 2 says so in the first
byte of the version. Both are refused: libzmq takes what such a side says for messages, and passes them on to everybody.

Source: RFC 23 and 37 of ZeroMQ, and recordings of libzmq 4.3. No state.
"""

from __future__ import annotations

from typing import NamedTuple

from hub.errors import CloseCode, ProtocolError

__all__ = ["GREETING_BYTES", "OPENING_BYTES", "Greeting", "check_beginning"]

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
