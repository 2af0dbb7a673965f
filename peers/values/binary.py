"""Broker's binary format, version 1: to and from the types of `peers.values.values`, and checked without making any.

```
value   = tag u8, body            all integers big-endian
length  = LEB128, at most 10 bytes, 7 bits each, least significant first; need not be minimal
real    = the bits of IEEE 754, but +inf is fff0..., -inf is 7ff0... and every NaN is ffff...
```

Bodies in this format are the pivot: all other encodings are read to bodies, and made of them by `walk`. A body that
ends too early raises an `IndexError` or a `struct.error`, which `with_positions` translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from datetime import datetime, timedelta
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NoReturn, TypeAlias, TypeVar

from peers.values.values import (
    PROTOCOLS,
    Count,
    Enum,
    Port,
    Set,
    Table,
    Timespan,
    Timestamp,
    Value,
    identity,
    value_of,
)


class InvalidDataError(ValueError):
    """Bytes or a Python object that are no Broker value; the text names the byte position."""


class InvalidInputError(ValueError):
    """A JSON message of a client that is no data message; the text follows `input #N ` in the reply."""


DEPTH_LIMIT = 100
"""Deepest nesting of vectors, sets and tables that is read or written. Zeek's own data stays below 20."""

ELEMENTS_LIMIT = 64 * 1024
"""Most elements in one value, keys and values of tables counted each. The worst, sets of one, cost 0.8 µs: 55 ms."""

_LENGTH_BYTES = 10  # Longest LEB128 number taken, bytes: enough for 64 bits, as in Broker


Tag = IntEnum(
    "Tag",
    "NONE BOOLEAN COUNT INTEGER REAL STRING ADDRESS SUBNET PORT TIMESTAMP TIMESPAN ENUM SET TABLE VECTOR",
    start=0,
)
"""The first byte of a value."""


