"""The msgpack extensions that Broker's types are, and what their payloads are in Broker's binary format.

| code | type | payload, integers big-endian |
|---|---|---|
| 1 | count | u64 |
| 2 | address | 4 or 16 bytes |
| 3 | subnet | 4 or 16 bytes, then u8 prefix length |
| 4 | port | u16 number, u8 protocol: 0 unknown, 1 tcp, 2 udp, 3 icmp |
| 5 | timestamp | i64 nanoseconds since 1970 |
| 6 | timespan | i64 nanoseconds |
| 7 | enum value | the name |
| 8 | set | a msgpack array of the members |
| 9 | table | a msgpack array of key, value, key, value, ... |
| 10 | string that is not UTF-8 | the bytes |

No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct

from peers.values.layout import I64, V4_BITS, V4_PREFIX, Tag, length_bytes

__all__ = ["PAYLOADS", "Code"]


class Code(IntEnum):
    """The codes of the extensions."""

    COUNT = 1
    ADDRESS = 2
    SUBNET = 3
    PORT = 4
    TIMESTAMP = 5
    TIMESPAN = 6
    ENUM = 7
    SET = 8
    TABLE = 9
    RAW_STRING = 10


_MSGPACK_TIMESTAMP = -1
_SECOND_NS = 1_000_000_000
_I64_LIMIT = 1 << 63


def _address_extension(payload: bytes) -> bytes | None:
    if len(payload) == 4:
        return b"\x06" + V4_PREFIX + payload
    return b"\x06" + payload if len(payload) == 16 else None


def _subnet_extension(payload: bytes) -> bytes | None:
    if len(payload) == 5 and payload[4] <= 32:
        raw = V4_PREFIX + payload[:4] + bytes((payload[4] + V4_BITS,))
    elif len(payload) == 17 and payload[16] <= 128:
        raw = payload
    else:
        return None
    hosts = 128 - raw[16]
    masked = int.from_bytes(raw[:16], "big") >> hosts << hosts
    return b"\x07" + masked.to_bytes(16, "big") + raw[16:]


def _port_extension(payload: bytes) -> bytes | None:
    return b"\x08" + payload if len(payload) == 3 and payload[2] <= 3 else None


def _number_extension(tag: int) -> Callable[[bytes], bytes | None]:
    first = bytes((tag,))
    return lambda payload: first + payload if len(payload) == 8 else None


def _string_extension(tag: int) -> Callable[[bytes], bytes | None]:
    first = bytes((tag,))
    return lambda payload: first + length_bytes(len(payload)) + payload


def _msgpack_timestamp(payload: bytes) -> bytes | None:
    """Read the timestamp extension of msgpack, which has three lengths."""
    if len(payload) == 12:
        nanoseconds, seconds = _LONG_TIMESTAMP.unpack(payload)
    elif len(payload) == 8:
        number = int.from_bytes(payload, "big")
        nanoseconds, seconds = number >> 34, number & (1 << 34) - 1
    elif len(payload) == 4:
        nanoseconds, seconds = 0, int.from_bytes(payload, "big")
    else:
        return None
    ns = seconds * _SECOND_NS + nanoseconds
    is_valid = nanoseconds < _SECOND_NS and -_I64_LIMIT <= ns < _I64_LIMIT
    return b"\x09" + I64.pack(ns) if is_valid else None


_LONG_TIMESTAMP = Struct(">Iq")

PAYLOADS: dict[int, Callable[[bytes], bytes | None]] = {
    Code.COUNT: _number_extension(Tag.COUNT),
    Code.ADDRESS: _address_extension,
    Code.SUBNET: _subnet_extension,
    Code.PORT: _port_extension,
    Code.TIMESTAMP: _number_extension(Tag.TIMESTAMP),
    Code.TIMESPAN: _number_extension(Tag.TIMESPAN),
    Code.ENUM: _string_extension(Tag.ENUM),
    Code.RAW_STRING: _string_extension(Tag.STRING),
    _MSGPACK_TIMESTAMP & 0xFF: _msgpack_timestamp,
}
"""From a code as an unsigned byte to what makes a body of the payload, None if it is none. Not here: sets and tables,
since they hold values."""
