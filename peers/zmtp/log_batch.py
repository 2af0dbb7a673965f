"""Zeek's log batches: records of one stream as a node gives them to a logger, and the msgpack maps that they become.

```
4 strings: stream, writer, filter, path          string: u32 length, bytes      all integers big-endian
u32 fields, of each: u8 has-second-name, string name [string], u32 type, u32 element type, u8 optional
u32 records, of each: a value for each field
value: u32 type, u32 subtype, u8 present, then what the type has
```

A record becomes a map of its fields that are set: name → value, typed as everywhere in the hub (`peers.values`): an
address is an address, a count a count. Times and intervals stay what they are in Zeek, and in its JSON: seconds, as
doubles. Sets become sets, vectors arrays, in which what is not set is nil. So whoever knows nothing of Zeek's types
reads what Zeek's own JSON writer writes.

Counts are compared with the bytes that are left before anything is allocated. No record is longer than the batch.

Owner of a `LogBatch`: one session. Cost: 0.5 µs a value. Source: section 8 of the notes on
Zeek's backend, and recordings.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812  an exception, named as one
from typing import Final, NamedTuple

import msgpack

from hub.errors import HubError
from peers.values.extensions import Code

__all__ = ["FIELDS_LIMIT", "Field", "LogBatch", "LogBatchError"]

FIELDS_LIMIT = 1_000
"""Most fields of a stream. Zeek's widest has about 60."""

_U32 = Struct(">I")
_U64 = Struct(">Q")
_I64 = Struct(">q")
_F64 = Struct(">d")
_HEAD = Struct(">IIB")
_PORT = Struct(">QI")
_FIELD = Struct(">IIB")

_SET, _VECTOR = 14, 19
_DEPTH_LIMIT = 8
_V4, _V6 = 4, 6
_V4_MAPPED_BITS = 96
_PROTOCOLS = 4
_PORT_LIMIT = 1 << 16
_FIXED: Final = {3: b"\xd7\x01", 4: b"\xcb", 5: b"\xcb", 6: b"\xcb"}
"""Types whose 8 bytes are the same in msgpack, behind this."""

_PRESENT: Final = {kind: _HEAD.pack(kind, 0, 1) for kind in _FIXED}
"""What stands in front of them, as Zeek writes it: no subtype, and set."""

_pack = msgpack.Packer(use_bin_type=True).pack


class LogBatchError(HubError):
    """Something that is no log batch."""


class Field(NamedTuple):
    """A column of a stream."""

    name: str
    type: int
    """Zeek's number of it: 1 bool, 2 int, 3 count, 4 double, 5 time, 6 interval, 7 string, 9 enum, 10 port, 11 addr, 12
    subnet, 14 set, 17 func, 18 file, 19 vector."""
    element: int
    """That of the elements of a set or a vector; else 0."""
    is_optional: bool


class LogBatch:
    """Records of one stream; what stands in front of them is read at once, they are taken a few at a time.

    Args:
        data: The batch.

    Raises:
        LogBatchError: It cannot be read; the text says where.
    """

    __slots__ = ("_columns", "_reader", "fields", "filter", "left", "path", "stream", "writer")

    stream: str
    """Such as `Conn::LOG`."""
    writer: str
    filter: str
    path: str
    """Such as `conn`."""
    fields: tuple[Field, ...]
    left: int
    """How many records were not taken yet."""

    def __init__(self, data: bytes) -> None:
        self._reader = reader = _Reader(data)
        try:
            self.stream, self.writer, self.filter, self.path = (reader.text() for _ in range(4))
            self.fields = reader.fields()
            self.left = reader.count(_U32, max(1, len(self.fields) * _HEAD.size))
        except (StructError, ValueError) as error:
            raise self._unreadable(error) from None
        # Of each field its name, packed, and its type.
        self._columns = [(_pack(field.name), field.type) for field in self.fields]

    def take(self, records: int) -> list[bytes]:
        """Return the next so many records, or those that are left, each a msgpack map.

        Raises:
            LogBatchError: One of them cannot be read, so that none that is left can be taken.
        """
        taking = min(records, self.left)
        try:
            found = [self._reader.record(self._columns) for _ in range(taking)]
            if taking == self.left:
                self._reader.end()
        except (StructError, ValueError) as error:
            raise self._unreadable(error) from None
        self.left -= taking
        return found

    def _unreadable(self, error: Exception) -> LogBatchError:
        position, size = self._reader.position, len(self._reader.data)
        return LogBatchError(f"a log batch that cannot be read at byte {position} of {size}: {error}")


