"""Broker's binary format: to and from the types of `peers.values.values`, and checked without making any.

Bodies are the pivot: all other encodings are read to bodies, and made of them by `walk`. A body that ends too early
raises an `IndexError` or a `struct.error`, which `with_positions` translates.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, TypeAlias

from peers.values.layout import (
    DEPTH_LIMIT,
    ELEMENTS_LIMIT,
    I64,
    PROTOCOLS,
    U64,
    V4_BITS,
    V4_PREFIX,
    Budget,
    InvalidDataError,
    Tag,
    enter,
    length_bytes,
    need_distinct,
    read_bytes,
    read_length,
    read_network,
    read_port,
    real_bytes,
    real_of,
    refuse_tag,
    with_positions,
)
from peers.values.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value, identity, value_of

_REAL = Struct(">d")
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
    tuple: (Tag.VECTOR, lambda values: list(map(order, values))),
    list: (Tag.VECTOR, lambda values: list(map(order, values))),
}


def order(value: Value) -> Any:
    """Return what sorts as Broker sorts values.

    Raises:
        InvalidDataError: The value, or something in it, has no Broker form.
    """
    place = _ORDERS.get(type(value))
    if place is None:
        raise InvalidDataError(f"a {type(value).__name__} has no Broker form")
    tag, key = place
    return tag, key(value)


_PORT, _SUBNET, _ENUM, _TABLE, _VECTOR = map(int, (Tag.PORT, Tag.SUBNET, Tag.ENUM, Tag.TABLE, Tag.VECTOR))
"""Plain numbers compare faster."""

_SIZES = [0, 1, 8, 8, 8, -1, 16, 17, 3, 8, 8, -1]
"""Bytes behind the tag of values that are no containers; -1 for a length and as many bytes."""


def check(body: bytes) -> None:
    """Accept a body that is one value.

    Raises:
        InvalidDataError: As for `decode`.
    """
    with_positions(lambda data: (None, _skip(data, 0, 1, 0, Budget())), body)


def value_end(data: bytes, position: int, budget: Budget | None = None) -> int:
    """Return where the sound value ends that begins at `position`; several values may share a budget.

    Raises:
        InvalidDataError: As for `decode`, but something may follow the value.
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
        if tag == _PORT:
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


Makers: TypeAlias = tuple[Callable[..., Any], ...]
"""For each tag, what makes something of a value's payload: its bytes; of a subnet, its network and length; of a port,
number and protocol; of a container, the list of what was made of its values, and its position."""


def walk(body: bytes, makers: Makers, limit: int = ELEMENTS_LIMIT) -> Any:
    """Return what `makers` make of the one value that `body` is.

    Raises:
        InvalidDataError: It is no value, too deep, or has more than `limit` elements.
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
        if tag == _PORT:
            add(makers[tag](read_port(body, start)))
        elif tag == _SUBNET:
            add(makers[tag](read_network(body, start)))
        else:
            add(makers[tag](body[start:position]))
    return made, position


def decode(body: bytes) -> Value:
    """Return the value that `body` is.

    Raises:
        InvalidDataError: It is none, or is too deep or too large; the text says where.
    """
    value: Value = walk(body, _VALUES)
    return value


def signed(raw: bytes) -> int:
    """Return a number of 64 bits."""
    number: int = I64.unpack(raw)[0]
    return number


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


def _address(raw: bytes) -> IPv4Address | IPv6Address:
    return IPv4Address(raw[12:]) if raw.startswith(V4_PREFIX) else IPv6Address(raw)


def _network(subnet: tuple[bytes, int]) -> IPv4Network | IPv6Network:
    return IPv4Network(subnet) if len(subnet[0]) == 4 else IPv6Network(subnet)


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
    _address,
    _network,
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


def _write_port(value: Port, out: list[bytes], _depth: int) -> None:
    out.append(_PORT_LAYOUT.pack(Tag.PORT, value.number, PROTOCOLS.index(value.protocol)))


_PORT_LAYOUT = Struct(">BHB")


def string_body(raw: bytes, first: bytes = b"\x05") -> bytes:
    """Return a string's body, or that of an enum value (`first`: 0b)."""
    return first + length_bytes(len(raw)) + raw


def _begin(tag: int, count: int, out: list[bytes], depth: int) -> None:
    if depth >= DEPTH_LIMIT:
        raise InvalidDataError(f"more than {DEPTH_LIMIT} vectors, sets and tables stand in each other")
    out.append(bytes((tag,)) + length_bytes(count))


def _write_vector(value: Any, out: list[bytes], depth: int) -> None:
    _begin(Tag.VECTOR, len(value), out, depth)
    for item in value:
        _write(item, out, depth + 1)


def _write_set(value: Set, out: list[bytes], depth: int) -> None:
    _begin(Tag.SET, len(value), out, depth)
    for member in sorted(value, key=order) if len(value) > 1 else value:
        _write(member, out, depth + 1)


def _write_table(value: Table, out: list[bytes], depth: int) -> None:
    _begin(Tag.TABLE, len(value), out, depth)
    for key in sorted(value, key=order) if len(value) > 1 else value:
        _write(key, out, depth + 1)
        _write(value[key], out, depth + 1)


def _write_natural(value: Any, out: list[bytes], depth: int) -> None:
    _write(value_of(value), out, depth)


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
    Port: _write_port,
    Timestamp: lambda value, out, _: out.append(b"\x09" + I64.pack(value.ns)),
    Timespan: lambda value, out, _: out.append(b"\x0a" + I64.pack(value.ns)),
    Enum: lambda value, out, _: out.append(string_body(value.name.encode(errors="surrogateescape"), b"\x0b")),
    Set: _write_set,
    Table: _write_table,
    tuple: _write_vector,
    list: _write_vector,
    **dict.fromkeys((dict, set, frozenset, bytes, bytearray, datetime, timedelta), _write_natural),
}
