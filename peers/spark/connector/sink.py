"""`BatchWriter`, `StreamWriter`: a DataFrame or a stream as messages of the hub.

Tasks stage pieces of 1 MiB; the driver commits the numbers of all, or nothing. The hub remembers the last batch of each
streaming query (or `txnAppId`), so that a batch that Spark repeats adds nothing. Messages of one task stay in order.
A piece whose answer is lost may be staged or not: it is sent again under a new number, and only confirmed numbers are
committed. Numbers belong to the attempt of a task, which Spark never gives twice within an application.

An error that no repetition cures (a topic that is not recorded, a row that makes no message) does not fail its task,
for Spark would try that four times: the task returns it (`Refused`), and the driver raises it.
"""

from __future__ import annotations

import difflib
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from hub.errors import CloseCode, ClosedError, ConnectionLostError, GoneError, HubError, PeerError, RejectedError
from hub.journal.block import frames_of_columns
from peers.spark.connector.connection import Connection, may_pass
from peers.spark.connector.options import (
    ColumnError,
    Encode,
    OptionError,
    SinkOptions,
    WriteRefusedError,
    read_sink_options,
)

_QUERY_ID = "sql.streaming.queryId"
_TRANSACTION_BYTES = 12

PIECE_BYTES = 1024 * 1024

IN_FLIGHT = 4

# Most pieces of one attempt: 16 TiB.
_PIECES_OF_ATTEMPT = 1 << 24

# Around the frames in STAGE, at most.
_AROUND_BYTES = 1024

# Columns that the hub sets.
_IGNORED = frozenset({"offset", "timestamp"})

_NIL = b"\xc0"
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The staged rows of one task."""

    transaction: str
    query: str
    """Id of the streaming query; empty for a batch."""
    partition: int
    numbers: tuple[int, ...]
    messages: int


@dataclass(frozen=True)
class Refused(WriterCommitMessage):
    """The rows of one task can never be written."""

    transaction: str
    text: str


class _Writer:
    """Both writers; `write` runs in a task, `commit` and `abort` in the driver."""

    def __init__(self, options: SinkOptions, encode: Encode, transaction: str) -> None:
        self._options = options
        self._encode = encode
        self._transaction = transaction

    @classmethod
    def of(cls, schema: StructType, given: Mapping[str, str], *, overwrite: bool) -> Self:
        options = read_sink_options(given)
        encode = checked_columns(schema, options.topic, options.encode)
        if options.application and issubclass(cls, DataSourceStreamArrowWriter):
            raise OptionError("txnAppId and txnVersion are for batches: a stream is written once by its checkpoint")
        if overwrite:
            raise OptionError('messages cannot be overwritten: .mode("append"), or .outputMode("append")')
        return cls(options, encode, secrets.token_hex(_TRANSACTION_BYTES))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged | Refused:
        try:
            return self._staged(iterator)
        except HubError as error:
            if isinstance(error, ConnectionLostError) or may_pass(error):
                raise
            return Refused(self._transaction, str(error))

    def _staged(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        part = StagedPart(Connection(self._options.access), self._transaction, attempt)
        for batch in batches:
            part.add(frames_of(batch, self._options.topic, self._encode))
        part.finish()
        return Staged(
            self._transaction,
            (context.getLocalProperty(_QUERY_ID) or "") if context is not None else "",
            context.partitionId() if context is not None else 0,
            tuple(part.numbers),
            part.messages,
        )

    def _commit(self, staged: Sequence[Staged], query: str, batch: int) -> None:
        if not any(one.numbers for one in staged):
            return
        transaction = staged[0].transaction
        numbers = [number for one in sorted(staged, key=lambda one: one.partition) for number in one.numbers]
        access = self._options.access
        try:
            Connection(access).ask(
                lambda client: client.commit(transaction, numbers, query=query, batch=batch, timeout_s=access.timeout_s)
            )
        except GoneError as error:
            raise _lost(query) from error
        except RejectedError as error:
            raise _lost(query) if error.code == CloseCode.GONE else error from error

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop the staged rows; a hub that cannot be reached does so by itself later."""
        access = self._options.access
        for transaction in {one.transaction for one in _present(messages)}:
            try:
                Connection(access).client().abort(transaction, timeout_s=access.timeout_s)
            except (PeerError, TimeoutError):
                return


