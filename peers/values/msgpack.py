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

`from_msgpack` also takes what other clients publish: maps are tables, `bin` is a string, float32 is a real, the
timestamp extension (-1) is a timestamp, integers beyond 63 bits are counts. Cost: about 0.5 µs per value.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any

import msgpack

from peers.values.binary import decode, encode
from peers.values.layout import (
    DEPTH_LIMIT,
    I64,
    U64,
    V4_BITS,
    V4_PREFIX,
    Budget,
    InvalidDataError,
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
from peers.values.values import Value


class Code(IntEnum):
    """The codes of the extensions."""

    COUNT = 1
    ADDRESS = 2
    SUBNET = 3
    PORT = 4
    TIMESTAMP = 5
    TIMESPAN = 6
    ENUM = 7
    SET = 8
    TABLE = 9
    RAW_STRING = 10


_MSGPACK_TIMESTAMP = -1
_SECOND_NS = 1_000_000_000
_I64_LIMIT = 1 << 63


def _address_extension(payload: bytes) -> bytes | None:
    if len(payload) == 4:
        return b"\x06" + V4_PREFIX + payload
    return b"\x06" + payload if len(payload) == 16 else None


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


def _port_extension(payload: bytes) -> bytes | None:
    return b"\x08" + payload if len(payload) == 3 and payload[2] <= 3 else None


def _number_extension(tag: int) -> Callable[[bytes], bytes | None]:
    first = bytes((tag,))
    return lambda payload: first + payload if len(payload) == 8 else None


def _string_extension(tag: int) -> Callable[[bytes], bytes | None]:
    first = bytes((tag,))
    return lambda payload: first + length_bytes(len(payload)) + payload


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

PAYLOADS: dict[int, Callable[[bytes], bytes | None]] = {
    Code.COUNT: _number_extension(Tag.COUNT),
    Code.ADDRESS: _address_extension,
    Code.SUBNET: _subnet_extension,
    Code.PORT: _port_extension,
    Code.TIMESTAMP: _number_extension(Tag.TIMESTAMP),
    Code.TIMESPAN: _number_extension(Tag.TIMESPAN),
    Code.ENUM: _string_extension(Tag.ENUM),
    Code.RAW_STRING: _string_extension(Tag.STRING),
    _MSGPACK_TIMESTAMP & 0xFF: _msgpack_timestamp,
}
"""From a code as an unsigned byte to what makes a body of the payload, None if it is none. Not here: sets and tables,
since they hold values."""


_SET, _TABLE = int(Code.SET), int(Code.TABLE)  # looking a member up takes 70 ns
_FIRST_COUNT = 1 << 63
"""The smallest number that is too large for Broker's integers, and so becomes a count."""

_Reader = Callable[[bytes, int, int, Budget], tuple[bytes, int]]


def from_msgpack(packed: bytes) -> bytes:
    """Return the binary form of a msgpack value.

    Args:
        packed: One value, of ours or of any other publisher.

    Raises:
        InvalidDataError: It is no msgpack, has an extension that is not in the table, a number beyond 64 bits or
            a timestamp beyond 64 bits of nanoseconds, equal keys, or is too deep or too large.
    """
    return with_positions(_from_msgpack, packed)


def _from_msgpack(packed: bytes) -> tuple[bytes, int]:
    return _READERS[packed[0]](packed, 0, 0, Budget())


def _need(body: bytes, position: int, size: int) -> bytes:
    if position + size > len(body):
        raise IndexError
    return body[position : position + size]


def _sized(size_bytes: int, make: Callable[[bytes, int, int], bytes]) -> _Reader:
    """Return a reader for what has its length in the next `size_bytes`: strings, `bin` and extensions."""

    def read(packed: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
        start = position + 1 + size_bytes
        size = int.from_bytes(_need(packed, position + 1, size_bytes), "big")
        _need_bytes(packed, start, size)
        return make(packed, start, start + size), start + size

    return read


def _need_bytes(packed: bytes, start: int, size: int) -> None:
    if size > len(packed) - start:
        raise InvalidDataError(f"{size} bytes are claimed at byte {start}, {len(packed) - start} are left")


def _string(packed: bytes, start: int, end: int) -> bytes:
    return b"\x05" + length_bytes(end - start) + packed[start:end]


def _read_fixstr(packed: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    start = position + 1
    size = packed[position] & 0x1F
    _need_bytes(packed, start, size)
    return _string(packed, start, start + size), start + size


def _number(layout: str, convert: Callable[[Any], bytes]) -> _Reader:
    """Return a reader for a number that is laid out as `struct` says."""
    fixed = Struct(layout)

    def read(packed: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
        return convert(fixed.unpack_from(packed, position + 1)[0]), position + 1 + fixed.size

    return read


def _integer(number: int) -> bytes:
    return b"\x03" + I64.pack(number) if number < _FIRST_COUNT else b"\x02" + U64.pack(number)


def _real(number: float) -> bytes:
    return b"\x04" + real_bytes(number)


def _read_fixint(packed: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    number = packed[position]
    return _integer(number if number < 0x80 else number - 0x100), position + 1


def _constant(body: bytes) -> _Reader:
    return lambda _packed, position, _depth, _budget: (body, position + 1)


def _items(packed: bytes, position: int, count: int, depth: int, budget: Budget) -> tuple[list[bytes], int]:
    """Read `count` values that stand in a container; the limits are those of `layout.enter`."""
    if depth >= DEPTH_LIMIT:
        raise InvalidDataError(f"more than {DEPTH_LIMIT} arrays and maps stand in each other at byte {position}")
    if count > len(packed) - position:
        raise InvalidDataError(
            f"{count} values are claimed at byte {position}, {len(packed) - position} bytes are left"
        )
    budget.take(count, position)
    items = []
    for _ in range(count):
        item, position = _READERS[packed[position]](packed, position, depth + 1, budget)
        items.append(item)
    return items, position


def _vector(packed: bytes, start: int, count: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    items, position = _items(packed, start, count, depth, budget)
    return b"\x0e" + length_bytes(count) + b"".join(items), position


def _map(packed: bytes, start: int, count: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    items, position = _items(packed, start, 2 * count, depth, budget)
    need_distinct(set(items[::2]), count, start)
    return b"\x0d" + length_bytes(count) + b"".join(items), position


_Container = Callable[[bytes, int, int, int, Budget], tuple[bytes, int]]


def _small(read_items: _Container) -> _Reader:
    """Return a reader for an array or map with its length in the first byte."""

    def read(packed: bytes, position: int, depth: int, budget: Budget) -> tuple[bytes, int]:
        return read_items(packed, position + 1, packed[position] & 0x0F, depth, budget)

    return read


def _large(size_bytes: int, read_items: _Container) -> _Reader:
    """Return a reader for an array or map with its length in the next `size_bytes`."""

    def read(packed: bytes, position: int, depth: int, budget: Budget) -> tuple[bytes, int]:
        count = int.from_bytes(_need(packed, position + 1, size_bytes), "big")
        return read_items(packed, position + 1 + size_bytes, count, depth, budget)

    return read


# Extensions: a reader gets the payload with its place, and returns the binary form.


def _fixed_extension(size: int) -> _Reader:
    def read(packed: bytes, position: int, depth: int, budget: Budget) -> tuple[bytes, int]:
        return _read_extension(packed, position + 1, size, depth, budget)

    return read


def _sized_extension(size_bytes: int) -> _Reader:
    def read(packed: bytes, position: int, depth: int, budget: Budget) -> tuple[bytes, int]:
        size = int.from_bytes(_need(packed, position + 1, size_bytes), "big")
        return _read_extension(packed, position + 1 + size_bytes, size, depth, budget)

    return read


def _read_extension(packed: bytes, position: int, size: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    code = packed[position]
    start = position + 1
    end = start + size
    _need_bytes(packed, start, size)
    if code in (_SET, _TABLE):
        body, behind = _read_members(packed, start, code, depth, budget)
        if behind != end:
            raise InvalidDataError(f"the extension {code} at byte {position} is not one array")
        return body, end
    convert = PAYLOADS.get(code)
    body_or_none = None if convert is None else convert(packed[start:end])
    if body_or_none is None:
        signed = code if code < 0x80 else code - 0x100
        raise InvalidDataError(f"the extension {signed} of {size} bytes at byte {position} has no Broker form")
    return body_or_none, end


def _read_members(packed: bytes, start: int, code: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    """Read the array that a set or table is."""
    count, position = _read_array_header(packed, start)
    if code == _TABLE:
        if count % 2:
            raise InvalidDataError(f"the last key of the table at byte {start} has no value")
        return _map(packed, position, count // 2, depth, budget)
    items, position = _items(packed, position, count, depth, budget)
    need_distinct(set(items), count, start)
    return b"\x0c" + length_bytes(count) + b"".join(items), position


def _read_array_header(packed: bytes, position: int) -> tuple[int, int]:
    first = packed[position]
    if first & 0xF0 == 0x90:
        return first & 0x0F, position + 1
    size_bytes = {0xDC: 2, 0xDD: 4}.get(first)
    if size_bytes is None:
        raise InvalidDataError(f"the set or table at byte {position} is no array")
    return int.from_bytes(_need(packed, position + 1, size_bytes), "big"), position + 1 + size_bytes


def _refuse_byte(packed: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    raise InvalidDataError(f"{packed[position]:#x} at byte {position} begins no msgpack value")


_READERS: list[_Reader] = [
    *[_read_fixint] * 0x80,
    *[_small(_map)] * 16,
    *[_small(_vector)] * 16,
    *[_read_fixstr] * 32,
    _constant(b"\x00"),
    _refuse_byte,
    _constant(b"\x01\x00"),
    _constant(b"\x01\x01"),
    *[_sized(size_bytes, _string) for size_bytes in (1, 2, 4)],  # bin
    *[_sized_extension(size_bytes) for size_bytes in (1, 2, 4)],
    _number(">f", _real),
    _number(">d", _real),
    *[_number(layout, _integer) for layout in (">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q")],
    *[_fixed_extension(size) for size in (1, 2, 4, 8, 16)],
    *[_sized(size_bytes, _string) for size_bytes in (1, 2, 4)],  # str
    _large(2, _vector),
    _large(4, _vector),
    _large(2, _map),
    _large(4, _map),
    *[_read_fixint] * 32,
]


_REAL_LAYOUT = Struct(">d")

_Writer = Callable[[bytes, int, int, Budget], tuple[bytes, int]]

_pack = msgpack.Packer().pack


def to_msgpack(body: bytes) -> bytes:
    """Return the msgpack form of a value.

    Args:
        body: The value in the binary format.

    Raises:
        InvalidDataError: The body is no value.
    """
    return with_positions(_to_msgpack, body)


def _to_msgpack(body: bytes) -> tuple[bytes, int]:
    return _WRITERS[body[0]](body, 1, 0, Budget())


def extension(code: int, payload: bytes) -> bytes:
    """Return an extension with its head."""
    size = len(payload)
    first = _FIXED_EXTENSIONS.get(size)
    if first is not None:
        return bytes((first, code)) + payload
    if size < 0x100:
        return bytes((0xC7, size, code)) + payload
    header = b"\xc8" + size.to_bytes(2, "big") if size < 0x1_0000 else b"\xc9" + size.to_bytes(4, "big")
    return header + bytes((code,)) + payload


_FIXED_EXTENSIONS = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
"""First bytes of extensions, by the length of their payloads."""


def _array_header(items: int) -> bytes:
    if items < 16:
        return bytes((0x90 | items,))
    return b"\xdc" + items.to_bytes(2, "big") if items < 0x1_0000 else b"\xdd" + items.to_bytes(4, "big")


def _write_none(_body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return b"\xc0", position


def _write_boolean(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return (b"\xc3" if body[position] else b"\xc2"), position + 1


def _write_integer(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return _pack(I64.unpack_from(body, position)[0]), position + 8


def _write_real(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return b"\xcb" + _REAL_LAYOUT.pack(read_real(body, position)), position + 8


def _write_string(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    raw, position = read_bytes(body, position)
    try:
        return _pack(raw.decode()), position
    except UnicodeDecodeError:
        return extension(Code.RAW_STRING, raw), position


def _write_address(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    raw = _need(body, position, 16)
    return extension(Code.ADDRESS, raw[12:] if raw.startswith(V4_PREFIX) else raw), position + 16


def _write_subnet(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    network, bits = read_network(body, position)
    return extension(Code.SUBNET, network + bytes((bits,))), position + 17


def _write_port(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    read_port(body, position)
    return extension(Code.PORT, body[position : position + 3]), position + 3


def _number_writer(code: int) -> _Writer:
    """Return a writer for a type whose payload is the 8 bytes that it is in Broker."""

    def write(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
        return extension(code, _need(body, position, 8)), position + 8

    return write


def _write_enum(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    raw, position = read_bytes(body, position)
    return extension(Code.ENUM, raw), position


def _write_items(body: bytes, position: int, count: int, depth: int, budget: Budget) -> tuple[list[bytes], int]:
    items = []
    for _ in range(count):
        packed, position = _WRITERS[body[position]](body, position + 1, depth, budget)
        items.append(packed)
    return items, position


def _write_vector(body: bytes, position: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    count, position = enter(body, position, 1, depth, budget)
    items, position = _write_items(body, position, count, depth + 1, budget)
    return _array_header(count) + b"".join(items), position


def _write_set(body: bytes, position: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    start = position
    count, position = enter(body, position, 1, depth, budget)
    items, position = _write_items(body, position, count, depth + 1, budget)
    need_distinct(set(items), count, start)
    return extension(Code.SET, _array_header(count) + b"".join(items)), position


def _write_table(body: bytes, position: int, depth: int, budget: Budget) -> tuple[bytes, int]:
    start = position
    count, position = enter(body, position, 2, depth, budget)
    items, position = _write_items(body, position, 2 * count, depth + 1, budget)
    need_distinct(set(items[::2]), count, start)
    return extension(Code.TABLE, _array_header(2 * count) + b"".join(items)), position


def _refuse(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    refuse_tag(body, position)


_WRITERS: list[_Writer] = [
    _write_none,
    _write_boolean,
    _number_writer(Code.COUNT),
    _write_integer,
    _write_real,
    _write_string,
    _write_address,
    _write_subnet,
    _write_port,
    _number_writer(Code.TIMESTAMP),
    _number_writer(Code.TIMESPAN),
    _write_enum,
    _write_set,
    _write_table,
    _write_vector,
    *[_refuse] * (256 - len(Tag)),
]


_CODES = frozenset(Code)


def ext_hook(code: int, data: bytes) -> Value | msgpack.ExtType:
    """Return the value of an extension: the `ext_hook` of a `msgpack.Unpacker`.

    Args:
        code: The code of the extension.
        data: Its payload.

    Returns:
        A value of a type in `values`; an `ExtType` if the code is not one of those in `extensions`.

    Raises:
        InvalidDataError: The payload is not what the code says.
    """
    if code not in _CODES:
        return msgpack.ExtType(code, data)
    return decode(from_msgpack(extension(code, data)))


def default(value: Any) -> Any:
    """Return what stands for a type of `values` in msgpack: the `default` of a `msgpack.Packer`.

    The Packer must be made with `strict_types=True`, else it takes a `Count` for an integer.

    Raises:
        InvalidDataError: `value` has no Broker form.
    """
    return msgpack.unpackb(to_msgpack(encode(value)), strict_map_key=False)
