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

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgpack

from hub.errors import CloseCode, HubError, RejectedError
from hub.frame import BATCH_COUNT, FLAG_BATCH, FLAG_TAGGED, HEADER, KIND_MESSAGES
from hub.stretch import Run
from hub.tags.envelope import tagged
from peers.wire.scanner import NEED_DATA, RouteTable
from peers.zeek.zmtp.events import NoEvent, node_labels
from peers.zeek.zmtp.frames import Command, Message
from peers.zeek.zmtp.handshake import NULL, Mechanism
from peers.zeek.zmtp.log_records import U32, VALUE_HEAD, Reader
from peers.zeek.zmtp.session import Session, SocketType

try:
    from peers.zeek.zmtp._zmtp import take_records
except ImportError:  # not built: no compiler was there
    from peers.zeek.zmtp.log_records import take_records


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


LOG_TOPICS: Final = "/zeek/LOG/"
"""What topics of log records begin with; the path follows, which names the file that a logger would write."""

RECORDS_AT_ONCE: Final = 64
"""Records that are read as one event: about 2 ms, compiled 0.05 ms."""

_KIND: Final = b"log-write"
_SERIALIZER: Final = b"zeek-bin-serializer"
_PARTS: Final = 4
_FLAGS: Final = FLAG_BATCH | FLAG_TAGGED

R = TypeVar("R")
T = TypeVar("T")
Done = TypeVar("Done")


class LogSession(Session, Generic[R]):
    """One side of a connection.

    Args:
        limit_bytes: The longest batch, all its parts together.
        routes: Where the routes of messages are looked up.
        mechanism: See `Session`.
        waits: See `Session`.
    """

    __slots__ = ("_batch", "_key", "_routes")

    def __init__(
        self, limit_bytes: int, routes: RouteTable[R], mechanism: Mechanism = NULL, *, waits: bool = False
    ) -> None:
        super().__init__(SocketType.PULL, limit_bytes, mechanism=mechanism, waits=waits)
        self._routes = routes
        # The batch that is being read, and the routing key of its records; None between two.
        self._batch: LogBatch | None = None
        self._key = b""

    @property
    def has_more(self) -> bool:
        """Whether `next_event` may have something to say."""
        return self._batch is not None or super().has_more

    def _next(self) -> Any:
        if not self.is_open:
            return super()._next()
        if self._batch is not None:
            return self._guarded(self._records, self._batch)
        found = self._incoming.next_message()
        if found is None:
            return NEED_DATA
        if isinstance(found, Command):
            return self._obey(found)
        return self._guarded(self._take, found)

    def _guarded(self, do: Callable[[T], Done], what: T) -> Done | NoEvent:
        """Do something with a message, which may turn out to be no log batch."""
        try:
            return do(what)
        except HubError as error:
            self._batch = None
            self.rejected_messages += 1
            return NoEvent(error.text if isinstance(error, RejectedError) else str(error))

    def _take(self, message: Message) -> None:
        """Begin with a batch."""
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
        """Return the next records of a batch as a run."""
        values, records = batch.take(RECORDS_AT_ONCE)
        if not batch.left:
            self._batch = None
        body = BATCH_COUNT.pack(records) + values
        route = self._routes.table.get(self._key)
        if route is None:
            route = self._routes.miss(self._key)
        return Run(route, len(body).to_bytes(4, "big") + self._key + body, records)
