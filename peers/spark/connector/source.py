"""`BatchReader`, `StreamReader`: a range of the journal for `spark.read`, and all of it for `spark.readStream`.

The range of a batch is fixed when it is planned. An offset of a stream is `{"offset", "journal", "epoch"}`:
the next record, and the journal that it belongs to, so that a query whose hub has another journal by now fails instead
of skipping or repeating. If the hub has lost power since the epoch, and with it records before the offset, the query
continues where others have their offsets. Offsets are in the checkpoint; the hub keeps nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from hub.errors import HubError, UsageError
from hub.journal.layout import Column
from peers.client.journal import JournalState
from peers.spark.connector.connection import PLANNED_LOST, Connection, beyond_loss
from peers.spark.connector.fields import Inference, fields_schema
from peers.spark.connector.options import (
    EARLIEST,
    LATEST,
    ColumnError,
    DataLostError,
    OptionError,
    Position,
    SourceOptions,
    shortened,
)
from peers.spark.connector.record_batches import RecordBatches, bodies_of, message_of
from peers.spark.connector.shares import FileShare, OffsetRange, file_tables, plan

SAMPLE_OFFSETS = 10_000
"""The newest records, in which fields are looked up."""

_VALUE: tuple[Column, ...] = ("value",)

_log = logging.getLogger("peers.spark")


def sampled_schema(options: SourceOptions) -> StructType:
    """Return the columns of a query with `decode=schema` that names none: the fields of the newest records."""
    connection = Connection(options.access)
    state = connection.state()
    seen = Inference()
    start = max(state.first, state.head - SAMPLE_OFFSETS)
    blocks = connection.blocks(options.topics, start, state.head, journal=state.id, lossy=True, columns=_VALUE)
    for block in blocks:
        seen.add(map(message_of, bodies_of(block)))
    if not seen.seen:
        raise ColumnError(
            f"none of the newest {SAMPLE_OFFSETS:,} records of these topics has fields: name them, such as "
            '.schema("offset BIGINT, topic STRING, query STRING")'
        )
    return fields_schema(seen.kinds())


def resolve_start(position: Position, state: JournalState, connection: Connection, *, lossy: bool) -> int:
    offset = _offset("startingOffsets", position, state, connection)
    return beyond_loss(offset, state.first, lossy=lossy) if offset < state.first else offset


def _offset(option: str, position: Position, state: JournalState, connection: Connection) -> int:
    if position.kind == "time":
        return min(connection.offset_at(position.number), state.head)
    offset = {"earliest": state.first, "latest": state.head, "offset": position.number}[position.kind]
    if offset > state.head:
        raise OptionError(f"{option}: {offset} is behind the end of the journal, which is {state.head}")
    return offset


def read_share(
    share: InputPartition, schema: StructType, options: SourceOptions, topics: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a share, in the order of their offsets.

    Raises:
        JournalReplacedError: The hub has another journal by now.
        DataLostError: Records were deleted before they were read, or could not be copied to the tier.
        PeerError: The hub refuses, or cannot be reached.
        StorageError: A file of the tier is damaged, or cannot be read now.
    """
    lossy = not options.fail_on_data_loss
    made = RecordBatches(schema, options.decode)
    try:
        if isinstance(share, FileShare):
            yield from made.table_batches(file_tables(share, topics, lossy=lossy, columns=made.table_columns))
        elif isinstance(share, OffsetRange):
            blocks = Connection(options.access).blocks(
                topics,
                share.start,
                share.end,
                journal=bytes.fromhex(share.journal),
                epoch=share.epoch,
                lossy=lossy,
                columns=made.record_columns,
            )
            yield from made.batches(blocks)
        else:
            return
    except HubError as error:
        raise error.with_traceback(None) from None  # Spark shows the whole chain before its text, twice
    troubles = str(made.troubles)
    if troubles:
        _log.warning("offsets %d to %d: %s", share.start, share.end - 1, troubles)


