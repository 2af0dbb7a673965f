"""Broker values in msgpack, to and from Broker's binary format; nothing is lost either way.

None, booleans, integers, reals, vectors and strings of UTF-8 are plain msgpack. All other types are extensions:

| code | type | payload, integers big-endian |
|---|---|---|
| 1 | count | u64 |
| 2, 3 | address, subnet | 4 or 16 bytes; of a subnet then u8 prefix length |
| 4 | port | u16 number, u8 protocol: 0 unknown, 1 tcp, 2 udp, 3 icmp |
| 5, 6 | timestamp, timespan | i64 nanoseconds (since 1970) |
| 7, 10 | enum value, string that is not UTF-8 | the name; the bytes |
| 8, 9 | set, table | a msgpack array of the members; of key, value, key, value, ... |

`from_msgpack` also takes values of other clients: maps are tables, `bin` is a string, float32 is a real, the
timestamp extension (-1) is a timestamp, integers beyond 63 bits are counts. Cost: about 0.5 µs per value.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import Any

import msgpack

from peers.values.binary import (
    DEPTH_LIMIT,
    I64,
    U64,
    V4_BITS,
    V4_PREFIX,
    Budget,
    InvalidDataError,
    Makers,
    decode,
    encode,
    length_bytes,
    need_distinct,
    real_bytes,
    real_of,
    signed,
    string_body,
    walk,
    with_positions,
)
from peers.values.values import Value

Code = IntEnum("Code", "COUNT ADDRESS SUBNET PORT TIMESTAMP TIMESPAN ENUM SET TABLE RAW_STRING")
"""The codes of the extensions, from 1 on."""

_MSGPACK_TIMESTAMP = -1
_SECOND_NS = 1_000_000_000
_I64_LIMIT = 1 << 63


def _subnet_extension(payload: bytes) -> bytes | None:
    if len(payload) == 5 and payload[4] <= 32:
        raw = V4_PREFIX + payload[:4] + bytes((payload[4] + V4_BITS,))
    elif len(payload) == 17 and payload[16] <= 128:
        raw = payload
    else:
        return None
    hosts = 128 - raw[16]
    masked = int.from_bytes(raw[:16], "big") >> hosts << hosts
    return b"\x07" + masked.to_bytes(16, "big") + raw[16:]


def _msgpack_timestamp(payload: bytes) -> bytes | None:
    """Read the timestamp extension of msgpack, which has three lengths."""
    if len(payload) == 12:
        nanoseconds, seconds = _LONG_TIMESTAMP.unpack(payload)
    elif len(payload) == 8:
        number = int.from_bytes(payload, "big")
        nanoseconds, seconds = number >> 34, number & (1 << 34) - 1
    elif len(payload) == 4:
        nanoseconds, seconds = 0, int.from_bytes(payload, "big")
    else:
        return None
    ns = seconds * _SECOND_NS + nanoseconds
    is_valid = nanoseconds < _SECOND_NS and -_I64_LIMIT <= ns < _I64_LIMIT
    return b"\x09" + I64.pack(ns) if is_valid else None


_LONG_TIMESTAMP = Struct(">Iq")


def _sized(beginnings: dict[int, bytes], payload: bytes) -> bytes | None:
    """Return a body that ends with the payload; its beginning goes by the payload's size."""
    beginning = beginnings.get(len(payload))
    return None if beginning is None else beginning + payload


# Functions that make a body of a payload, or None, by code as an unsigned byte. Sets and tables are read otherwise.
_PAYLOADS: dict[int, Callable[[bytes], bytes | None]] = {
    Code.COUNT: partial(_sized, {8: b"\x02"}),
    Code.ADDRESS: partial(_sized, {4: b"\x06" + V4_PREFIX, 16: b"\x06"}),
    Code.SUBNET: _subnet_extension,
    Code.PORT: lambda payload: b"\x08" + payload if len(payload) == 3 and payload[2] <= 3 else None,
    Code.TIMESTAMP: partial(_sized, {8: b"\x09"}),
    Code.TIMESPAN: partial(_sized, {8: b"\x0a"}),
    Code.ENUM: lambda payload: string_body(payload, b"\x0b"),
    Code.RAW_STRING: string_body,
    _MSGPACK_TIMESTAMP & 0xFF: _msgpack_timestamp,
}


def from_msgpack(packed: bytes) -> bytes:
    """Return the binary form of one msgpack value.

    Raises:
        InvalidDataError: It is no msgpack, has an extension that is not in the table, a number beyond 64 bits or
            a timestamp beyond 64 bits of nanoseconds, equal keys, or is too deep or too large.
    """
    return with_positions(lambda data: _read(data, 0, 0, Budget()), packed)


