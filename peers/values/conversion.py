"""Conversion between msgpack and JSON: which value becomes which, and how large and how deep a value may be for that.

| msgpack | JSON |
|---|---|
| nil, booleans, integers, floats, strings, arrays, maps | the same; NaN and the infinities become `null` |
| `bin` | base64 text |
| timestamp extension | RFC 3339 text, to the nanosecond where it has such |
| map keys that are not text | their text |
| extensions 1 to 10: Zeek's values | as in `peers.values.untyped` |
| other extensions, invalid msgpack, more than 500 arrays and maps in each other | none |

A conversion blocks the event loop. Arrays and maps cost, not bytes: a megabyte of nested empty ones takes 130 ms, a
megabyte of text 2 ms. So bytes and the bytes that can begin an array or map are bounded; the worst bodies that pass
take 30 to 48 ms (tests/values/test_conversion.py). The garbage collector, which would triple the time, is off.
Readers go as deep as the interpreter's stack lets them, which differs between versions of Python, so nesting has a
limit of its own.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, Final, TypeVar

import msgpack
import msgspec

from peers.values.msgpack import to_msgpack
from peers.values.untyped import untyped_extension

CONVERTED_LIMIT_BYTES = 1024 * 1024
"""Largest body that is given a JSON form, bytes. The slowest without many arrays and maps takes 20 ms (unique keys)."""

CONTAINERS_LIMIT = 256 * 1024
"""Most bytes of a body that may begin an array or map. Nested ones cost 125 ns each: 33 ms."""

PARTS_LIMIT = 128 * 1024
"""Most arrays, maps and commas in a JSON text from a client. The worst part, a key of its own, costs 350 ns: 46 ms."""

_COLLECTING_BYTES = 4096  # Below this, a body does not make enough objects for the collector to matter

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
"""What the conversion raises for what has no JSON form; msgspec's errors and UnicodeDecodeError are ValueErrors."""

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
        exact = has_nanoseconds(body)
        value, encode = (_decode_to_ns(body), _encode_to_ns) if exact else (_decode(body), _encode)
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


def _decode_to_ns(body: bytes) -> Any:
    return msgpack.unpackb(body, ext_hook=untyped_extension, strict_map_key=False, timestamp=0)


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
    """Tell whether `body` is exactly one msgpack value that every reader takes."""
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
    """Return whether more than `NESTING_LIMIT` arrays and maps stand in each other; the text may be no JSON at all.

    Cost: a count or two for most texts; otherwise 2 ns a byte, and 40 ns a string and a bracket.
    """
    if text.count(b"[") + text.count(b"{") <= NESTING_LIMIT or text.count(b'"') > _QUOTES_LIMIT:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of quotation marks bounds strings
    outside = b"".join(text.translate(None, _OTHERS).split(b'"')[::2])
    return max(accumulate(memoryview(outside.translate(_STEPS)).cast("b")), default=0) > NESTING_LIMIT


def is_packed_too_deep(packed: bytes) -> bool:
    """Return whether more than `NESTING_LIMIT` arrays and maps of the first value stand in each other.

    An empty innermost one does not count; the bytes may be no msgpack at all. Cost: 8 ns a byte where it is not clear.
    """
    if len(packed) <= NESTING_LIMIT or len(packed) - len(packed.translate(None, _CONTAINER_MARKS)) <= NESTING_LIMIT:
        return False
    unpacker = msgpack.Unpacker(max_buffer_size=0)  # without a bound: all is here already
    unpacker.feed(_OUTER_LEVELS + packed)
    try:
        unpacker.skip()
    except msgpack.StackError:
        return True
    except (msgpack.UnpackException, ValueError):  # no msgpack: for its reader to say
        return False
    return False


def _outer_levels() -> bytes:
    """Return the heads of arrays around a value that leave it `NESTING_LIMIT` levels of the unpacker's own stack.

    The compiled unpacker's stack has 1,024 levels. Without one, how deep a value may be is left to its reader.
    """
    if "_cmsgpack" not in msgpack.Unpacker.__module__:
        return b""
    levels = NESTING_LIMIT
    while _is_skipped(b"\x91" * (levels + 1) + b"\xc0"):
        levels += 1
    return b"\x91" * (levels - NESTING_LIMIT)


def _is_skipped(packed: bytes) -> bool:
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(packed)
    try:
        unpacker.skip()
    except msgpack.StackError:
        return False
    return True


_OUTER_LEVELS: Final = _outer_levels()
