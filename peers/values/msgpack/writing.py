"""From binary bodies to msgpack, without making Python values in between.

A table leads from each tag to its writer, which gets the position behind the tag and returns msgpack and the position
behind the value. No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

import msgpack

from peers.values.extensions import Code
from peers.values.layout import (
    I64,
    V4_PREFIX,
    Budget,
    Tag,
    enter,
    need_distinct,
    read_bytes,
    read_network,
    read_port,
    read_real,
    refuse_tag,
    with_positions,
)

__all__ = ["extension", "to_msgpack"]

_REAL = Struct(">d")

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


def _need(body: bytes, position: int, size: int) -> bytes:
    if position + size > len(body):
        raise IndexError
    return body[position : position + size]


def _write_none(_body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return b"\xc0", position


def _write_boolean(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return (b"\xc3" if body[position] else b"\xc2"), position + 1


def _write_integer(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return _pack(I64.unpack_from(body, position)[0]), position + 8


def _write_real(body: bytes, position: int, _depth: int, _budget: Budget) -> tuple[bytes, int]:
    return b"\xcb" + _REAL.pack(read_real(body, position)), position + 8


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
