"""The layout of Broker's binary format, version 1: tags, lengths, limits and errors.

```
value   = tag u8, body            all integers big-endian
length  = LEB128, at most 10 bytes, 7 bits each, least significant first; need not be minimal
real    = the bits of IEEE 754, but +inf is fff0..., -inf is 7ff0... and every NaN is ffff...
```
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NoReturn, TypeVar


class InvalidDataError(ValueError):
    """Bytes or a Python object that are no Broker value; the text names the byte position."""


class InvalidInputError(ValueError):
    """A JSON message of a client that is no data message; `context` follows `input #N ` in the reply."""

    def __init__(self, context: str) -> None:
        super().__init__(context)
        self.context = context


DEPTH_LIMIT = 100
"""Deepest nesting of vectors, sets and tables that is read or written. Zeek's own data stays below 20."""

ELEMENTS_LIMIT = 64 * 1024
"""Most elements in one value, keys and values of tables counted each. The worst, sets of one, cost 0.8 µs: 55 ms."""

_LENGTH_BYTES = 10  # Longest LEB128 number taken, bytes: enough for 64 bits, as in Broker


class Tag(IntEnum):
    """The first byte of a value."""

    NONE = 0
    BOOLEAN = 1
    COUNT = 2
    INTEGER = 3
    REAL = 4
    STRING = 5
    ADDRESS = 6
    SUBNET = 7
    PORT = 8
    TIMESTAMP = 9
    TIMESPAN = 10
    ENUM = 11
    SET = 12
    TABLE = 13
    VECTOR = 14


PROTOCOLS = ("?", "tcp", "udp", "icmp")  # Transport protocols, by their number on the wire

U64 = Struct(">Q")
I64 = Struct(">q")
_REAL = Struct(">d")
_PORT = Struct(">HB")

V4_PREFIX = bytes(10) + b"\xff\xff"  # What stands in front of an IPv4 address: all addresses take 16 bytes

V4_BITS = 96  # Length of that prefix; a network's length counts it, too
_V6_BITS = 128

_INFINITY = float("inf")
_WIRE_OF_SPECIAL = {_INFINITY: b"\xff\xf0" + bytes(6), -_INFINITY: b"\x7f\xf0" + bytes(6)}
_WIRE_NAN = b"\xff" * 8

T = TypeVar("T")


class Budget:
    """How many more elements one value may hold."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int = ELEMENTS_LIMIT) -> None:
        self.limit = limit
        self.left = limit

    def take(self, elements: int, position: int) -> None:
        """Charge the elements that begin at `position`; raise `InvalidDataError` for too many."""
        self.left -= elements
        if self.left < 0:
            raise InvalidDataError(f"more than {self.limit} elements are in the value, counted up to byte {position}")


def read_length(body: bytes, position: int) -> tuple[int, int]:
    """Return a LEB128 number and the position behind it."""
    number = body[position]
    if number < 0x80:
        return number, position + 1
    number &= 0x7F
    for index in range(1, _LENGTH_BYTES):
        byte = body[position + index]
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, position + index + 1
    raise InvalidDataError(f"the length at byte {position} takes more than {_LENGTH_BYTES} bytes")


def length_bytes(number: int) -> bytes:
    """Return the shortest LEB128 form of `number`."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_bytes(body: bytes, position: int) -> tuple[bytes, int]:
    """Return a length-prefixed string and the position behind it."""
    length = body[position]
    start = position + 1
    if length >= 0x80:
        length, start = read_length(body, position)
    end = start + length
    if end > len(body):
        raise InvalidDataError(f"the string at byte {position} claims {length} bytes, {len(body) - start} are left")
    return body[start:end], end


def enter(body: bytes, position: int, width: int, depth: int, budget: Budget) -> tuple[int, int]:
    """Return the number of elements of a container, and the position of the first.

    Args:
        body: The whole body.
        position: Behind the tag.
        width: Values per element: 2 for tables, else 1.
        depth: How many containers it stands in.
        budget: Charged.

    Raises:
        InvalidDataError: Too deep, too many, or more than the body has bytes for.
    """
    if depth >= DEPTH_LIMIT:
        raise InvalidDataError(
            f"more than {DEPTH_LIMIT} vectors, sets and tables stand in each other at byte {position}"
        )
    count, start = read_length(body, position)
    if count * width > len(body) - start:
        raise InvalidDataError(f"{count} elements are claimed at byte {position}, {len(body) - start} bytes are left")
    budget.take(count * width, position)
    return count, start


def need_distinct(encodings: Sized, count: int, position: int) -> None:
    """Refuse a set or table of `count` members of which only `encodings` differ."""
    if len(encodings) != count:
        raise InvalidDataError(f"two members of the set, or keys of the table, at byte {position} are the same")


def real_of(raw: bytes) -> float:
    """Return the real number in 8 bytes, with Broker's notion of infinities and NaN."""
    number: float = _REAL.unpack(raw)[0]
    return -number if number in _WIRE_OF_SPECIAL else number


def real_bytes(number: float) -> bytes:
    """Return the 8 bytes that Broker writes for `number`."""
    if number != number:  # noqa: PLR0124  NaN, without importing math for it
        return _WIRE_NAN
    return _WIRE_OF_SPECIAL.get(number) or _REAL.pack(number)


def read_port(body: bytes, position: int) -> tuple[int, int]:
    """Return the number and the protocol of the port at `position`."""
    number, protocol = _PORT.unpack_from(body, position)
    if protocol >= len(PROTOCOLS):
        raise InvalidDataError(f"{protocol} at byte {position + 2} is no transport protocol")
    return number, protocol


def read_network(body: bytes, position: int) -> tuple[bytes, int]:
    """Return the subnet at `position`, host bits cleared: 4 bytes and 0..32 for IPv4, 16 bytes and 0..128 for IPv6."""
    bits = body[position + 16]
    if bits > _V6_BITS:
        raise InvalidDataError(f"{bits} at byte {position + 16} is longer than an address")
    network = body[position : position + 16]
    hosts = _V6_BITS - bits
    masked = (int.from_bytes(network, "big") >> hosts << hosts).to_bytes(16, "big")
    if bits >= V4_BITS and masked.startswith(V4_PREFIX):
        return masked[12:], bits - V4_BITS
    return masked, bits


def refuse_tag(body: bytes, position: int) -> NoReturn:
    """Refuse the unknown tag in front of `position`."""
    raise InvalidDataError(f"{body[position - 1]} at byte {position - 1} is no type")


def with_positions(read: Callable[[bytes], tuple[T, int]], body: bytes) -> T:
    """Read the one value that `body` is.

    Raises:
        InvalidDataError: The body ends within the value, or goes on behind it, or is refused by `read`.
    """
    try:
        value, end = read(body)
    except (IndexError, StructError):
        end = len(body) + 1
    if end > len(body):
        raise InvalidDataError(f"the value is not complete where the body ends, at byte {len(body)}")
    if end < len(body):
        raise InvalidDataError(f"the value ends at byte {end}, {len(body) - end} bytes follow")
    return value
