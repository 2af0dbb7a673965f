"""From binary bodies to the types of `peers.values.values`.

A table leads from each tag to its reader, which gets the position behind the tag and returns the value and the position
behind it. A body that ends too early ends in an `IndexError` or a `struct.error`, which `with_positions` turns into
what is told. No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from peers.values.layout import (
    I64,
    PROTOCOLS,
    U64,
    V4_PREFIX,
    Budget,
    Tag,
    enter,
    need_distinct,
    read_bytes,
    read_network,
    read_port,
    read_real,
    refuse_tag,
    with_positions,
)
from peers.values.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value, identity

__all__ = ["decode"]

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