U64 = Struct(">Q")
I64 = Struct(">q")
_REAL = Struct(">d")
_PORT = Struct(">HB")
V4_PREFIX = bytes(10) + b"\xff\xff"  # The prefix of an IPv4 address: all addresses take 16 bytes
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
    """Return the LEB128 number at `position` and the position behind it."""
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
    """Return the number of elements of the container whose tag stands before `position`, and the position of the first.

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
        raise InvalidDataError(f"more than {DEPTH_LIMIT} vectors, sets and tables are nested at byte {position}")
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
    if number != number:  # noqa: PLR0124  NaN, without importing math for it
        return _WIRE_NAN
    return _WIRE_OF_SPECIAL.get(number) or _REAL.pack(number)


def read_port(body: bytes, position: int) -> tuple[int, int]:
    number, protocol = _PORT.unpack_from(body, position)
    if protocol >= len(PROTOCOLS):
        raise InvalidDataError(f"{protocol} at byte {position + 2} is not a transport protocol")
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


_SIGN = 1 << 63
_BEHIND_ALL = 1 << 64


def _real_order(number: float) -> int:
    """Return a number that is larger for a larger real; NaN is last."""
    if number != number:  # noqa: PLR0124  NaN
        return _BEHIND_ALL
    bits = int.from_bytes(_REAL.pack(number), "big")
    return bits + _SIGN if bits < _SIGN else _BEHIND_ALL - 1 - bits


def _address_order(packed: bytes) -> bytes:
    return packed if len(packed) == 16 else V4_PREFIX + packed


def _network_order(network: IPv4Network | IPv6Network) -> Any:
    packed = network.network_address.packed
    return _address_order(packed), network.prefixlen + (V4_BITS if len(packed) == 4 else 0)


_ORDERS: dict[type, tuple[int, Callable[[Any], Any]]] = {
    type(None): (Tag.NONE, lambda _: 0),
    bool: (Tag.BOOLEAN, int),
    Count: (Tag.COUNT, int),
    int: (Tag.INTEGER, int),
    float: (Tag.REAL, _real_order),
    str: (Tag.STRING, lambda text: text.encode(errors="surrogateescape")),
    IPv4Address: (Tag.ADDRESS, lambda address: _address_order(address.packed)),
    IPv6Address: (Tag.ADDRESS, lambda address: address.packed),
    IPv4Network: (Tag.SUBNET, _network_order),
    IPv6Network: (Tag.SUBNET, _network_order),
    Port: (Tag.PORT, lambda port: (port.number, PROTOCOLS.index(port.protocol))),
    Timestamp: (Tag.TIMESTAMP, lambda timestamp: timestamp.ns),
    Timespan: (Tag.TIMESPAN, lambda timespan: timespan.ns),
    Enum: (Tag.ENUM, lambda enum: enum.name.encode(errors="surrogateescape")),
    Set: (Tag.SET, lambda members: sorted(map(order, members))),
    Table: (Tag.TABLE, lambda table: sorted((order(key), order(value)) for key, value in table.items())),
    **dict.fromkeys((tuple, list), (Tag.VECTOR, lambda values: list(map(order, values)))),
}


def order(value: Value) -> Any:
    """Return a key that sorts as Broker sorts values; raises `InvalidDataError` for a value without a Broker form."""
    place = _ORDERS.get(type(value))
    if place is None:
        raise InvalidDataError(f"a {type(value).__name__} has no Broker form")
    tag, key = place
    return tag, key(value)


# Plain numbers compare faster.
_PORT_TAG, _SUBNET, _ENUM, _TABLE, _VECTOR = map(int, (Tag.PORT, Tag.SUBNET, Tag.ENUM, Tag.TABLE, Tag.VECTOR))

# Bytes behind the tag of values that are no containers; -1 for a length and as many bytes.
_SIZES = [0, 1, 8, 8, 8, -1, 16, 17, 3, 8, 8, -1]


def check(body: bytes) -> None:
    """Raise an `InvalidDataError`, as `decode`, unless a body is one value."""
    with_positions(lambda data: (None, _skip(data, 0, 1, 0, Budget())), body)


def value_end(data: bytes, position: int, budget: Budget | None = None) -> int:
    """Return where the valid value ends that begins at `position`; several values may share a budget.

    Raises:
        InvalidDataError: As for `decode`, but bytes may follow the value.
    """
    try:
        end = _skip(data, position, 1, 0, budget or Budget())
    except (IndexError, StructError):
        end = len(data) + 1
    if end > len(data):
        raise InvalidDataError(f"the value at byte {position} is not complete where the data ends, at byte {len(data)}")
    return end


def _skip(body: bytes, position: int, count: int, depth: int, budget: Budget) -> int:
    """Return the position behind `count` values."""
    for _ in range(count):
        tag = body[position]
        if tag > _ENUM:
            position = _skip_container(body, position, depth, budget)
            continue
        size = _SIZES[tag]
        if size < 0:
            size, position = read_length(body, position + 1)
            position += size
            continue
        if tag == _PORT_TAG:
            read_port(body, position + 1)
        elif tag == _SUBNET:
            read_network(body, position + 1)
        position += 1 + size
    return position


def _skip_container(body: bytes, position: int, depth: int, budget: Budget) -> int:
    tag = body[position]
    start = position + 1
    if tag > _VECTOR:
        refuse_tag(body, start)
    values = 2 if tag == _TABLE else 1
    count, position = enter(body, start, values, depth, budget)
    if tag == _VECTOR or count * values < 2:
        return _skip(body, position, count, depth + 1, budget)
    encodings = set()
    for _ in range(count):
        end = _skip(body, position, 1, depth + 1, budget)
        encodings.add(body[position:end])
        position = end if values == 1 else _skip(body, end, 1, depth + 1, budget)
    need_distinct(encodings, count, start)
    return position


# For each tag, a function of a value's payload: its bytes; of a subnet, its network and length; of a port, number and
# protocol; of a container, the list of results of its values, and its position.
Makers: TypeAlias = tuple[Callable[..., Any], ...]


def walk(body: bytes, makers: Makers, limit: int = ELEMENTS_LIMIT) -> Any:
    """Return the result of `makers` for the one value that `body` is.

    Raises:
        InvalidDataError: The body is no value, too deep, or has more than `limit` elements.
    """
    return with_positions(lambda data: _make(data, 0, 1, 0, Budget(limit), makers), body)[0]


def _make(  # noqa: PLR0913, PLR0917 -- the state of one call of `walk`
    body: bytes, position: int, count: int, depth: int, budget: Budget, makers: Makers
) -> tuple[list[Any], int]:
    made: list[Any] = []
    add = made.append
    for _ in range(count):
        tag = body[position]
        start = position + 1
        if tag > _ENUM:
            if tag > _VECTOR:
                refuse_tag(body, start)
            width = 2 if tag == _TABLE else 1
            elements, position = enter(body, start, width, depth, budget)
            items, position = _make(body, position, elements * width, depth + 1, budget, makers)
            add(makers[tag](items, start))
            continue
        size = _SIZES[tag]
        if size < 0:
            raw, position = read_bytes(body, start)
            add(makers[tag](raw))
            continue
        position = start + size
        if position > len(body):
            raise IndexError
        if tag == _PORT_TAG:
            add(makers[tag](read_port(body, start)))
        elif tag == _SUBNET:
            add(makers[tag](read_network(body, start)))
        else:
            add(makers[tag](body[start:position]))
    return made, position


def decode(body: bytes) -> Value:
    """Return the value that `body` is.

    Raises:
        InvalidDataError: The body is no value, too deep or too large; the text says where.
    """
    value: Value = walk(body, _VALUES)
    return value


def signed(raw: bytes) -> int:
    number: int = I64.unpack(raw)[0]
    return number


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


def _set(members: list[Value], start: int) -> Set:
    keys = frozenset(map(identity, members))
    need_distinct(keys, len(members), start)
    return Set.of_distinct(members, keys)


def _table(items: list[Value], start: int) -> Table:
    keys = items[::2]
    entries = dict(zip(map(identity, keys), zip(keys, items[1::2], strict=True), strict=True))
    need_distinct(entries, len(keys), start)
    return Table.of_distinct(entries)


_VALUES: Makers = (
    lambda _: None,
    lambda raw: raw != b"\0",
    lambda raw: int.__new__(Count, int.from_bytes(raw)),
    signed,
    real_of,
    _text,
    lambda raw: IPv4Address(raw[12:]) if raw.startswith(V4_PREFIX) else IPv6Address(raw),
    lambda subnet: IPv4Network(subnet) if len(subnet[0]) == 4 else IPv6Network(subnet),
    lambda port: Port(port[0], PROTOCOLS[port[1]]),
    lambda raw: Timestamp(signed(raw)),
    lambda raw: Timespan(signed(raw)),
    lambda raw: Enum(_text(raw)),
    _set,
    _table,
    lambda items, _: tuple(items),
)


_Writer = Callable[[Any, list[bytes], int], None]


def encode(value: Any) -> bytes:
    """Return a value in the binary format.

    Besides the types of `values`, it takes dicts, sets, lists, bytes, datetimes with a zone, and timedeltas.

    Raises:
        InvalidDataError: Something in it has no Broker form: another type, a number out of range, too deep.
    """
    out: list[bytes] = []
    try:
        _write(value, out, 0)
    except RecursionError:
        raise InvalidDataError("the value is nested too deep, or holds itself") from None
    return b"".join(out)


def _write(value: Any, out: list[bytes], depth: int) -> None:
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise InvalidDataError(f"a {type(value).__name__} has no Broker form")
    try:
        writer(value, out, depth)
    except (StructError, UnicodeEncodeError, ValueError) as error:
        if isinstance(error, InvalidDataError):
            raise
        raise InvalidDataError(f"a {type(value).__name__} has no Broker form: {error}") from error


def string_body(raw: bytes, first: bytes = b"\x05") -> bytes:
    """Return a string's body, or that of an enum value (`first`: 0b)."""
    return first + length_bytes(len(raw)) + raw


