r"""Broker values without their types, for readers that know nothing of Zeek: browsers, `jq`, dashboards.

| Broker | here |
|---|---|
| none, boolean, count, integer, real, string | the same; bytes that are not UTF-8 as `\xff` |
| address, subnet, port, enum value | text: `192.0.2.7`, `10.0.0.0/8`, `53/udp`, `Notice::LOG` |
| timestamp | text, RFC 3339 in UTC: `2024-05-01T12:30:00.25Z` |
| timespan | seconds, a real |
| vector, set | array |
| table | object; keys that are no strings are written in Broker's text form |

Readers that need the types take msgpack, or `/v1/messages/json`.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import msgpack

from peers.values.msgpack import ext_hook
from peers.values.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value, to_text

_SECOND_NS = 1_000_000_000
_FRACTION_DIGITS = 9


def untyped(value: Value) -> Any:
    """Return the plain Python value that stands for a Broker value."""
    make = _UNTYPED.get(type(value))
    return value if make is None else make(value)


def untyped_extension(code: int, data: bytes | memoryview) -> Any:
    """Return the plain Python value of a msgpack extension, or raise `ValueError`: the `ext_hook` of a decoder."""
    value = ext_hook(code, bytes(data))
    if isinstance(value, msgpack.ExtType):
        raise ValueError(f"msgpack extension {code} is not known")  # noqa: TRY004 -- what every decoder expects
    return untyped(value)


def _text(text: str) -> str:
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _moment(timestamp: Timestamp) -> str:
    whole = Timestamp(timestamp.ns // _SECOND_NS * _SECOND_NS)
    try:
        seconds = f"{whole.to_datetime():%Y-%m-%dT%H:%M:%S}"
    except OverflowError:
        return str(timestamp)
    fraction = f"{timestamp.ns % _SECOND_NS:0{_FRACTION_DIGITS}}".rstrip("0")
    return f"{seconds}.{fraction}Z" if fraction else f"{seconds}Z"


def _key(key: Value) -> str:
    return _text(key) if isinstance(key, str) else _text(to_text(key))


_UNTYPED: dict[type, Callable[[Any], Any]] = {
    Count: int,
    str: _text,
    **dict.fromkeys((IPv4Address, IPv6Address, IPv4Network, IPv6Network, Port), str),
    Timestamp: _moment,
    Timespan: lambda span: span.ns / _SECOND_NS,
    Enum: lambda enum: _text(enum.name),
    **dict.fromkeys((tuple, list, Set), lambda values: [untyped(value) for value in values]),
    Table: lambda table: {_key(key): untyped(value) for key, value in table.items()},
}
