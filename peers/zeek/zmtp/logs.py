"""Zeek's log batches: records of one stream as a node gives them to a logger, and the msgpack maps that they become.

```
4 strings: stream, writer, filter, path          string: u32 length, bytes      all integers big-endian
u32 fields, of each: u8 has-second-name, string name [string], u32 type, u32 element type, u8 optional
u32 records, of each: a value for each field
value: u32 type, u32 subtype, u8 present, then the content of the type
```

A record becomes a map of its fields that are set: name → value, as in Zeek's own JSON; times and intervals are seconds,
as doubles, sets become sets, vectors arrays with nil for unset values. Counts are compared with the bytes that are left
before memory is allocated. `_zmtp.pyx` has a twin of `take_records`: 0.03 µs a value, in Python 2 µs.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final, Generic, TypeVar

import msgpack

from hub.errors import CloseCode, HubError, RejectedError, UsageError
from hub.labels.envelope import tagged
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_TAGGED, HEADER, KIND_MESSAGES
from hub.messages.stretch import Run
from peers.values.msgpack import Code, array_header, extension, string_or_raw
from peers.wire.scanner import NEED_DATA, RouteTable
from peers.zeek.zmtp.events import NoEvent, node_labels
from peers.zeek.zmtp.frames import Message
from peers.zeek.zmtp.session import NULL, Mechanism, Session, SocketType

FIELDS_LIMIT = 1_000  # of a stream; Zeek's widest has about 60
NAME_LIMIT_BYTES = 256  # of a field: it stands in every record that the field is set in
_FIELD = Struct(">IIB")
_pack = msgpack.Packer(use_bin_type=True).pack
U32 = Struct(">I")
_U64 = Struct(">Q")
_I64 = Struct(">q")
_F64 = Struct(">d")
VALUE_HEAD = Struct(">IIB")  # type, subtype, and whether the value is set
_PORT = Struct(">QI")
_SET, _VECTOR, _PORT_KIND = 14, 19, 10
DEPTH_LIMIT: Final = 8  # How many sets and vectors may are nested
_V4, _V6 = 4, 6
_V4_MAPPED_BITS = 96
_PROTOCOLS = 4
_PORT_LIMIT = 1 << 16


class Reader:
    """Reads forward through a batch."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def number(self, layout: Struct) -> int:
        found: int = layout.unpack_from(self.data, self.position)[0]
        self.position += layout.size
        return found

    def raw(self) -> bytes:
        return self.take(self.number(U32))

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise ValueError(f"{size} bytes are said to follow, and {len(self.data) - self.position} do")
        found = self.data[self.position : end]
        self.position = end
        return found

    def count(self, layout: Struct, least_bytes: int) -> int:
        """Return how many elements follow, of so many bytes at least."""
        found = self.number(layout)
        left = len(self.data) - self.position
        if found < 0 or found * least_bytes > left:
            raise ValueError(f"{found} elements are said to follow, in {left} bytes")
        return found

    def record(self, columns: list[tuple[bytes, int]]) -> bytes:
        """Return a record, of whose fields the packed names and the types are given, as a map."""
        values = [(name, self._value(kind, 0)) for name, kind in columns]
        parts = [part for name, value in values if value is not None for part in (name, value)]
        size = len(parts) // 2
        return (bytes((0x80 | size,)) if size < 16 else b"\xde" + size.to_bytes(2)) + b"".join(parts)

    def _value(self, expected: int, depth: int) -> bytes | None:
        """Return a value as msgpack, None if it is not set; -1 stands for any type."""
        kind, _, present = VALUE_HEAD.unpack_from(self.data, self.position)
        if expected not in (-1, kind):
            raise ValueError(f"a value of type {kind} in a field of type {expected}")
        self.position += VALUE_HEAD.size
        if not present:
            return None
        if kind in (_SET, _VECTOR):
            return self._elements(kind, depth)
        read = _SCALARS.get(kind)
        if read is None:
            raise ValueError(f"a value of type {kind}, which no log has")
        return read(self)

    def _elements(self, kind: int, depth: int) -> bytes:
        if depth == DEPTH_LIMIT:
            raise ValueError(f"more than {DEPTH_LIMIT} sets and vectors in each other")
        count = self.count(_I64, VALUE_HEAD.size)
        if kind == _SET and count and U32.unpack_from(self.data, self.position)[0] == _PORT_KIND:
            kind = _VECTOR  # numbers of ports may repeat: 53/tcp and 53/udp
        values = [self._value(-1, depth + 1) for _ in range(count)]
        packed = array_header(len(values)) + b"".join([b"\xc0" if value is None else value for value in values])
        return packed if kind == _VECTOR else extension(Code.SET, packed)


