r"""Broker's JSON form, to and from binary bodies, without making Python values in between.

A value is `"@data-type":"count","data":1` within braces; a message has its type and topic in front of that. What is
written is what Broker writes, byte for byte, except where Broker loses something or writes no JSON: reals have as many
decimals as they need, infinities and NaN are texts as in protobuf, timestamps have 3, 6 or 9 digits, control characters
in strings and bytes that are not UTF-8 are escaped (`\u00XX`, `\udcXX`). All of this is read back to the same body.

Cost: an event of 10 fields takes about 12 µs to write, 25 µs to read; the worst that the limits let through takes 50 to
60 ms. No state but caches of texts, no I/O.
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

from peers.values.layout import (
    DEPTH_LIMIT,
    I64,
    PROTOCOLS,
    U64,
    V4_PREFIX,
    Budget,
    InvalidDataError,
    InvalidInputError,
    Tag,
    enter,
    length_bytes,
    need_distinct,
    read_bytes,
    read_network,
    read_port,
    read_real,
    real_bytes,
    refuse_tag,
    with_positions,
)

CONVERTED_LIMIT_BYTES = 512 * 1024
"""Default for the largest JSON text that is read and the largest body that is written as JSON, bytes. The worst texts,
170,000 empty objects or 7,000 addresses that never came before, take about 50 ms."""

CONVERTED_ELEMENTS_LIMIT = 24 * 1024
"""Most elements in a value that is read or written as JSON. The worst, timestamps on days that never came before, take
2 µs: 50 ms. As JSON they are about a megabyte."""


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


class _Output(list[str]):
    """The texts that were written so far, and the budget of elements for those to come."""

    __slots__ = ("budget",)

    def __init__(self) -> None:
        self.budget = Budget(CONVERTED_ELEMENTS_LIMIT)


_Writer = Callable[[bytes, int, int, _Output], int]


def encode_json(body: bytes, limit_bytes: int = CONVERTED_LIMIT_BYTES) -> bytes:
    """Return the JSON members `"@data-type":...,"data":...` of one value, without braces.

    Args:
        body: The value in the binary format.
        limit_bytes: Largest body that is converted.

    Raises:
        InvalidDataError: The body is no value, or is larger than `limit_bytes`.
    """
    if len(body) > limit_bytes:
        raise InvalidDataError(f"{len(body)} bytes are too many for JSON, the limit is {limit_bytes}")
    return _utf8(with_positions(_encode, body))


def encode_message(topic: bytes, body: bytes, limit_bytes: int = CONVERTED_LIMIT_BYTES) -> bytes:
    """Return the data message of one value under a topic.

    Args:
        topic: Not checked.
        body: The value in the binary format.
        limit_bytes: Largest body that is converted.

    Raises:
        InvalidDataError: The body is no value, or is larger than `limit_bytes`.
    """
    members = encode_json(body, limit_bytes)
    return b'{"type":"data-message","topic":' + _utf8(_string_text(topic)) + b"," + members + b"}"


def _encode(body: bytes) -> tuple[str, int]:
    out = _Output()
    end = _WRITERS[body[0]](body, 1, 0, out)
    return "".join(out), end


def _utf8(text: str) -> bytes:
    r"""Encode `text`; what stands for a byte that is no UTF-8 becomes `\udcXX`."""
    return text.encode(errors="backslashreplace")


def _string_text(raw: bytes) -> str:
    return quoted(raw.decode(errors="surrogateescape"))


def _write_none(_body: bytes, position: int, _depth: int, out: _Output) -> int:
    out.append('"@data-type":"none","data":{}')
    return position


def _write_boolean(body: bytes, position: int, _depth: int, out: _Output) -> int:
    out.append('"@data-type":"boolean","data":' + ("true" if body[position] else "false"))
    return position + 1


def _write_count(body: bytes, position: int, _depth: int, out: _Output) -> int:
    out.append(f'"@data-type":"count","data":{U64.unpack_from(body, position)[0]}')
    return position + 8


def _write_integer(body: bytes, position: int, _depth: int, out: _Output) -> int:
    out.append(f'"@data-type":"integer","data":{I64.unpack_from(body, position)[0]}')
    return position + 8


def _write_real(body: bytes, position: int, _depth: int, out: _Output) -> int:
    out.append(f'"@data-type":"real","data":{real_text(read_real(body, position))}')
    return position + 8


def _write_string(body: bytes, position: int, _depth: int, out: _Output) -> int:
    raw, position = read_bytes(body, position)
    out.append('"@data-type":"string","data":' + _string_text(raw))
    return position


def _write_address(body: bytes, position: int, _depth: int, out: _Output) -> int:
    end = position + 16
    if end > len(body):
        raise IndexError
    out.append(f'"@data-type":"address","data":"{address_text(body[position:end])}"')
    return end


def _write_subnet(body: bytes, position: int, _depth: int, out: _Output) -> int:
    network, bits = read_network(body, position)
    out.append(f'"@data-type":"subnet","data":"{subnet_text(network, bits)}"')
    return position + 17


def _write_port(body: bytes, position: int, _depth: int, out: _Output) -> int:
    number, protocol = read_port(body, position)
    out.append(f'"@data-type":"port","data":"{port_text(number, protocol)}"')
    return position + 3


def _write_timestamp(body: bytes, position: int, _depth: int, out: _Output) -> int:
    out.append(f'"@data-type":"timestamp","data":"{timestamp_text(I64.unpack_from(body, position)[0])}"')
    return position + 8


def _write_timespan(body: bytes, position: int, _depth: int, out: _Output) -> int:
    out.append(f'"@data-type":"timespan","data":"{timespan_text(I64.unpack_from(body, position)[0])}"')
    return position + 8


def _write_enum(body: bytes, position: int, _depth: int, out: _Output) -> int:
    raw, position = read_bytes(body, position)
    out.append('"@data-type":"enum-value","data":' + _string_text(raw))
    return position


def _write_vector(body: bytes, position: int, depth: int, out: _Output) -> int:
    count, position = enter(body, position, 1, depth, out.budget)
    between = '"@data-type":"vector","data":[{'
    for _ in range(count):
        out.append(between)
        position = _WRITERS[body[position]](body, position + 1, depth + 1, out)
        between = "},{"
    out.append("}]" if count else '"@data-type":"vector","data":[]')
    return position


def _write_set(body: bytes, position: int, depth: int, out: _Output) -> int:
    begin = position
    count, position = enter(body, position, 1, depth, out.budget)
    encodings = set()
    between = '"@data-type":"set","data":[{'
    for _ in range(count):
        out.append(between)
        start = position
        position = _WRITERS[body[position]](body, position + 1, depth + 1, out)
        encodings.add(body[start:position])
        between = "},{"
    need_distinct(encodings, count, begin)
    out.append("}]" if count else '"@data-type":"set","data":[]')
    return position


def _write_table(body: bytes, position: int, depth: int, out: _Output) -> int:
    begin = position
    count, position = enter(body, position, 2, depth, out.budget)
    encodings = set()
    between = '"@data-type":"table","data":[{"key":{'
    for _ in range(count):
        out.append(between)
        start = position
        position = _WRITERS[body[position]](body, position + 1, depth + 1, out)
        encodings.add(body[start:position])
        out.append('},"value":{')
        position = _WRITERS[body[position]](body, position + 1, depth + 1, out)
        between = '}},{"key":{'
    need_distinct(encodings, count, begin)
    out.append("}}]" if count else '"@data-type":"table","data":[]')
    return position


def _refuse(body: bytes, position: int, _depth: int, _out: _Output) -> int:
    refuse_tag(body, position)


_WRITERS: list[_Writer] = [
    _write_none,
    _write_boolean,
    _write_count,
    _write_integer,
    _write_real,
    _write_string,
    _write_address,
    _write_subnet,
    _write_port,
    _write_timestamp,
    _write_timespan,
    _write_enum,
    _write_set,
    _write_table,
    _write_vector,
    *[_refuse] * (256 - len(Tag)),
]


class _InvalidValueError(Exception):
    """JSON that is no Broker value."""


class _Input:
    """The state of reading one message."""

    __slots__ = ("has_duplicates", "left")

    def __init__(self) -> None:
        self.left = CONVERTED_ELEMENTS_LIMIT
        """How many more elements may come; negative when there were too many."""
        self.has_duplicates = False
        """Becomes True when a set or table has equal members. The message is refused for that only at its end."""


def decode_message(text: bytes, limit_bytes: int = CONVERTED_LIMIT_BYTES) -> tuple[bytes, bytes]:
    """Return the topic and the body of a data message.

    Unknown members and the type are not looked at, a topic that is missing or no string is empty, of equal members the
    first counts: all as in Broker.

    Args:
        text: The JSON text.
        limit_bytes: Longest text taken.

    Returns:
        The topic as UTF-8, and the value in the binary format.

    Raises:
        InvalidInputError: It is none. Its `context` follows `input #N ` in the reply, as in Broker's.
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


