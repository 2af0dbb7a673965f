"""Broker's binary format: to and from the types of `peers.values.values`, and checked without making any.

A table leads from each tag to its reader, which gets the position behind the tag and returns the value and the position
behind it; another from each type to its writer. A body that ends too early ends in an `IndexError` or a `struct.error`,
which `with_positions` turns into what is told. Bodies are the form that all other encodings are read to and written
from. No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any

from peers.values.layout import (
    DEPTH_LIMIT,
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
    read_real,
    real_bytes,
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


_SIZES = [0, 1, 8, 8, 8, -1, 16, 17, 3, 8, 8, -1]
"""Bytes behind the tag of values that are no containers; -1 for a length and as many bytes."""


def check(body: bytes) -> None:
    """Accept a body that is one value.

    Raises:
        InvalidDataError: As for `decode`.
    """
    with_positions(_check, body)


def value_end(data: bytes, position: int, budget: Budget | None = None) -> int:
    """Return where the value ends that begins at `position`; it is sound.

    Args:
        data: Among other things, the value.
        position: Where it begins.
        budget: How many elements there may be; several values may share one.

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


def _check(body: bytes) -> tuple[None, int]:
    return None, _skip(body, 0, 1, 0, Budget())


def _skip(body: bytes, position: int, count: int, depth: int, budget: Budget) -> int:
    """Return the position behind `count` values."""
    for _ in range(count):
        tag = body[position]
        if tag > Tag.ENUM:
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


_PORT, _SUBNET = int(Tag.PORT), int(Tag.SUBNET)  # plain numbers compare faster


def _skip_container(body: bytes, position: int, depth: int, budget: Budget) -> int:
    tag = body[position]
    start = position + 1
    if tag > Tag.VECTOR:
        refuse_tag(body, start)
    values = 2 if tag == Tag.TABLE else 1
    count, position = enter(body, start, values, depth, budget)
    if tag == Tag.VECTOR or count * values < 2:
        return _skip(body, position, count, depth + 1, budget)
    encodings = set()
    for _ in range(count):
        end = _skip(body, position, 1, depth + 1, budget)
        encodings.add(body[position:end])
        position = end if values == 1 else _skip(body, end, 1, depth + 1, budget)
    need_distinct(encodings, count, start)
    return position


_Reader = Callable[[bytes, int, int, Budget], tuple[Any, int]]


def decode(body: bytes) -> Value:
    """Return the value that `body` is.

    Raises:
        InvalidDataError: It is none, or is too deep or too large; the text says where.
    """
    return with_positions(_decode, body)


def _decode(body: bytes) -> tuple[Value, int]:
    return _READERS[body[0]](body, 1, 0, Budget())