def take_records_in_python(
    data: bytes, position: int, columns: list[tuple[bytes, int]], count: int
) -> tuple[bytes, int]:
    """Return records as msgpack maps, back to back, and where the last of them ends.

    Args:
        data: A log batch.
        position: Where the first record begins.
        columns: Of each field its name, packed, and its type.
        count: How many records.

    Raises:
        ValueError: With a text, and with the position of the invalid value.
    """
    reader = Reader(data, position)
    try:
        records = [reader.record(columns) for _ in range(count)]
    except (StructError, ValueError) as error:
        raise ValueError(str(error), reader.position) from None
    return b"".join(records), reader.position


def _port(reader: Reader) -> bytes:
    number, protocol = _PORT.unpack(reader.take(_PORT.size))
    if number >= _PORT_LIMIT or protocol >= _PROTOCOLS:
        raise ValueError(f"port {number} of protocol {protocol}")
    packed: bytes = _pack(number)  # Zeek's JSON writer writes its number alone
    return packed


def _address(reader: Reader) -> bytes:
    (family,) = reader.take(1)
    if family not in (_V4, _V6):
        raise ValueError(f"an address of the family {family}")
    return reader.take(4 if family == _V4 else 16)


def _subnet(reader: Reader) -> bytes:
    (length,) = reader.take(1)
    address = _address(reader)
    if len(address) == _V4:
        length -= _V4_MAPPED_BITS
    if not 0 <= length <= 8 * len(address):
        raise ValueError(f"a subnet with a length of {length}")
    return extension(Code.SUBNET, address + bytes((length,)))


_SCALARS: dict[int, Callable[[Reader], bytes]] = {
    1: lambda reader: b"\xc3" if reader.number(_I64) else b"\xc2",
    2: lambda reader: _pack(reader.number(_I64)),
    3: lambda reader: b"\xd7\x01" + reader.take(8),
    **dict.fromkeys((4, 5, 6), lambda reader: b"\xcb" + reader.take(8)),
    **dict.fromkeys((7, 17, 18), lambda reader: string_or_raw(reader.raw())),
    9: lambda reader: extension(Code.ENUM, reader.raw()),
    _PORT_KIND: _port,
    11: lambda reader: extension(Code.ADDRESS, _address(reader)),
    12: _subnet,
}


try:
    from peers.zeek.zmtp._zmtp import take_records
except ImportError:  # not built: no compiler was there
    take_records = take_records_in_python


class LogBatchError(HubError):
    """Bytes that are no log batch."""