_BROKERS_LIMIT_BYTES = 128 * 1024
"""Longest text that is read a second time, which takes about 30 ms for the worst."""

_BROKERS_MARKS = ("\\v", "nan", "\f", "\v")
_BROKERS_OWN = re.compile(r'"(?:[^"\\]+|\\.)*"?|\bnan\b|[\f\v]', re.DOTALL)
"""Strings, and what Broker takes between them although it is no JSON. A string without an end matches, too, so that
nothing is gone through twice."""


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
    """Return the binary form of a JSON object."""
    if type(value) is not dict:
        raise _InvalidValueError
    name = value.get("@data-type")
    read = _READERS.get(name) if type(name) is str else None
    if read is not None:
        body = read(value.get("data"))
        if body is None:
            raise _InvalidValueError
        return body
    read_items = _CONTAINER_READERS.get(name) if type(name) is str else None
    items = value.get("data")
    if read_items is None or type(items) is not list or depth >= DEPTH_LIMIT:
        raise _InvalidValueError
    state.left -= len(items)
    if state.left < 0:
        raise _InvalidValueError
    return read_items(items, depth + 1, state)


def _read_none(_data: Any) -> bytes:
    return b"\x00"


def _read_boolean(data: Any) -> bytes | None:
    return (b"\x01\x01" if data else b"\x01\x00") if type(data) is bool else None


