"""The order in which Broker writes the members of sets and tables: by tag, then by value. No state, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from struct import Struct
from typing import Any

from peers.values.errors import InvalidDataError
from peers.values.layout import PROTOCOLS, V4_BITS, V4_PREFIX, Tag
from peers.values.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value

__all__ = ["order"]

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
