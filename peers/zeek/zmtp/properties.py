"""The properties that a READY command tells of its side: names without regard to case, and bytes.

```
u8 length  name  u32 length  value     one behind the other
```

Source: RFC 23. No state.
"""

from __future__ import annotations

from struct import Struct

from hub.errors import CloseCode, ProtocolError

__all__ = ["HUB", "SOCKET_TYPE", "decode_properties", "encode_properties"]

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
