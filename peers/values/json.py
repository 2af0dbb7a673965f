r"""Broker's JSON form, to and from binary bodies, without making Python values in between.

A value is `"@data-type":"count","data":1` within braces; a message has its type and topic in front of that. The output
is Broker's, byte for byte, except where Broker loses information or writes no JSON: reals have as many decimals as they
need, infinities and NaN are texts as in protobuf, timestamps have 3, 6 or 9 digits, control characters in strings and
bytes that are not UTF-8 are escaped (`\u00XX`, `\udcXX`). All of this is read back to the same body.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import lru_cache
from ipaddress import ip_address
from json import JSONDecodeError, JSONDecoder
from json.encoder import encode_basestring as quoted
from struct import Struct
from typing import Any

from peers.values.binary import (
    DEPTH_LIMIT,
    I64,
    U64,
    V4_PREFIX,
    InvalidDataError,
    InvalidInputError,
    Makers,
    Tag,
    length_bytes,
    need_distinct,
    real_bytes,
    real_of,
    signed,
    string_body,
    walk,
)
from peers.values.values import PROTOCOLS

CONVERTED_LIMIT_BYTES = 512 * 1024
"""Default for the largest JSON text that is read and the largest body that is written as JSON, bytes. The worst texts,
170,000 empty objects or 7,000 addresses that never came before, take about 50 ms."""

CONVERTED_ELEMENTS_LIMIT = 24 * 1024
"""Most elements in a value that is read or written as JSON. The worst, timestamps on days that never came before, take
2 µs: 50 ms. As JSON they are about a megabyte."""


_CACHED = 4096  # Most texts in each cache; an address has up to 45 characters
_LONGEST_ADDRESS = 45  # Characters of the longest IPv6 text
_SIX_DECIMALS_LIMIT = 8e9  # Below it, the shortest text padded to six decimals is that of C's `%f`
_LONGEST_REAL = 24  # Longest text with six decimals, characters: numbers of 10^17 and more are written with an exponent
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


def _real_text(number: float) -> str:
    """Return six decimals, as Broker does, if they are exact; otherwise the shortest text that reads back the same."""
    text = repr(number)
    if text in _SPECIAL_TEXTS:
        return _SPECIAL_TEXTS[text]
    if not -_SIX_DECIMALS_LIMIT < number < _SIX_DECIMALS_LIMIT:
        six = f"{number:f}"
        return six if len(six) <= _LONGEST_REAL and float(six) == number else text
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals:0<6}" if len(decimals) <= 6 and "e" not in text else text


_SPECIAL_TEXTS = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


@lru_cache(_CACHED)
def _address_text(packed: bytes) -> str:
    if packed.startswith(V4_PREFIX) and len(packed) == 16:
        packed = packed[12:]
    if len(packed) == 4:
        return "%d.%d.%d.%d" % tuple(packed)  # noqa: UP031  the fastest way
    text = "%x:%x:%x:%x:%x:%x:%x:%x" % _GROUPS.unpack(packed)  # noqa: UP031  the same
    if "0:0" in text:
        padded = f":{text}:"
        for run in _RUNS:  # the first of the longest runs of zero groups becomes `::`
            before, found, behind = padded.partition(run)
            if found:
                return f"{before[1:]}::{behind[:-1]}"
    return text


def _address_body(text: str) -> bytes | None:
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


def _subnet_body(text: str) -> bytes | None:
    match = _SUBNET.fullmatch(text)
    packed = _address_body(match[1]) if match else None
    if match is None or packed is None or int(match[2]) > 255:
        return None
    bits = int(match[2]) + (96 if ":" not in match[1] else 0)
    if bits > 128:
        return bytes(17)
    hosts = 128 - bits
    return (int.from_bytes(packed, "big") >> hosts << hosts).to_bytes(16, "big") + bytes((bits,))


def _port_body(text: str) -> bytes | None:
    match = _PORT.fullmatch(text)
    if match is None:
        return None
    name = match[2]
    protocol = 1 if name is None else PROTOCOLS.index(name) if name in PROTOCOLS else 0
    return (int(match[1]) & 0xFFFF).to_bytes(2, "big") + bytes((protocol,))


def _timestamp_text(ns: int) -> str:
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


def _timestamp_body(text: str) -> bytes | None:
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


def _timespan_text(ns: int) -> str:
    """Return a whole number of the largest of s, ms, us and ns that loses nothing."""
    for unit in ("s", "ms", "us"):
        number, rest = divmod(ns, _UNITS[unit])
        if not rest:
            return f"{number}{unit}"
    return f"{ns}ns"


def _timespan_body(text: str) -> bytes | None:
    match = _TIMESPAN.fullmatch(text)
    if match is None:
        return None
    number, unit = match[1], _UNITS[match[2]]
    return _signed(int(number) * unit if number.lstrip("+-").isdigit() else int(Decimal(number) * unit))


def _signed(ns: int) -> bytes | None:
    return I64.pack(ns) if -_I64_LIMIT <= ns < _I64_LIMIT else None


def encode_json(body: bytes, limit_bytes: int = CONVERTED_LIMIT_BYTES) -> bytes:
    """Return the JSON members `"@data-type":...,"data":...` of one value, without braces.

    Raises:
        InvalidDataError: The body is no value, or larger than `limit_bytes`.
    """
    if len(body) > limit_bytes:
        raise InvalidDataError(f"{len(body)} bytes are too many for JSON, the limit is {limit_bytes}")
    return _utf8(walk(body, _WRITERS, CONVERTED_ELEMENTS_LIMIT))


def encode_message(topic: bytes, body: bytes, limit_bytes: int = CONVERTED_LIMIT_BYTES) -> bytes:
    """Return the data message of one value under a topic, which is not checked; errors as of `encode_json`."""
    members = encode_json(body, limit_bytes)
    return b'{"type":"data-message","topic":' + _utf8(_string_text(topic)) + b"," + members + b"}"


def _utf8(text: str) -> bytes:
    return text.encode(errors="backslashreplace")  # a byte that is no UTF-8 becomes `\udcXX`


def _string_text(raw: bytes) -> str:
    return quoted(raw.decode(errors="surrogateescape"))


def _write_set(items: list[str], start: int) -> str:
    need_distinct(set(items), len(items), start)
    return _list_text("set", items)


def _write_table(items: list[str], start: int) -> str:
    keys = items[::2]
    need_distinct(set(keys), len(keys), start)
    pairs = zip(keys, items[1::2], strict=True)
    return _list_text("table", [f'"key":{{{key}}},"value":{{{value}}}' for key, value in pairs])


def _list_text(name: str, items: list[str]) -> str:
    return f'"@data-type":"{name}","data":[' + ("{" + "},{".join(items) + "}]" if items else "]")


_WRITERS: Makers = (
    lambda _: '"@data-type":"none","data":{}',
    lambda raw: '"@data-type":"boolean","data":' + ("false" if raw == b"\0" else "true"),
    lambda raw: f'"@data-type":"count","data":{U64.unpack(raw)[0]}',
    lambda raw: f'"@data-type":"integer","data":{signed(raw)}',
    lambda raw: f'"@data-type":"real","data":{_real_text(real_of(raw))}',
    lambda raw: '"@data-type":"string","data":' + _string_text(raw),
    lambda raw: f'"@data-type":"address","data":"{_address_text(raw)}"',
    lambda subnet: f'"@data-type":"subnet","data":"{_address_text(subnet[0])}/{subnet[1]}"',
    lambda port: f'"@data-type":"port","data":"{port[0]}/{PROTOCOLS[port[1]]}"',
    lambda raw: f'"@data-type":"timestamp","data":"{_timestamp_text(signed(raw))}"',
    lambda raw: f'"@data-type":"timespan","data":"{_timespan_text(signed(raw))}"',
    lambda raw: '"@data-type":"enum-value","data":' + _string_text(raw),
    _write_set,
    _write_table,
    lambda items, _: _list_text("vector", items),
)


class _InvalidValueError(Exception):
    """JSON that is no Broker value."""


class _Input:
    """The state of reading one message."""

    left = CONVERTED_ELEMENTS_LIMIT
    has_duplicates = (
        False  # the message is refused for equal members only at its end: as in Broker, other faults go first
    )


def decode_message(text: bytes, limit_bytes: int = CONVERTED_LIMIT_BYTES) -> tuple[bytes, bytes]:
    """Return the topic and the body of a data message.

    As in Broker, unknown members and the type are ignored, a topic that is missing or no string is empty, and of equal
    members the first counts.

    Raises:
        InvalidInputError: The text is no data message, or longer than `limit_bytes`.
    """
    if len(text) > limit_bytes:
        raise InvalidInputError(f"is longer than {limit_bytes} bytes")
    characters = text.decode(errors="surrogateescape").partition("\0")[0]  # Broker reads no further than that
    try:
        try:
            message = _parse(characters)
        except JSONDecodeError:
            if len(text) > _BROKERS_LIMIT_BYTES or not any(mark in characters for mark in _BROKERS_MARKS):
                raise
            message = _parse(_BROKERS_OWN.sub(_as_json, characters))
        return _message(message)
    except JSONDecodeError as error:
        raise InvalidInputError(f"contained malformed JSON -> {error}") from None
    except RecursionError:
        raise InvalidInputError("contained malformed JSON -> nested too deeply") from None
    except (_InvalidValueError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError("contained invalid data") from None


_BROKERS_LIMIT_BYTES = 128 * 1024  # Longest text that is read a second time, which takes about 30 ms for the worst
_BROKERS_MARKS = ("\\v", "nan", "\f", "\v")
_BROKERS_OWN = re.compile(r'"(?:[^"\\]+|\\.)*"?|\bnan\b|[\f\v]', re.DOTALL)
"""Strings, and texts that Broker takes between them although they are no JSON. A string without an end matches, too, so
that no text is gone through twice."""


def _as_json(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == '"':
        return re.sub(r"\\(.)", lambda escape: r"\u000b" if escape[1] == "v" else escape[0], text)
    return '"NaN"' if text == "nan" else " "


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else dict(reversed(pairs))


def _refuse_constant(_text: str) -> Any:
    raise _InvalidValueError


_parse = JSONDecoder(object_pairs_hook=_members, parse_constant=_refuse_constant, strict=False).decode


def _message(message: Any) -> tuple[bytes, bytes]:
    if type(message) is not dict:
        raise InvalidInputError("expected a JSON object")
    state = _Input()
    body = _body(message, 0, state)
    topic = message.get("topic")
    raw_topic = topic.encode(errors="surrogateescape") if type(topic) is str else b""
    if state.has_duplicates:
        raise InvalidInputError('caused an internal error -> deserialization_failed("failed to parse data")')
    return raw_topic, body


def _body(value: Any, depth: int, state: _Input) -> bytes:
    if type(value) is not dict:
        raise _InvalidValueError
    name, data = value.get("@data-type"), value.get("data")
    read = _READERS.get(name) if type(name) is str else None
    if read is not None:
        body = read(data)
        if body is None:
            raise _InvalidValueError
        return body
    tag = _CONTAINERS.get(name) if type(name) is str else None
    if tag is None or type(data) is not list or depth >= DEPTH_LIMIT:
        raise _InvalidValueError
    state.left -= len(data)
    if state.left < 0:
        raise _InvalidValueError
    if tag == Tag.TABLE:
        state.left -= len(data)
        if not all(type(item) is dict for item in data):
            raise _InvalidValueError
        bodies = [_body(item.get(part), depth + 1, state) for item in data for part in ("key", "value")]
        keys = bodies[::2]
    else:
        keys = bodies = [_body(item, depth + 1, state) for item in data]
    if tag != Tag.VECTOR and len(set(keys)) != len(keys):
        state.has_duplicates = True
    return bytes((tag,)) + length_bytes(len(data)) + b"".join(bodies)


_CONTAINERS = {"vector": Tag.VECTOR, "set": Tag.SET, "table": Tag.TABLE}


_SPECIAL_REALS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def _read_real(data: Any) -> bytes | None:
    number = _SPECIAL_REALS.get(data) if type(data) is str else data
    return b"\x04" + real_bytes(number) if type(number) is float else None


def _string_reader(first: bytes) -> Callable[[Any], bytes | None]:
    return lambda data: string_body(data.encode(errors="surrogateescape"), first) if type(data) is str else None


def _text_reader(tag: int, convert: Callable[[str], bytes | None]) -> Callable[[Any], bytes | None]:
    first = bytes((tag,))

    def read(data: Any) -> bytes | None:
        converted = convert(data) if type(data) is str else None
        return None if converted is None else first + converted

    return read


_READERS: dict[str, Callable[[Any], bytes | None]] = {
    "none": lambda _: b"\x00",
    "boolean": lambda data: (b"\x01\x01" if data else b"\x01\x00") if type(data) is bool else None,
    "count": lambda data: b"\x02" + U64.pack(data) if type(data) is int and 0 <= data < 1 << 64 else None,
    "integer": lambda data: b"\x03" + I64.pack(data) if type(data) is int and -1 << 63 <= data < 1 << 63 else None,
    "real": _read_real,
    "string": _string_reader(b"\x05"),
    "address": _text_reader(Tag.ADDRESS, _address_body),
    "subnet": _text_reader(Tag.SUBNET, _subnet_body),
    "port": _text_reader(Tag.PORT, _port_body),
    "timestamp": _text_reader(Tag.TIMESTAMP, _timestamp_body),
    "timespan": _text_reader(Tag.TIMESPAN, _timespan_body),
    "enum-value": _string_reader(b"\x0b"),
}