def _begin(tag: int, count: int, out: list[bytes], depth: int) -> None:
    if depth >= DEPTH_LIMIT:
        raise InvalidDataError(f"more than {DEPTH_LIMIT} vectors, sets and tables are nested")
    out.append(bytes((tag,)) + length_bytes(count))


def _write_vector(value: Any, out: list[bytes], depth: int) -> None:
    _begin(Tag.VECTOR, len(value), out, depth)
    for item in value:
        _write(item, out, depth + 1)


def _write_members(value: Set | Table, out: list[bytes], depth: int) -> None:
    """Write a set, or the keys of a table with their values, in Broker's order."""
    table = value if isinstance(value, Table) else None
    _begin(Tag.SET if table is None else Tag.TABLE, len(value), out, depth)
    for key in sorted(value, key=order) if len(value) > 1 else value:
        _write(key, out, depth + 1)
        if table is not None:
            _write(table[key], out, depth + 1)


_WRITERS: dict[type, _Writer] = {
    type(None): lambda _, out, __: out.append(b"\x00"),
    bool: lambda value, out, _: out.append(b"\x01\x01" if value else b"\x01\x00"),
    Count: lambda value, out, _: out.append(b"\x02" + U64.pack(value)),
    int: lambda value, out, _: out.append(b"\x03" + I64.pack(value)),
    float: lambda value, out, _: out.append(b"\x04" + real_bytes(value)),
    str: lambda value, out, _: out.append(string_body(value.encode(errors="surrogateescape"))),
    IPv4Address: lambda value, out, _: out.append(b"\x06" + V4_PREFIX + value.packed),
    IPv6Address: lambda value, out, _: out.append(b"\x06" + value.packed),
    IPv4Network: lambda value, out, _: out.append(
        b"\x07" + V4_PREFIX + value.network_address.packed + bytes((value.prefixlen + V4_BITS,))
    ),
    IPv6Network: lambda value, out, _: out.append(b"\x07" + value.network_address.packed + bytes((value.prefixlen,))),
    Port: lambda value, out, _: out.append(b"\x08" + _PORT.pack(value.number, PROTOCOLS.index(value.protocol))),
    Timestamp: lambda value, out, _: out.append(b"\x09" + I64.pack(value.ns)),
    Timespan: lambda value, out, _: out.append(b"\x0a" + I64.pack(value.ns)),
    Enum: lambda value, out, _: out.append(string_body(value.name.encode(errors="surrogateescape"), b"\x0b")),
    **dict.fromkeys((Set, Table), _write_members),
    **dict.fromkeys((tuple, list), _write_vector),
    **dict.fromkeys(
        (dict, set, frozenset, bytes, bytearray, datetime, timedelta),
        lambda value, out, depth: _write(value_of(value), out, depth),
    ),
}