def _read_none(_body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    return None, position


def _read_boolean(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    return body[position] != 0, position + 1


def _read_count(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    return int.__new__(Count, U64.unpack_from(body, position)[0]), position + 8


def _read_integer(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    return I64.unpack_from(body, position)[0], position + 8


def _read_real(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    return read_real(body, position), position + 8


def _read_string(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    raw, position = read_bytes(body, position)
    return raw.decode(errors="surrogateescape"), position


def _read_address(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    end = position + 16
    raw = body[position:end]
    if raw.startswith(V4_PREFIX):
        return IPv4Address(raw[12:] if len(raw) == 16 else 0), end  # too short: refused where the body is found to end
    return IPv6Address(int.from_bytes(raw, "big")), end


def _read_subnet(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    network, bits = read_network(body, position)
    end = position + 17
    return (IPv4Network((network, bits)) if len(network) == 4 else IPv6Network((network, bits))), end


def _read_port(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    number, protocol = read_port(body, position)
    return Port(number, PROTOCOLS[protocol]), position + 3


def _read_timestamp(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    return Timestamp(I64.unpack_from(body, position)[0]), position + 8


def _read_timespan(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    return Timespan(I64.unpack_from(body, position)[0]), position + 8


def _read_enum(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    raw, position = read_bytes(body, position)
    return Enum(raw.decode(errors="surrogateescape")), position


def _read_items(body: bytes, position: int, count: int, depth: int, budget: Budget) -> tuple[list[Any], int]:
    items: list[Any] = []
    append = items.append
    for _ in range(count):
        item, position = _READERS[body[position]](body, position + 1, depth, budget)
        append(item)
    return items, position


def _read_set(body: bytes, position: int, depth: int, budget: Budget) -> tuple[Any, int]:
    start = position
    count, position = enter(body, position, 1, depth, budget)
    members, position = _read_items(body, position, count, depth + 1, budget)
    keys = frozenset(map(identity, members))
    need_distinct(keys, count, start)
    return Set.of_distinct(members, keys), position


def _read_table(body: bytes, position: int, depth: int, budget: Budget) -> tuple[Any, int]:
    start = position
    count, position = enter(body, position, 2, depth, budget)
    items, position = _read_items(body, position, 2 * count, depth + 1, budget)
    keys = items[::2]
    entries = dict(zip(map(identity, keys), zip(keys, items[1::2], strict=True), strict=True))
    need_distinct(entries, count, start)
    return Table.of_distinct(entries), position


def _read_vector(body: bytes, position: int, depth: int, budget: Budget) -> tuple[Any, int]:
    count, position = enter(body, position, 1, depth, budget)
    items, position = _read_items(body, position, count, depth + 1, budget)
    return tuple(items), position


def _refuse(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[Any, int]:
    refuse_tag(body, position)


_READERS: list[_Reader] = [
    _read_none,
    _read_boolean,
    _read_count,
    _read_integer,
    _read_real,
    _read_string,
    _read_address,
    _read_subnet,
    _read_port,
    _read_timestamp,
    _read_timespan,
    _read_enum,
    _read_set,
    _read_table,
    _read_vector,
    *[_refuse] * (256 - len(Tag)),
]


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


def _write_boolean(value: bool, out: list[bytes], _depth: int) -> None:  # noqa: FBT001  the value itself
    out.append(b"\x01\x01" if value else b"\x01\x00")


def _write_string(value: str, out: list[bytes], _depth: int) -> None:
    raw = value.encode(errors="surrogateescape")
    out.append(b"\x05" + length_bytes(len(raw)) + raw)


def _write_enum(value: Enum, out: list[bytes], _depth: int) -> None:
    raw = value.name.encode(errors="surrogateescape")
    out.append(b"\x0b" + length_bytes(len(raw)) + raw)


def _write_v4_network(value: IPv4Network, out: list[bytes], _depth: int) -> None:
    bits = bytes((value.prefixlen + V4_BITS,))
    out.append(b"\x07" + V4_PREFIX + value.network_address.packed + bits)


def _write_v6_network(value: IPv6Network, out: list[bytes], _depth: int) -> None:
    out.append(b"\x07" + value.network_address.packed + bytes((value.prefixlen,)))


def _write_port(value: Port, out: list[bytes], _depth: int) -> None:
    out.append(_PORT_LAYOUT.pack(Tag.PORT, value.number, PROTOCOLS.index(value.protocol)))


_PORT_LAYOUT = Struct(">BHB")


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
    bool: _write_boolean,
    Count: lambda value, out, _: out.append(b"\x02" + U64.pack(value)),
    int: lambda value, out, _: out.append(b"\x03" + I64.pack(value)),
    float: lambda value, out, _: out.append(b"\x04" + real_bytes(value)),
    str: _write_string,
    IPv4Address: lambda value, out, _: out.append(b"\x06" + V4_PREFIX + value.packed),
    IPv6Address: lambda value, out, _: out.append(b"\x06" + value.packed),
    IPv4Network: _write_v4_network,
    IPv6Network: _write_v6_network,
    Port: _write_port,
    Timestamp: lambda value, out, _: out.append(b"\x09" + I64.pack(value.ns)),
    Timespan: lambda value, out, _: out.append(b"\x0a" + I64.pack(value.ns)),
    Enum: _write_enum,
    Set: _write_set,
    Table: _write_table,
    tuple: _write_vector,
    list: _write_vector,
    dict: _write_natural,
    set: _write_natural,
    frozenset: _write_natural,
    bytes: _write_natural,
    bytearray: _write_natural,
    datetime: _write_natural,
    timedelta: _write_natural,
}
