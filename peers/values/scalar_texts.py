"""The texts of JSON for addresses, subnets, ports, timestamps and timespans, to and from binary bodies.

Readers are as lenient as Broker: a port without a protocol is TCP, its number wraps at 65536, an unknown protocol is
`?`, a subnet with an impossible length is `::/0`. For any other invalid text they return None.

Cost: 0.3 to 1 µs each. Addresses and days are kept in caches of 4096 texts each, since they come again and again and
reading an IPv6 text costs 5 µs. No I/O.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import lru_cache
from ipaddress import ip_address
from struct import Struct

from peers.values.layout import I64, PROTOCOLS, V4_PREFIX

__all__ = [
    "address_body",
    "address_text",
    "port_body",
    "port_text",
    "real_text",
    "subnet_body",
    "subnet_text",
    "timespan_body",
    "timespan_text",
    "timestamp_body",
    "timestamp_text",
]

_CACHED = 4096
"""Most texts in each cache; an address has up to 45 characters."""

_LONGEST_ADDRESS = 45
"""Characters of the longest IPv6 text."""

_SIX_DECIMALS_LIMIT = 8e9
"""Below it, the shortest text padded to six decimals is what C's `%f` makes."""

_LONGEST_REAL = 24
"""Longest text with six decimals, characters: numbers of 10^17 and more are written with an exponent."""

_SECOND = 1_000_000_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_I64_LIMIT = 1 << 63

_UNITS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": _SECOND, "min": 60 * _SECOND, "h": 3600 * _SECOND}
_TIMESPAN = re.compile(
    r"([+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?)(ns|us|ms|s|min|h)",
)
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?"
    r"(?:Z|([+-])([0-9]{2}):?([0-9]{2})?)?",
)
_SUBNET = re.compile(r"([0-9a-fA-F:.]+)/([0-9]{1,3})")
_GROUPS = Struct(">8H")
_RUNS = [":" + "0:" * groups for groups in range(8, 1, -1)]
_PORT = re.compile(r"([0-9]{1,19})(?:/(.*))?", re.DOTALL)


def real_text(number: float) -> str:
    """Return six decimals, as Broker does, if they are exact; otherwise the shortest text that reads back the same."""
    text = repr(number)
    if not -_SIX_DECIMALS_LIMIT < number < _SIX_DECIMALS_LIMIT:  # NaN, too
        six = f"{number:f}"
        return _special_text(number) or (six if len(six) <= _LONGEST_REAL and float(six) == number else text)
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals:0<6}" if len(decimals) <= 6 and "e" not in text else text


def _special_text(number: float) -> str:
    if number != number:  # noqa: PLR0124  NaN
        return '"NaN"'
    if number in (float("inf"), float("-inf")):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    return ""


@lru_cache(_CACHED)
def address_text(packed: bytes) -> str:
    """Return the text of 16 bytes, or of the 4 of IPv4."""
    if packed.startswith(V4_PREFIX) and len(packed) == 16:
        packed = packed[12:]
    if len(packed) == 4:
        return "%d.%d.%d.%d" % tuple(packed)  # noqa: UP031  the fastest way
    text = "%x:%x:%x:%x:%x:%x:%x:%x" % _GROUPS.unpack(packed)  # noqa: UP031  the same
    return _with_gap(text) if "0:0" in text else text


def _with_gap(text: str) -> str:
    """Write the first of the longest runs of zero groups as `::`."""
    padded = f":{text}:"
    for run in _RUNS:
        before, found, behind = padded.partition(run)
        if found:
            return f"{before[1:]}::{behind[:-1]}"
    return text


def address_body(text: str) -> bytes | None:
    """Return the 16 bytes of an address, None if it is none."""
    return _packed_address(text) if len(text) <= _LONGEST_ADDRESS else None


@lru_cache(_CACHED)
def _packed_address(text: str) -> bytes | None:
    if "%" in text:  # the interface of a link-local address is not part of it here
        return None
    try:
        packed = ip_address(text).packed
    except ValueError:
        return None
    return packed if len(packed) == 16 else V4_PREFIX + packed


def subnet_text(network: bytes, bits: int) -> str:
    """Return the text of a subnet, as `layout.read_network` reads it."""
    return f"{address_text(network)}/{bits}"


def subnet_body(text: str) -> bytes | None:
    """Return the 17 bytes of a subnet, host bits cleared, None if it is none."""
    match = _SUBNET.fullmatch(text)
    packed = address_body(match[1]) if match else None
    if match is None or packed is None or int(match[2]) > 255:
        return None
    bits = int(match[2]) + (96 if ":" not in match[1] else 0)
    if bits > 128:
        return bytes(17)
    hosts = 128 - bits
    return (int.from_bytes(packed, "big") >> hosts << hosts).to_bytes(16, "big") + bytes((bits,))


def port_text(number: int, protocol: int) -> str:
    """Return the text of a port."""
    return f"{number}/{PROTOCOLS[protocol]}"


def port_body(text: str) -> bytes | None:
    """Return the 3 bytes of a port, None if it is none."""
    match = _PORT.fullmatch(text)
    if match is None:
        return None
    name = match[2]
    protocol = 1 if name is None else PROTOCOLS.index(name) if name in PROTOCOLS else 0
    return (int(match[1]) & 0xFFFF).to_bytes(2, "big") + bytes((protocol,))


def timestamp_text(ns: int) -> str:
    """Return UTC without a zone: 3 digits behind the point as Broker does, 6 or 9 where 3 would lose something."""
    seconds, rest = divmod(ns, _SECOND)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    whole = f"{_day_text(days)}T{hour:02}:{minute:02}:{second:02}"
    if not rest % 1_000_000:
        return f"{whole}.{rest // 1_000_000:03}"
    return f"{whole}.{rest // 1000:06}" if not rest % 1000 else f"{whole}.{rest:09}"


@lru_cache(_CACHED)
def _day_text(days: int) -> str:
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def timestamp_body(text: str) -> bytes | None:
    """Return the 8 bytes of a timestamp, None if it is none or beyond 64 bits of nanoseconds. No zone is UTC."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, hour, minute, second, fraction, sign, hours, minutes = match.groups()
    days = _days(day)
    if days is None:
        return None
    seconds = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
    if sign:
        offset = int(hours) * 3600 + int(minutes or 0) * 60
        seconds -= offset if sign == "+" else -offset
    return _signed(seconds * _SECOND + (int(fraction.ljust(9, "0")) if fraction else 0))


@lru_cache(_CACHED)
def _days(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def timespan_text(ns: int) -> str:
    """Return a whole number of the largest of s, ms, us and ns that loses nothing."""
    for unit in ("s", "ms", "us"):
        number, rest = divmod(ns, _UNITS[unit])
        if not rest:
            return f"{number}{unit}"
    return f"{ns}ns"


def timespan_body(text: str) -> bytes | None:
    """Return the 8 bytes of a timespan, None if it is none or beyond 64 bits of nanoseconds."""
    match = _TIMESPAN.fullmatch(text)
    if match is None:
        return None
    number, unit = match[1], _UNITS[match[2]]
    if number.lstrip("+-").isdigit():
        return _signed(int(number) * unit)
    return _signed(int(Decimal(number) * unit))


def _signed(ns: int) -> bytes | None:
    return I64.pack(ns) if -_I64_LIMIT <= ns < _I64_LIMIT else None