class LogBatch:
    """Records of one stream: the head is read at once, they are taken a few at a time; raises `LogBatchError`."""

    def __init__(self, data: bytes) -> None:
        reader = Reader(data)
        try:
            _stream, _writer, _filter, self.path = (reader.raw().decode() for _ in range(4))
            self._columns = _columns(reader)
            self.left = reader.count(U32, max(1, len(self._columns) * VALUE_HEAD.size))
        except (StructError, ValueError) as error:
            raise _unreadable(error, reader.position, len(data)) from None
        self._data = data
        self._position = reader.position  # of the next record

    def take(self, records: int) -> tuple[bytes, int]:
        """Return at most so many records, each a msgpack map, back to back, and how many they are.

        Raises:
            LogBatchError: One of them cannot be read, and so those behind it.
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
            text = f"{size - self._position} bytes follow the last record"
            raise _unreadable(text, self._position, size)
        return found, taking


def _columns(reader: Reader) -> list[tuple[bytes, int]]:
    """Return the packed name and the type of each field.

    1 bool, 2 int, 3 count, 4 double, 5 time, 6 interval, 7 string, 9 enum, 10 port, 11 addr, 12 subnet, 14 set, 17 func
    18 file, 19 vector.
    """
    columns = []
    count = reader.count(U32, 1 + U32.size + _FIELD.size)
    if count > FIELDS_LIMIT:
        raise ValueError(f"{count} fields, the limit is {FIELDS_LIMIT}")
    for _ in range(count):
        has_second = reader.take(1) != b"\0"
        name = reader.raw()
        if len(name) > NAME_LIMIT_BYTES:
            raise ValueError(f"a name of {len(name)} bytes, the limit is {NAME_LIMIT_BYTES}")
        if has_second:
            reader.raw()
        kind, _element, _optional = _FIELD.unpack(reader.take(_FIELD.size))
        columns.append((_pack(name.decode()), kind))
    return columns


def _unreadable(reason: object, position: int, size: int) -> LogBatchError:
    return LogBatchError(f"a log batch that cannot be read at byte {position} of {size}: {reason}")


LOG_TOPICS: Final = "/zeek/LOG/"
"""Beginning of the topics of log records; the path follows, which names the file that a logger would write."""

RECORDS_AT_ONCE: Final = 64  # that are read as one event: about 2 ms, compiled 0.05 ms
_KIND: Final = b"log-write"
_SERIALIZER: Final = b"zeek-bin-serializer"
_PARTS: Final = 4
_FLAGS: Final = FLAG_BATCH | FLAG_TAGGED
R = TypeVar("R")


class LogSession(Session, Generic[R]):
    """One side of a connection to a node that logs; see `Session`."""

    def __init__(
        self, limit_bytes: int, routes: RouteTable[R], mechanism: Mechanism = NULL, *, waits: bool = False
    ) -> None:
        super().__init__(SocketType.PULL, limit_bytes, mechanism=mechanism, waits=waits)
        self._routes = routes
        self._batch: LogBatch | None = None  # that is being read
        self._key = b""

    @property
    def has_more(self) -> bool:
        return self._batch is not None or super().has_more

    def _next(self) -> Any:
        if not self.is_open:
            return super()._next()
        try:
            if self._batch is not None:
                return self._records(self._batch)
            found = self._incoming.next_message()
            if isinstance(found, Message):
                return self._take(found)
        except (RejectedError, LogBatchError, UsageError) as error:
            self._batch = None
            self.rejected_messages += 1
            return NoEvent(error.text if isinstance(error, RejectedError) else str(error))
        return NEED_DATA if found is None else self._obey(found)

    def _take(self, message: Message) -> None:
        parts = message.parts
        if len(parts) != _PARTS or parts[0] != _KIND or parts[2] != _SERIALIZER:
            shown = [part[:40].decode("utf-8", "backslashreplace") for part in parts[:3]]
            raise RejectedError(CloseCode.BAD_DATA, f"no log batch: {len(parts)} parts, which begin with {shown}")
        batch = LogBatch(parts[3])
        try:
            key = tagged(LOG_TOPICS + batch.path, node_labels(parts[1])).encode()
        except UnicodeDecodeError as error:
            raise RejectedError(CloseCode.BAD_DATA, f"the id of a node is not UTF-8: {error.reason}") from error
        self._key = HEADER.pack(0, KIND_MESSAGES, _FLAGS, len(key))[4:] + key
        self._batch = batch if batch.left else None

    def _records(self, batch: LogBatch) -> Run[R]:
        values, records = batch.take(RECORDS_AT_ONCE)
        if not batch.left:
            self._batch = None
        body = BATCH_COUNT.pack(records) + values
        route = self._routes.table.get(self._key)
        if route is None:
            route = self._routes.miss(self._key)
        return Run(route, len(body).to_bytes(4, "big") + self._key + body, records)