def _read_count(data: Any) -> bytes | None:
    return b"\x02" + U64.pack(data) if type(data) is int and 0 <= data < 1 << 64 else None


def _read_integer(data: Any) -> bytes | None:
    return b"\x03" + I64.pack(data) if type(data) is int and -1 << 63 <= data < 1 << 63 else None


_SPECIAL_REALS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def _read_real(data: Any) -> bytes | None:
    number = _SPECIAL_REALS.get(data) if type(data) is str else data
    return b"\x04" + real_bytes(number) if type(number) is float else None


def _read_string(data: Any) -> bytes | None:
    if type(data) is not str:
        return None
    raw = data.encode(errors="surrogateescape")
    return b"\x05" + length_bytes(len(raw)) + raw


def _read_enum(data: Any) -> bytes | None:
    body = _read_string(data)
    return body and b"\x0b" + body[1:]


def _text_reader(tag: int, convert: Callable[[str], bytes | None]) -> Callable[[Any], bytes | None]:
    """Return a reader for a type that JSON writes as a text."""
    first = bytes((tag,))

    def read(data: Any) -> bytes | None:
        converted = convert(data) if type(data) is str else None
        return None if converted is None else first + converted

    return read


_READERS: dict[str, Callable[[Any], bytes | None]] = {
    "none": _read_none,
    "boolean": _read_boolean,
    "count": _read_count,
    "integer": _read_integer,
    "real": _read_real,
    "string": _read_string,
    "address": _text_reader(Tag.ADDRESS, address_body),
    "subnet": _text_reader(Tag.SUBNET, subnet_body),
    "port": _text_reader(Tag.PORT, port_body),
    "timestamp": _text_reader(Tag.TIMESTAMP, timestamp_body),
    "timespan": _text_reader(Tag.TIMESPAN, timespan_body),
    "enum-value": _read_enum,
}


def _read_vector(items: list[Any], depth: int, state: _Input) -> bytes:
    bodies = [_body(item, depth, state) for item in items]
    return b"\x0e" + length_bytes(len(bodies)) + b"".join(bodies)


def _read_set(items: list[Any], depth: int, state: _Input) -> bytes:
    bodies = [_body(item, depth, state) for item in items]
    if len(set(bodies)) != len(bodies):
        state.has_duplicates = True  # as in Broker, any other fault is told first
    return b"\x0c" + length_bytes(len(bodies)) + b"".join(bodies)


def _read_table(items: list[Any], depth: int, state: _Input) -> bytes:
    state.left -= len(items)
    keys: set[bytes] = set()
    bodies: list[bytes] = []
    for item in items:
        if type(item) is not dict:
            raise _InvalidValueError
        key = _body(item.get("key"), depth, state)
        keys.add(key)
        bodies += key, _body(item.get("value"), depth, state)
    if len(keys) != len(items):
        state.has_duplicates = True
    return b"\x0d" + length_bytes(len(items)) + b"".join(bodies)


_CONTAINER_READERS: dict[str, Callable[[list[Any], int, _Input], bytes]] = {
    "vector": _read_vector,
    "set": _read_set,
    "table": _read_table,
}
