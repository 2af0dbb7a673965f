"""Conversion between msgpack and JSON, and the plain form of Zeek's values for readers that know nothing of Zeek.

| msgpack | JSON |
|---|---|
| nil, booleans, integers, floats, strings, arrays, maps | the same; NaN and the infinities become `null` |
| `bin` | base64 text |
| timestamp extension | RFC 3339 text, to the nanosecond where it has such |
| map keys that are not text | their text |
| extensions 1 to 10: Zeek's values | see `untyped` |
| other extensions, invalid msgpack, more than 500 arrays and maps in each other | none |

A conversion blocks the event loop, and the time depends on arrays and maps: a megabyte of nested empty ones takes 130
ms, a megabyte of text 2 ms. So bytes, and bytes that can begin an array or map, are bounded: the worst bodies that pass
take 30 to 48 ms (tests/values/test_conversion.py). The garbage collector, which would triple the time, is off.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import accumulate
from typing import Any, Final, TypeVar

import msgpack
import msgspec

from peers.values.msgpack import ext_hook, to_msgpack
from peers.values.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value, to_text

CONVERTED_LIMIT_BYTES = 1024 * 1024
"""Largest body that is given a JSON form, bytes. The slowest without many arrays and maps takes 20 ms (unique keys)."""

CONTAINERS_LIMIT = 256 * 1024
"""Most bytes of a body that may begin an array or map. Nested ones cost 125 ns each: 33 ms."""

PARTS_LIMIT = 128 * 1024
"""Most arrays, maps and commas in a JSON text from a client. The worst part, a key of its own, costs 350 ns: 46 ms."""

_COLLECTING_BYTES = 4096  # Below this, a body has too few objects for the collector to matter
_TEXT_KEYS_LIMIT_BYTES = 16 * 1024
"""Largest body whose keys are rewritten one by one, in Python: 1 µs an entry, 16 ms for the worst."""

BROKER_LIMIT_BYTES = 128 * 1024
"""Largest value of a Zeek that is given another form: 0.5 µs a value in it, Python, so 30 ms for the worst."""

_ANY_CONTAINER_MARKS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
"""First bytes of fixmap, fixarray, array 16 and 32, map 16 and 32."""

NESTING_LIMIT: Final = 500
"""Most levels. msgpack-python, which clients write values with, goes to 511, and the oldest Python that this runs on
to some 900."""

_QUOTES_LIMIT: Final = 1_000_000
"""A text with more quotation marks is left to its reader, which has a limit too: looking through it takes too long."""

_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # One up, and, read as a signed byte, one down
_OTHERS = bytes(set(range(256)) - set(b'[{]}"'))
_CONTAINER_MARKS = bytes([*range(0x81, 0x90), *range(0x91, 0xA0), *range(0xDC, 0xE0)])
"""First bytes of msgpack's arrays and maps, those left out that are always empty."""


_SECOND_NS = 1_000_000_000
_FRACTION_DIGITS = 9


def untyped(value: Value) -> Any:
    r"""Return a Broker value as a plain Python value.

    | Broker | plain |
    |---|---|
    | none, boolean, count, integer, real, string | the same; bytes that are not UTF-8 as `\xff` |
    | address, subnet, port, enum value | text: `192.0.2.7`, `10.0.0.0/8`, `53/udp`, `Notice::LOG` |
    | timestamp | text, RFC 3339 in UTC: `2024-05-01T12:30:00.25Z` |
    | timespan | seconds, a real |
    | vector, set | list |
    | table | dict; keys that are no strings are written in Broker's text form |
    """
    make = _UNTYPED.get(type(value))
    return value if make is None else make(value)


def untyped_extension(code: int, data: bytes | memoryview) -> Any:
    """Return the plain Python value of a msgpack extension, or raise `ValueError`: the `ext_hook` of a decoder."""
    value = ext_hook(code, bytes(data))
    if isinstance(value, msgpack.ExtType):
        raise ValueError(f"msgpack extension {code} is not known")  # noqa: TRY004 -- as decoders expect
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


_UNTYPED: dict[type, Callable[[Any], Any]] = {
    Count: int,
    str: _text,
    **dict.fromkeys((IPv4Address, IPv6Address, IPv4Network, IPv6Network, Port), str),
    Timestamp: _moment,
    Timespan: lambda span: span.ns / _SECOND_NS,
    Enum: lambda enum: _text(enum.name),
    **dict.fromkeys((tuple, list, Set), lambda values: [untyped(value) for value in values]),
    Table: lambda table: {_text(to_text(key)): untyped(value) for key, value in table.items()},
}


_decode = msgspec.msgpack.Decoder(ext_hook=untyped_extension).decode
_check = msgspec.msgpack.Decoder().decode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US_NS = 1_000
_find_timestamps = re.compile(rb"(?s)(?=\xd7\xff(.{4})|\xc7\x0c\xff(.{4}))").findall
"""Of timestamps with a fraction: nanoseconds in 30 of 32 bits, or in all of them."""
_encode = msgspec.json.Encoder().encode


def _plain(time: Any) -> str:
    """Return the text of a `msgpack.Timestamp`."""
    if time is None or isinstance(time, bool | tuple):
        raise TypeError("such keys")
    moment = _EPOCH + timedelta(seconds=time.seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time.nanoseconds:09}Z"


_encode_to_ns = msgspec.json.Encoder(enc_hook=_plain).encode
_NO_FORM = (ValueError, TypeError, OverflowError, RecursionError)
"""Errors of values without a JSON form; msgspec's errors and UnicodeDecodeError are ValueErrors."""

T = TypeVar("T")
A = TypeVar("A")