# Gets the bytes, the position behind the head of a value, the number in the head (the value of an integer, or a size),
# depth and budget; returns the body and the position behind the value.
_Reader = Callable[[bytes, int, int, int, Budget], tuple[bytes, int]]


def _read(packed: bytes, position: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    read, start, number = _head(packed, position)
    return read(packed, start, number, depth, budget)


def _head(packed: bytes, position: int) -> tuple[_Reader, int, int]:
    read, width, number = _HEADS[packed[position]]
    start = position + 1 + width
    if width:
        if start > len(packed):
            raise IndexError
        number = int.from_bytes(packed[position + 1 : start])
    return read, start, number


def _take(packed: bytes, start: int, size: int) -> bytes:
    if size > len(packed) - start:
        raise InvalidDataError(f"{size} bytes are claimed at byte {start}, {len(packed) - start} are left")
    return packed[start : start + size]


def _string(packed: bytes, start: int, size: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return string_body(_take(packed, start, size)), start + size


def _constant(_packed: bytes, start: int, number: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return (b"\x00", b"", b"\x01\x00", b"\x01\x01")[number], start


def _integer(_packed: bytes, start: int, number: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return (b"\x03" + I64.pack(number) if number < _I64_LIMIT else b"\x02" + U64.pack(number)), start


def _signed(bits: int) -> _Reader:
    def read(packed: bytes, start: int, number: int, depth: int, budget: Budget) -> tuple[bytes, int]:
        return _integer(packed, start, number - (number >> bits - 1 << bits), depth, budget)

    return read


def _real(layout: Struct) -> _Reader:
    def read(packed: bytes, start: int, _number: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
        return b"\x04" + real_bytes(layout.unpack_from(packed, start - layout.size)[0]), start

    return read


def _items(packed: bytes, position: int, count: int, depth: int, budget: Budget) -> tuple[list[bytes], int]:
    """Read the values of a container; the limits are those of `layout.enter`."""
    if depth >= DEPTH_LIMIT:
        raise InvalidDataError(f"more than {DEPTH_LIMIT} arrays and maps are nested at byte {position}")
    if count > len(packed) - position:
        raise InvalidDataError(
            f"{count} values are claimed at byte {position}, {len(packed) - position} bytes are left"
        )
    budget.take(count, position)
    items = []
    for _ in range(count):
        item, position = _read(packed, position, depth + 1, budget)
        items.append(item)
    return items, position


def _vector(packed: bytes, start: int, count: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    items, position = _items(packed, start, count, depth, budget)
    return b"\x0e" + length_bytes(count) + b"".join(items), position


def _map(packed: bytes, start: int, count: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    items, position = _items(packed, start, 2 * count, depth, budget)
    need_distinct(set(items[::2]), count, start)
    return b"\x0d" + length_bytes(count) + b"".join(items), position


def _extension(packed: bytes, position: int, size: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    code = packed[position]
    start = position + 1
    payload = _take(packed, start, size)
    if code in (_SET, _TABLE):
        found, end = _members(packed, start, code, depth, budget)
        if end != start + size:
            raise InvalidDataError(f"the extension {code} at byte {position} is not one array")
        return found, end
    convert = _PAYLOADS.get(code)
    body = None if convert is None else convert(payload)
    if body is None:
        shown = code if code < 0x80 else code - 0x100
        raise InvalidDataError(f"the extension {shown} of {size} bytes at byte {position} has no Broker form")
    return body, start + size


def _members(packed: bytes, start: int, code: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    """Read the array that a set or table is."""
    read, position, count = _head(packed, start)
    if read is not _vector:
        raise InvalidDataError(f"the set or table at byte {start} is no array")
    if code == _TABLE:
        if count % 2:
            raise InvalidDataError(f"the last key of the table at byte {start} has no value")
        return _map(packed, position, count // 2, depth, budget)
    items, position = _items(packed, position, count, depth, budget)
    need_distinct(set(items), count, start)
    return b"\x0c" + length_bytes(count) + b"".join(items), position


def _refuse(packed: bytes, start: int, _number: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    raise InvalidDataError(f"{packed[start - 1]:#x} at byte {start - 1} begins no msgpack value")


_SET, _TABLE = int(Code.SET), int(Code.TABLE)  # looking a member up takes 70 ns

_HEADS: list[tuple[_Reader, int, int]] = [
    *[(_integer, 0, number) for number in range(0x80)],
    *[(_map, 0, size) for size in range(16)],
    *[(_vector, 0, size) for size in range(16)],
    *[(_string, 0, size) for size in range(32)],
    (_constant, 0, 0),
    (_refuse, 0, 0),
    (_constant, 0, 2),
    (_constant, 0, 3),
    *[(_string, width, 0) for width in (1, 2, 4)],  # bin
    *[(_extension, width, 0) for width in (1, 2, 4)],
    (_real(Struct(">f")), 4, 0),
    (_real(Struct(">d")), 8, 0),
    *[(_integer, width, 0) for width in (1, 2, 4, 8)],
    *[(_signed(8 * width), width, 0) for width in (1, 2, 4, 8)],
    *[(_extension, 0, size) for size in (1, 2, 4, 8, 16)],
    *[(_string, width, 0) for width in (1, 2, 4)],  # str
    *[(_vector, width, 0) for width in (2, 4)],
    *[(_map, width, 0) for width in (2, 4)],
    *[(_integer, 0, number) for number in range(-32, 0)],
]  # For each first byte: the reader, how many bytes the number of the head has behind it, or that number


def to_msgpack(body: bytes) -> bytes:
    """Return the msgpack form of a value; raises `InvalidDataError` for a body that is none."""
    packed: bytes = walk(body, _PACKERS)
    return packed


def extension(code: int, payload: bytes) -> bytes:
    """Return an extension with its head."""
    size = len(payload)
    first = _FIXED_EXTENSIONS.get(size)
    if first is not None:
        return bytes((first, code)) + payload
    if size < 0x100:
        return bytes((0xC7, size, code)) + payload
    header = b"\xc8" + size.to_bytes(2) if size < 0x1_0000 else b"\xc9" + size.to_bytes(4)
    return header + bytes((code,)) + payload


_FIXED_EXTENSIONS = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}


def array_header(items: int) -> bytes:
    """Return the head of a msgpack array of fewer than 2^32 values."""
    if items < 16:
        return bytes((0x90 | items,))
    return b"\xdc" + items.to_bytes(2) if items < 0x1_0000 else b"\xdd" + items.to_bytes(4)


def string_or_raw(raw: bytes) -> bytes:
    """Return a string of Zeek: text, or an extension where it is not UTF-8."""
    try:
        packed: bytes = _pack(raw.decode())
    except UnicodeDecodeError:
        return extension(Code.RAW_STRING, raw)
    return packed


def _pack_set(items: list[bytes], start: int) -> bytes:
    need_distinct(set(items), len(items), start)
    return extension(Code.SET, array_header(len(items)) + b"".join(items))


def _pack_table(items: list[bytes], start: int) -> bytes:
    need_distinct(set(items[::2]), len(items) // 2, start)
    return extension(Code.TABLE, array_header(len(items)) + b"".join(items))


_pack = msgpack.Packer().pack
_PORT = Struct(">HB")
_REAL = Struct(">d")

_PACKERS: Makers = (
    lambda _: b"\xc0",
    lambda raw: b"\xc2" if raw == b"\0" else b"\xc3",
    partial(extension, Code.COUNT),
    lambda raw: _pack(signed(raw)),
    lambda raw: b"\xcb" + _REAL.pack(real_of(raw)),
    string_or_raw,
    lambda raw: extension(Code.ADDRESS, raw[12:] if raw.startswith(V4_PREFIX) else raw),
    lambda subnet: extension(Code.SUBNET, subnet[0] + bytes((subnet[1],))),
    lambda port: extension(Code.PORT, _PORT.pack(*port)),
    partial(extension, Code.TIMESTAMP),
    partial(extension, Code.TIMESPAN),
    partial(extension, Code.ENUM),
    _pack_set,
    _pack_table,
    lambda items, _: array_header(len(items)) + b"".join(items),
)


_CODES = frozenset(Code)


def ext_hook(code: int, data: bytes) -> Value | msgpack.ExtType:
    """Return the value of an extension, or an `ExtType` for other codes: the `ext_hook` of a `msgpack.Unpacker`.

    Raises:
        InvalidDataError: The payload does not fit the code.
    """
    if code not in _CODES:
        return msgpack.ExtType(code, data)
    return decode(from_msgpack(extension(code, data)))


def default(value: Any) -> Any:
    """Return the msgpack equivalent of a type of `values`: the `default` of a Packer with `strict_types=True`.

    Raises:
        InvalidDataError: `value` has no Broker form.
    """
    return msgpack.unpackb(to_msgpack(encode(value)), strict_map_key=False)
