"""From msgpack to binary bodies, without making Python values in between.

A table leads from each first byte to its reader, which gets the position of that byte and returns the binary form and
the position behind the value. What msgpack cannot tell apart becomes what Broker has: `bin` and `str` are both strings.
No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from peers.values.errors import InvalidDataError
from peers.values.extensions import PAYLOADS, Code
from peers.values.layout import (
    DEPTH_LIMIT,
    I64,
    U64,
    Budget,
    length_bytes,
    need_distinct,
    real_bytes,
    with_positions,
)

__all__ = ["from_msgpack"]

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