class BatchReader(DataSourceReader):
    """Plans and reads a batch."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options

    @shortened
    def partitions(self) -> list[InputPartition]:
        options = self._options
        connection = Connection(options.access)
        state = connection.state()
        position = options.starting or EARLIEST
        start = resolve_start(position, state, connection, lossy=not options.fail_on_data_loss)
        end = _offset("endingOffsets", options.ending, state, connection)
        if start > end and "time" not in {position.kind, options.ending.kind}:
            raise OptionError(f"startingOffsets {start} are behind endingOffsets {end}")
        whole = OffsetRange(start, end, state.id.hex(), state.epoch)
        return plan(whole, options.topics, options.tier, options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_share(partition, self._schema, self._options, self._options.topics)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads micro-batches.

    Spark has one in one process for as long as the query runs, and may end that process at any time.
    """

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options
        self._connection = Connection(options.access)
        self._target: int | None = None
        self._seen: JournalState | None = None
        # The last offset of another epoch that was asked for, and how far it holds.
        self._known: dict[tuple[int, int, int], int] = {}

    @shortened
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """Return where a query begins that has no checkpoint."""
        state = self._state()
        position = self._options.starting or LATEST
        return _spark_offset(resolve_start(position, state, self._connection, lossy=self._lossy), state)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's name
        return ReadMaxRows(self._options.max_offsets)

    @shortened
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        self._target = self._state().head

    @shortened
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """Return where the next micro-batch ends."""
        state, offset = self._at(start)
        begin = max(offset, state.first if self._lossy else 0)
        end = state.head if self._target is None else min(state.head, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        if end <= offset == start["offset"]:
            return start  # as it is: Spark would begin an empty batch for another epoch
        return _spark_offset(max(end, offset), state)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 -- Spark's name
        """Return the end of the journal when it was last asked, for the query's progress."""
        return None if self._seen is None else _spark_offset(self._seen.head, self._seen)

    @shortened
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        state, first = self._at(start)
        last = self._held(end, state)
        if last < end["offset"] and not self._lossy:
            raise DataLostError(PLANNED_LOST.format(end=end["offset"]))
        if last > state.head:
            raise DataLostError(_shrunk(last, state))
        if first < state.first:
            first = beyond_loss(first, state.first, lossy=self._lossy)
        whole = OffsetRange(first, last, state.id.hex(), state.epoch)
        return plan(whole, self._options.topics, self._options.tier, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_share(partition, self._schema, self._options, self._options.topics)

    @property
    def _lossy(self) -> bool:
        return not self._options.fail_on_data_loss

    def _state(self, expected: bytes = b"") -> JournalState:
        state = self._seen = self._connection.state(expected)
        return state

    def _at(self, start: dict[str, Any]) -> tuple[JournalState, int]:
        """Return the state of the journal, and where the query continues after an offset of Spark's."""
        state = self._state(bytes.fromhex(start["journal"]))
        offset = self._held(start, state)
        if offset > state.head:
            raise DataLostError(_shrunk(offset, state))
        return state, offset

    def _held(self, at: dict[str, Any], state: JournalState) -> int:
        """Return how far the records before an offset of Spark's are still there."""
        offset: int = at["offset"]
        epoch: int = at.get("epoch", 0)
        if not epoch or epoch >= state.epoch:
            return offset
        known = offset, epoch, state.epoch
        if known not in self._known:
            held = self._connection.held(offset, epoch)
            if held < offset:
                _log.warning(
                    "the records %d to %d were lost when the hub lost power; the query continues at %d, with others",
                    held,
                    offset - 1,
                    held,
                )
            self._known = {known: held}
        return self._known[known]


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream that cannot be read as it was asked for: every method raises why."""

    def __init__(self, error: UsageError) -> None:
        self._error = error

    def _refuse(self, *_: Any) -> Any:
        raise self._error from None

    _refused: Any = _refuse
    initialOffset = prepareForTriggerAvailableNow = latestOffset = partitions = read = _refused  # noqa: N815 -- Spark's


def _spark_offset(offset: int, state: JournalState) -> dict[str, Any]:
    return {"offset": offset, "journal": state.id.hex(), "epoch": state.epoch}


def _shrunk(offset: int, state: JournalState) -> str:
    return (
        f"the query has read up to offset {offset}, the journal ends at {state.head}: it was replaced by an older copy "
        "of itself; start again with another checkpointLocation"
    )
