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

Owner of a `LogBatch`: one session. Cost: that of `peers.zeek.zmtp.log_records`. Source: section 8 of the notes on
Zeek's backend, and recordings.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812  an exception, named as one
from typing import NamedTuple

import msgpack

from hub.errors import HubError
from peers.zeek.zmtp.log_records import U32, VALUE_HEAD, Reader

try:
    from peers.zeek.zmtp._zmtp import take_records
except ImportError:  # not built: no compiler was there
    from peers.zeek.zmtp.log_records import take_records

__all__ = ["FIELDS_LIMIT", "Field", "LogBatch", "LogBatchError"]

FIELDS_LIMIT = 1_000
"""Most fields of a stream. Zeek's widest has about 60."""

NAME_LIMIT_BYTES = 256
"""Longest name of a field: it stands in every record that the field is set in."""

_FIELD = Struct(">IIB")

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

    __slots__ = ("_columns", "_data", "_position", "fields", "filter", "left", "path", "stream", "writer")

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
        reader = Reader(data)
        try:
            self.stream, self.writer, self.filter, self.path = (reader.text() for _ in range(4))
            self.fields = _fields(reader)
            self.left = reader.count(U32, max(1, len(self.fields) * VALUE_HEAD.size))
        except (StructError, ValueError) as error:
            raise _unreadable(error, reader.position, len(data)) from None
        self._data = data
        # Where the next record begins.
        self._position = reader.position
        # Of each field its name, packed, and its type.
        self._columns = [(_pack(field.name), field.type) for field in self.fields]

    def take(self, records: int) -> tuple[bytes, int]:
        """Return the next records, each a msgpack map, back to back, and how many they are.

        Args:
            records: How many, at most.

        Raises:
            LogBatchError: One of them cannot be read, so that none that is left can be taken.
        """
        taking = min(records, self.left)
        size = len(self._data)
        try:
            found, self._position = take_records(self._data, self._position, self._columns, taking)
        except ValueError as error:
            text, position = error.args
            raise _unreadable(text, position, size) from None
        self.left -= taking
        if not self.left and self._position != size:
            text = f"{size - self._position} bytes stand behind the last record"
            raise _unreadable(text, self._position, size)
        return found, taking


def _fields(reader: Reader) -> tuple[Field, ...]:
    """Read the columns."""
    fields = []
    count = reader.count(U32, 1 + U32.size + _FIELD.size)
    if count > FIELDS_LIMIT:
        raise ValueError(f"{count} fields, the limit is {FIELDS_LIMIT}")
    for _ in range(count):
        has_second = reader.take(1) != b"\0"
        name = reader.text()
        if len(name.encode()) > NAME_LIMIT_BYTES:
            raise ValueError(f"a name of {len(name.encode())} bytes, the limit is {NAME_LIMIT_BYTES}")
        if has_second:
            reader.raw()
        kind, element, optional = _FIELD.unpack_from(reader.data, reader.position)
        reader.position += _FIELD.size
        fields.append(Field(name, kind, element, bool(optional)))
    return tuple(fields)


def _unreadable(reason: object, position: int, size: int) -> LogBatchError:
    return LogBatchError(f"a log batch that cannot be read at byte {position} of {size}: {reason}")
