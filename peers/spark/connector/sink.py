"""`BatchWriter`, `StreamWriter`: a DataFrame or a stream as messages of the hub.

```
tasks: write ─▶ StagedPart, StagedPart ...     driver: commit ─ COMMIT(query, batch, numbers) ─▶ all or nothing
```

A stream is written exactly once: its micro-batches bear the query's id and their number, and the hub remembers the last
number of each query, so that a batch that Spark repeats after a crash adds nothing. A batch write is all or nothing;
with the options `txnAppId` and `txnVersion` it is remembered in the same way.

Messages of one task stay in their order, and those of a lower partition come before those of a higher one.

A refusal that no repetition cures (a topic that is not recorded, a row that makes no message) does not fail its task,
for Spark would do that four times and log a hundred lines each time: the task tells of it (`Refused`), and the driver
raises it once, before anything is committed.

Owner of the state: the hub. What is staged and never committed is dropped by it after `journal.staged_s`. The two
classes are pickled into tasks; what they know when they commit came with the tasks' messages.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from hub.errors import CloseCode, ConnectionLostError, GoneError, HubError, PeerError, RejectedError
from peers.spark.connector.connection import Connection, may_pass
from peers.spark.connector.encoding import Frames, checked_columns
from peers.spark.connector.errors import OptionError, WriteRefusedError
from peers.spark.connector.options import Encode, SinkOptions, read_sink_options
from peers.spark.connector.staging import StagedPart

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_QUERY_ID = "sql.streaming.queryId"
_TRANSACTION_BYTES = 12


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task has brought."""

    transaction: str
    query: str
    """Id of the streaming query; empty for a batch."""
    partition: int
    numbers: tuple[int, ...]
    messages: int


@dataclass(frozen=True)
class Refused(WriterCommitMessage):
    """What one task could not bring, and never can."""

    transaction: str
    text: str
    """Why, and what to do."""


@dataclass(frozen=True)
class _Writing:
    """How rows become staged messages; the same for both writers."""

    options: SinkOptions
    encode: Encode
    transaction: str

    @classmethod
    def of(cls, schema: StructType, given: Mapping[str, str], *, overwrite: bool) -> Self:
        """Check what is asked for.

        Raises:
            OptionError, ColumnError: It cannot be done.
        """
        options = read_sink_options(given)
        encode = checked_columns(schema, options.topic, options.encode)
        if overwrite:
            raise OptionError('messages cannot be overwritten: .mode("append"), or .outputMode("append")')
        return cls(options, encode, secrets.token_hex(_TRANSACTION_BYTES))

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged | Refused:
        """Stage the rows of one task.

        Raises:
            PeerError: The hub cannot be reached, which another attempt may cure.
        """
        try:
            return self._staged(batches)
        except HubError as error:
            if isinstance(error, ConnectionLostError) or may_pass(error):
                raise
            return Refused(self.transaction, str(error))

    def _staged(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        part = StagedPart(Connection(self.options.access), self.transaction, attempt)
        frames = Frames(self.options.topic, self.encode)
        for batch in batches:
            part.add(frames.of(batch))
        part.finish()
        return Staged(
            self.transaction,
            (context.getLocalProperty(_QUERY_ID) or "") if context is not None else "",
            context.partitionId() if context is not None else 0,
            tuple(part.numbers),
            part.messages,
        )

    def commit(self, staged: Sequence[Staged], query: str, batch: int) -> None:
        """Have what the tasks have brought become messages."""
        if not any(one.numbers for one in staged):
            return
        transaction = staged[0].transaction
        numbers = [number for one in sorted(staged, key=lambda one: one.partition) for number in one.numbers]
        timeout_s = self.options.access.timeout_s
        try:
            Connection(self.options.access).ask(
                lambda client: client.commit(transaction, numbers, query=query, batch=batch, timeout_s=timeout_s)
            )
        except GoneError as error:
            raise _lost(query) from error
        except RejectedError as error:
            raise _lost(query) if error.code == CloseCode.GONE else error from error

    def abort(self, staged: Sequence[Staged | Refused]) -> None:
        """Drop what the tasks have brought; if the hub cannot be told, it does so by itself later."""
        timeout_s = self.options.access.timeout_s
        for transaction in {one.transaction for one in staged}:
            try:
                Connection(self.options.access).client().abort(transaction, timeout_s=timeout_s)
            except (PeerError, TimeoutError):
                return


def _lost(query: str) -> ConnectionLostError:
    after = "the batch is written once when the query starts again" if query else "write the DataFrame again"
    doubt = (
        "" if query else "; if the connection was lost at the very end it may be there already: see the hub's journal"
    )
    text = f"the hub no longer has what was staged (it was restarted, or journal.staged_s is over): {after}{doubt}"
    return ConnectionLostError(CloseCode.GONE, text)


def _present(messages: Sequence[WriterCommitMessage | None]) -> list[Staged | Refused]:
    return [message for message in messages if isinstance(message, Staged | Refused)]


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Return what the tasks have brought.

    Raises:
        WriteRefusedError: One of them could not.
    """
    present = _present(messages)
    for message in present:
        if isinstance(message, Refused):
            raise WriteRefusedError(f"nothing was written: {message.text}")
    return [message for message in present if isinstance(message, Staged)]


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, writing: _Writing) -> None:
        self._writing = writing

    @classmethod
    def of(cls, schema: StructType, given: Mapping[str, str], *, overwrite: bool) -> Self:
        """Make a writer.

        Raises:
            OptionError, ColumnError: It cannot be written so.
        """
        return cls(_Writing.of(schema, given, overwrite=overwrite))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged | Refused:
        """Stage the rows of one task, or tell why that cannot be.

        Raises:
            PeerError: The hub cannot be reached.
        """
        return self._writing.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make messages of all that was staged.

        Raises:
            WriteRefusedError: A row makes no message, or the hub takes none of its topic.
            PeerError: The hub refuses, or cannot be reached.
        """
        options = self._writing.options
        self._writing.commit(_staged(messages), options.application, options.version)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        self._writing.abort(_present(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, writing: _Writing) -> None:
        self._writing = writing

    @classmethod
    def of(cls, schema: StructType, given: Mapping[str, str], *, overwrite: bool) -> Self:
        """Make a writer.

        Raises:
            OptionError, ColumnError: It cannot be written so.
        """
        writing = _Writing.of(schema, given, overwrite=overwrite)
        if writing.options.application:
            raise OptionError("txnAppId and txnVersion are for batches: a stream is written once by its checkpoint")
        return cls(writing)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged | Refused:
        """Stage the rows of one task, or tell why that cannot be.

        Raises:
            PeerError: The hub cannot be reached.
        """
        return self._writing.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Make messages of all that was staged, unless this batch was written before.

        Raises:
            WriteRefusedError: A row makes no message, or the hub takes none of its topic.
            PeerError: The hub refuses, or cannot be reached.
        """
        staged = _staged(messages)
        if any(one.numbers and not one.query for one in staged):
            raise OptionError("Spark does not say which query this is, so that nothing can be written once")
        self._writing.commit(staged, staged[0].query if staged else "", batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 -- Spark's
        """Drop what was staged."""
        self._writing.abort(_present(messages))