class _Reader:
    """Reads forward through a batch."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def number(self, layout: Struct) -> int:
        """Return one number."""
        found: int = layout.unpack_from(self.data, self.position)[0]
        self.position += layout.size
        return found

    def raw(self) -> bytes:
        """Return the bytes of a string."""
        size = self.number(_U32)
        return self.take(size)

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        end = self.position + size
        if end > len(self.data):
            raise ValueError(f"{size} bytes are said to follow, and {len(self.data) - self.position} do")
        found = self.data[self.position : end]
        self.position = end
        return found

    def end(self) -> None:
        """Nothing follows."""
        behind = len(self.data) - self.position
        if behind:
            raise ValueError(f"{behind} bytes stand behind the last record")

    def text(self) -> str:
        """Return a string that is a name."""
        return self.raw().decode()

    def count(self, layout: Struct, least_bytes: int) -> int:
        """Return how many things follow that have so many bytes at least."""
        found = self.number(layout)
        left = len(self.data) - self.position
        if found < 0 or found * least_bytes > left:
            raise ValueError(f"{found} elements are said to follow, in {left} bytes")
        return found

    def fields(self) -> tuple[Field, ...]:
        """Read the columns."""
        fields = []
        count = self.count(_U32, 1 + _U32.size + _FIELD.size)
        if count > FIELDS_LIMIT:
            raise ValueError(f"{count} fields, the limit is {FIELDS_LIMIT}")
        for _ in range(count):
            has_second = self.take(1) != b"\0"
            name = self.text()
            if has_second:
                self.raw()
            kind, element, optional = _FIELD.unpack_from(self.data, self.position)
            self.position += _FIELD.size
            fields.append(Field(name, kind, element, bool(optional)))
        return tuple(fields)

    def record(self, columns: list[tuple[bytes, int]]) -> bytes:
        """Read a record, of whose fields the names, packed, and the types are given."""
        parts = [b""]
        data, starts_with, add = self.data, self.data.startswith, parts.append
        for name, kind in columns:
            body = self.position + _HEAD.size
            if kind in _FIXED and starts_with(_PRESENT[kind], self.position) and body + _U64.size <= len(data):
                self.position = body + _U64.size
                add(name)
                add(_FIXED[kind] + data[body : self.position])
                continue
            value = self._value(kind, 0)
            if value is not None:
                add(name)
                add(value)
        parts[0] = _map_header(len(parts) // 2)
        return b"".join(parts)

    def _value(self, expected: int, depth: int) -> bytes | None:
        """Read a value as msgpack; None if it is not set.

        Args:
            expected: The type that it has by its field; -1 if any will do.
            depth: How many containers it is in.
        """
        kind, _, present = _HEAD.unpack_from(self.data, self.position)
        if expected not in (-1, kind):
            raise ValueError(f"a value of type {kind} in a field of type {expected}")
        self.position += _HEAD.size
        if not present:
            return None
        if kind in (_SET, _VECTOR):
            return self._elements(kind, depth)
        read = _SCALARS.get(kind)
        if read is None:
            raise ValueError(f"a value of type {kind}, which no log has")
        return read(self)

    def _elements(self, kind: int, depth: int) -> bytes:
        if depth == _DEPTH_LIMIT:
            raise ValueError(f"more than {_DEPTH_LIMIT} sets and vectors in each other")
        values = [self._value(-1, depth + 1) for _ in range(self.count(_I64, _HEAD.size))]
        packed = _array_header(len(values)) + b"".join([b"\xc0" if value is None else value for value in values])
        return packed if kind == _VECTOR else _extension(Code.SET, packed)


def _bool(reader: _Reader) -> bytes:
    return b"\xc3" if reader.number(_I64) else b"\xc2"


def _int(reader: _Reader) -> bytes:
    return _packed(reader.number(_I64))


def _count(reader: _Reader) -> bytes:
    return b"\xd7\x01" + reader.take(_U64.size)


def _double(reader: _Reader) -> bytes:
    return b"\xcb" + reader.take(_F64.size)


def _string(reader: _Reader) -> bytes:
    raw = reader.raw()
    try:
        return _packed(raw.decode())
    except UnicodeDecodeError:
        return _extension(Code.RAW_STRING, raw)


def _enum(reader: _Reader) -> bytes:
    return _extension(Code.ENUM, reader.raw())


def _port(reader: _Reader) -> bytes:
    number, protocol = _PORT.unpack(reader.take(_PORT.size))
    if number >= _PORT_LIMIT or protocol >= _PROTOCOLS:
        raise ValueError(f"port {number} of protocol {protocol}")
    return _extension(Code.PORT, number.to_bytes(2, "big") + bytes((protocol,)))


def _addr(reader: _Reader) -> bytes:
    return _extension(Code.ADDRESS, _address(reader))


def _address(reader: _Reader) -> bytes:
    (family,) = reader.take(1)
    if family not in (_V4, _V6):
        raise ValueError(f"an address of the family {family}")
    return reader.take(4 if family == _V4 else 16)


def _subnet(reader: _Reader) -> bytes:
    (length,) = reader.take(1)
    address = _address(reader)
    if len(address) == _V4:
        length -= _V4_MAPPED_BITS
    if not 0 <= length <= 8 * len(address):
        raise ValueError(f"a subnet with a length of {length}")
    return _extension(Code.SUBNET, address + bytes((length,)))


_SCALARS: dict[int, Callable[[_Reader], bytes]] = {
    1: _bool,
    2: _int,
    3: _count,
    4: _double,
    5: _double,
    6: _double,
    7: _string,
    9: _enum,
    10: _port,
    11: _addr,
    12: _subnet,
    17: _string,
    18: _string,
}


def _packed(value: str | int) -> bytes:
    packed: bytes = _pack(value)
    return packed


def _extension(code: int, data: bytes) -> bytes:
    packed: bytes = _pack(msgpack.ExtType(code, data))
    return packed


def _map_header(size: int) -> bytes:
    return bytes((0x80 | size,)) if size < 16 else b"\xde" + size.to_bytes(2, "big")


def _array_header(size: int) -> bytes:
    if size < 16:
        return bytes((0x90 | size,))
    return b"\xdc" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xdd" + size.to_bytes(4, "big")