def json_of(body: bytes) -> bytes | None:
    """Return the JSON text of one msgpack value, None if it has none or is too large for one."""
    if len(body) > CONTAINERS_LIMIT and (
        len(body) > CONVERTED_LIMIT_BYTES or possible_containers(body) > CONTAINERS_LIMIT
    ):
        return None
    if is_packed_too_deep(body):
        return None
    return without_collecting(_json_of, body) if len(body) > _COLLECTING_BYTES else _json_of(body)


def json_of_broker(body: bytes) -> bytes | None:
    """Return the JSON text of one value as Broker spells it, None if it has none or is too large for one."""
    packed = msgpack_of_broker(body)
    return None if packed is None else json_of(packed)


def msgpack_of_broker(body: bytes) -> bytes | None:
    """Return the msgpack of one value as Broker spells it, None if it is no value or too large."""
    if len(body) > BROKER_LIMIT_BYTES:
        return None
    try:
        return to_msgpack(body)
    except _NO_FORM:
        return None


def _json_of(body: bytes) -> bytes | None:
    try:
        if has_nanoseconds(body):
            value = msgpack.unpackb(body, ext_hook=untyped_extension, strict_map_key=False, timestamp=0)
            encode = _encode_to_ns
        else:
            value, encode = _decode(body), _encode
        try:
            return encode(value)
        except TypeError as error:
            if "keys" not in str(error) or len(body) > _TEXT_KEYS_LIMIT_BYTES:
                return None
            return encode(_with_text_keys(value))
    except _NO_FORM:
        return None


def has_nanoseconds(body: bytes) -> bool:
    """Return whether there may be a timestamp that msgspec would round down to microseconds."""
    if b"\xd7\xff" not in body and b"\xc7\x0c\xff" not in body:
        return False
    return any(
        (int.from_bytes(short) >> 2 if short else int.from_bytes(long)) % _US_NS
        for short, long in _find_timestamps(body)
    )


def _with_text_keys(value: Any) -> Any:
    """Rewrite the keys that the JSON encoder does not take: nil, booleans and arrays.

    Step by step and not by calling itself: how often a function may do that is another matter on each Python.
    """
    whole = [value]
    waiting: list[Any] = [whole]
    while waiting:
        container = waiting.pop()
        for place in range(len(container)) if type(container) is list else list(container):
            item = container[place]
            if type(item) is dict:
                item = container[place] = {_text_key(key): inner for key, inner in item.items()}
            if type(item) is dict or type(item) is list:
                waiting.append(item)
    return whole[0]


def _text_key(key: Any) -> Any:
    return _encode(key).decode() if key is None or isinstance(key, bool | tuple) else key


def is_value(body: bytes) -> bool:
    """Return whether `body` is exactly one msgpack value that every reader takes."""
    try:
        _check(body)
    except _NO_FORM:
        return False
    return True


def possible_containers(packed: bytes) -> int:
    """Return how many bytes of `packed` could begin an array or map, which are as many as it may hold at most."""
    return len(packed) - len(packed.translate(None, _ANY_CONTAINER_MARKS))


def possible_parts(text: bytes) -> int:
    """Return how many arrays, maps and items a JSON text may hold at most; brackets within strings are counted, too."""
    return text.count(b"[") + text.count(b"{") + text.count(b",")


def without_collecting(act: Callable[[A], T], argument: A) -> T:
    """Return `act(argument)` and put off the cyclic garbage collector meanwhile."""
    if not gc.isenabled():
        return act(argument)
    gc.disable()
    try:
        return act(argument)
    finally:
        gc.enable()


def is_nested_too_deep(text: bytes) -> bool:
    """Return whether more than `NESTING_LIMIT` arrays and maps are nested; the text may be no JSON at all.

    Cost: a count or two for most texts; otherwise 2 ns a byte, and 40 ns a string and a bracket.
    """
    if text.count(b"[") + text.count(b"{") <= NESTING_LIMIT or text.count(b'"') > _QUOTES_LIMIT:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # the remaining quotation marks bound strings
    outside = b"".join(text.translate(None, _OTHERS).split(b'"')[::2])
    return max(accumulate(memoryview(outside.translate(_STEPS)).cast("b")), default=0) > NESTING_LIMIT


def is_packed_too_deep(packed: bytes) -> bool:
    """Return whether more than `NESTING_LIMIT` arrays and maps of the first value are nested.

    An empty innermost one does not count; the bytes may be no msgpack at all. Cost: 8 ns a byte where it is not clear.
    """
    if len(packed) <= NESTING_LIMIT or len(packed) - len(packed.translate(None, _CONTAINER_MARKS)) <= NESTING_LIMIT:
        return False
    return _overflows(_OUTER_LEVELS + packed)


def _overflows(packed: bytes) -> bool:
    """Return whether a value nests deeper than the stack of msgpack's unpacker."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)  # without a bound: all is here already
    unpacker.feed(packed)
    try:
        unpacker.skip()
    except msgpack.StackError:
        return True
    except (msgpack.UnpackException, ValueError):  # no msgpack: for its reader to report
        return False
    return False


def _outer_levels() -> bytes:
    """Return the heads of arrays around a value that leave it `NESTING_LIMIT` levels of the unpacker's own stack.

    The compiled unpacker's stack has 1,024 levels. Without one, how deep a value may be is left to its reader.
    """
    if "_cmsgpack" not in msgpack.Unpacker.__module__:
        return b""
    levels = NESTING_LIMIT
    while not _overflows(b"\x91" * (levels + 1) + b"\xc0"):
        levels += 1
    return b"\x91" * (levels - NESTING_LIMIT)


_OUTER_LEVELS: Final = _outer_levels()
