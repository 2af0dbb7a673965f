"""From the types of `peers.values.values`, and what stands for them in plain Python, to binary bodies.

A table leads from each type to its writer, which appends to a list of pieces. No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from struct import Struct
from struct import error as StructError  # noqa: N812  an exception, named as one
from typing import Any

from peers.values.binary.order import order
from peers.values.errors import InvalidDataError
from peers.values.layout import (
    DEPTH_LIMIT,
    I64,
    PROTOCOLS,
    U64,
    V4_BITS,
    V4_PREFIX,
    Tag,
    length_bytes,
    real_bytes,
)
from peers.values.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, value_of

__all__ = ["encode"]

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