def _present(messages: Sequence[WriterCommitMessage | None]) -> list[Staged | Refused]:
    return [message for message in messages if isinstance(message, Staged | Refused)]


def _all_staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    staged = []
    for message in _present(messages):
        if isinstance(message, Refused):
            raise WriteRefusedError(f"nothing was written: {message.text}")
        staged.append(message)
    return staged


def _lost(query: str) -> ConnectionLostError:
    after = "the batch is written once when the query starts again" if query else "write the DataFrame again"
    doubt = (
        "" if query else "; if the connection was lost at the very end it may be there already: see the hub's journal"
    )
    text = f"the hub no longer has the staged batch (it was restarted, or journal.staged_s is over): {after}{doubt}"
    return ConnectionLostError(CloseCode.GONE, text)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._commit(_all_staged(messages), self._options.application, self._options.version)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Make messages of all staged rows, unless this batch was written before."""
        staged = _all_staged(messages)
        if any(one.numbers and not one.query for one in staged):
            raise OptionError("Spark does not say which query this is, so that nothing can be written once")
        self._commit(staged, staged[0].query if staged else "", batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 -- Spark's
        self._abort(messages)


# Staging.


class _Sent(NamedTuple):
    number: int
    piece: bytes
    answer: Future[None]


class StagedPart:
    """Sends the frames of one task to the hub."""

    def __init__(self, connection: Connection, transaction: str, attempt: int) -> None:
        self._connection = connection
        self._transaction = transaction
        self._next = attempt * _PIECES_OF_ATTEMPT
        self._frames: list[bytes] = []
        self._size_bytes = 0
        self._sent: deque[_Sent] = deque()
        self.numbers: list[int] = []
        """Of the confirmed pieces, in the order of the frames."""
        self.messages = 0

    def add(self, frames: Iterable[tuple[bytes, int]]) -> None:
        """Send whole frames, each with the number of its messages."""
        for some, messages in frames:
            if self._size_bytes + len(some) > PIECE_BYTES:
                self._send_piece()
            self._frames.append(some)
            self._size_bytes += len(some)
            self.messages += messages

    def finish(self) -> None:
        self._send_piece()
        while self._sent:
            self._confirm_oldest()

    def _send_piece(self) -> None:
        if not self._frames:
            return
        piece = b"".join(self._frames)
        self._frames, self._size_bytes = [], 0
        while len(self._sent) >= IN_FLIGHT:
            self._confirm_oldest()
        self._sent.append(self._send(piece))

    def _send(self, piece: bytes) -> _Sent:
        client = self._connection.ask(lambda client: client)
        limit = client.hub.frame - _AROUND_BYTES if client.hub is not None else PIECE_BYTES
        if len(piece) > limit:  # the hub would end the connection
            text = (
                f"a message of {len(piece)} bytes, the hub accepts {limit} at most: "
                "write smaller values, or raise its limits.frame_bytes"
            )
            raise RejectedError(CloseCode.TOO_BIG, text)
        number, self._next = self._next, self._next + 1
        try:
            answer = client.stage_nowait(self._transaction, number, piece)
        except ClosedError as error:  # lost in this moment
            answer = Future()
            answer.set_exception(error)
        return _Sent(number, piece, answer)

    def _confirm_oldest(self) -> None:
        sent = self._sent.popleft()
        retries = self._connection.retries()
        while True:
            try:
                sent.answer.result(self._connection.access.timeout_s)
                break
            except (PeerError, ClosedError, TimeoutError) as error:
                self._connection.failed(error)
                retries.pause(error)
            sent = self._send(sent.piece)
        self.numbers.append(sent.number)


# Rows as frames. NULL becomes nil. Raw values are not touched: frames are made of Arrow's own buffers. Cost, of 100
# bytes a row: raw 0.2 µs, json and text about 1 µs.


class BadRowError(HubError):
    """A row makes no message."""


def checked_columns(schema: StructType, topic: str | None, encode: Encode | None) -> Encode:
    """Return how the values of a DataFrame are encoded: BINARY as raw msgpack or json, STRING as json or text."""
    types = {column.name: column.dataType for column in schema.fields}
    for name in types:
        if name not in {"topic", "value", *_IGNORED}:
            near = difflib.get_close_matches(name.lower(), ("topic", "value"), n=1)
            hint = f"did you mean {near[0]}?" if near else "make it part of the value: to_json(struct(...)) AS value"
            raise ColumnError(f"column {name} has no place in a message, which is topic and value: {hint}")
    if "value" not in types:
        raise ColumnError("there is no column value; such as to_json(struct(*)) AS value")
    if topic is None and "topic" not in types:
        raise ColumnError("there is no column topic; add one, or say option topic for all rows")
    if topic is None and not isinstance(types["topic"], StringType):
        raise ColumnError(f"column topic is STRING, not {_shown(types['topic'])}")
    kind = types["value"]
    if isinstance(kind, BinaryType):
        if encode == "text":
            raise ColumnError("encode=text takes a STRING; BINARY is raw (msgpack) or json")
        return encode or "raw"
    if isinstance(kind, StringType):
        if encode == "raw":
            raise ColumnError("encode=raw takes BINARY, which is msgpack already; STRING is json or text")
        return encode or "json"
    raise ColumnError(f"column value is BINARY or STRING, not {_shown(kind)}; such as to_json(value) AS value")


def _shown(kind: DataType) -> str:
    return kind.simpleString().upper()


def frames_of(batch: pa.RecordBatch, topic: str | None, encode: Encode) -> list[tuple[bytes, int]]:
    """Return whole frames of up to 256 KiB, back to back, each list item with the number of its messages."""
    if not batch.num_rows:
        return []
    if topic is not None:
        topics = pa.repeat(pa.scalar(topic, pa.string()), batch.num_rows)
    else:
        topics = _as(batch.column("topic"), pa.string())
        if topics.null_count:
            raise BadRowError("a row has no topic: the column is NULL")
    column, convert = batch.column("value"), _CONVERT[encode]
    if convert is None:
        values = _as(column, pa.binary())
        values = values.fill_null(_NIL) if values.null_count else values
    else:
        rows = column.to_pylist()
        try:
            values = pa.array(list(map(convert, rows)), pa.binary())
        except _UNENCODABLE:
            raise _bad(convert, topics, rows) from None
    try:
        return frames_of_columns(*_buffers(topics), *_buffers(values), 0, batch.num_rows)
    except ValueError as error:
        raise BadRowError(f"the rows make no messages: {error}") from error


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column without the large offsets that a session may be set to."""
    return column if column.type == kind else column.cast(kind)


def _buffers(column: pa.Array) -> tuple[Any, Any]:
    _, ends, content = column.buffers()
    return ends.slice(_OFFSET_BYTES * column.offset), content


_OFFSET_BYTES = 4

_encode = msgspec.msgpack.Encoder().encode
_decode_json = msgspec.json.Decoder().decode


def _of_json(text: str | bytes | None) -> bytes:
    return _NIL if text is None else _encode(_decode_json(text))


_CONVERT: dict[Encode, Callable[[Any], bytes] | None] = {"raw": None, "json": _of_json, "text": _encode}

_UNENCODABLE = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)


def _bad(convert: Callable[[Any], bytes], topics: pa.Array, values: list[Any]) -> BadRowError:
    for topic, value in zip(topics, values, strict=True):
        try:
            convert(value)
        except _UNENCODABLE as error:
            shown = repr(value[:_SHOWN_CHARACTERS])
            return BadRowError(f"a value for {topic.as_py()!r} is no JSON text ({error}): {shown}; see option encode")
    raise AssertionError
