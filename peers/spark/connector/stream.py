"""`StreamReader`: the journal as an endless table, for `spark.readStream`.

An offset of Spark's is `{"offset": n, "journal": "<id>", "epoch": e}`: the next record, and the journal that it belongs
to, so that a query whose hub has another journal by now fails instead of skipping or repeating. If the hub has lost
power since the epoch, and with it records before the offset, the query goes on where others have their offsets. They
stand in the checkpoint; the hub needs nothing of that, and nothing here is lost with a process. With the option
`consumer` it is told how far the query is, for those who watch: what Spark has committed, as it asks on from there.

Owner of the state: Spark, which has one of these in one process for as long as the query runs, and throws it away
without a word. What `availableNow` reads is fixed when it begins.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from hub.errors import UsageError
from peers.client.journal import JournalState
from peers.spark.connector.connection import PLANNED_LOST, Connection, beyond_loss
from peers.spark.connector.errors import DataLostError, shortened
from peers.spark.connector.options import LATEST, SourceOptions
from peers.spark.connector.positions import resolve_start
from peers.spark.connector.reading import read_share
from peers.spark.connector.reports import Reports
from peers.spark.connector.tier import Sought, plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_log = logging.getLogger("peers.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads micro-batches.

    Args:
        schema: The columns wanted.
        options: Of the query.
    """

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options
        self._connection = Connection(options.access)
        self._target: int | None = None
        self._seen: JournalState | None = None
        # The last offset of another epoch that was looked at, and how far it holds.
        self._known: dict[tuple[int, int, int], int] = {}
        self._reports = Reports(options.access, options.consumer, options.topics) if options.consumer else None

    @shortened
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """Return where a query begins that has no checkpoint.

        Raises:
            OptionError: It is not there yet.
            DataLostError: It was deleted.
            PeerError: The hub refuses, or cannot be reached.
        """
        state = self._state()
        position = self._options.starting or LATEST
        return _told(resolve_start(position, state, self._connection, lossy=self._lossy), state)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's name
        """Return how many offsets a micro-batch has at most."""
        return ReadMaxRows(self._options.max_offsets)

    @shortened
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """Fix what there is to read.

        Raises:
            PeerError: The hub refuses, or cannot be reached.
        """
        self._target = self._state().head

    @shortened
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """Return where the next micro-batch ends.

        Args:
            start: Where it begins.
            limit: How large it may be.

        Raises:
            JournalReplacedError, DataLostError: It cannot begin there.
            PeerError: The hub refuses, or cannot be reached.
        """
        state, offset = self._at(start)
        self._report(offset)
        if self._reports is not None and self._target is not None and offset >= self._target:
            self._reports.flush()  # the query ends now, and Spark may end this process before `stop`
        begin = max(offset, state.first if self._lossy else 0)
        end = state.head if self._target is None else min(state.head, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        if end <= offset == start["offset"]:
            return start  # as it is: Spark would begin an empty batch for another epoch
        return _told(max(end, offset), state)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 -- Spark's name
        """Return how far the journal reached when it was last asked, for the query's progress."""
        return None if self._seen is None else _told(self._seen.head, self._seen)

    @shortened
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the shares of the tasks of a micro-batch.

        Raises:
            JournalReplacedError, DataLostError: It cannot begin there.
            PeerError: The hub refuses, or cannot be reached.
        """
        state, first = self._at(start)
        last = self._held(end, state)
        if last < end["offset"] and not self._lossy:
            raise DataLostError(PLANNED_LOST.format(end=end["offset"]))
        if last > state.head:
            raise DataLostError(_shrunk(last, state))
        if first < state.first:
            first = beyond_loss(first, state.first, lossy=self._lossy)
        sought = Sought(first, last, state.id.hex(), self._options.topics, epoch=state.epoch)
        return plan(sought, self._options.tier, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one share. Raises as `read_share`."""
        return read_share(partition, self._schema, self._options, self._options.topics)

    def commit(self, end: dict[str, Any]) -> None:
        """Take note that Spark is done with everything before an offset."""
        self._report(end["offset"])

    def stop(self) -> None:
        """Tell what was not told yet; Spark calls this only where it does not end the process before."""
        if self._reports is not None:
            self._reports.stop()

    def _report(self, offset: int) -> None:
        if self._reports is not None:
            self._reports.tell(offset)

    @property
    def _lossy(self) -> bool:
        return not self._options.fail_on_data_loss

    def _state(self, expected: bytes = b"") -> JournalState:
        """Ask how far the journal reaches, and whether it still is the one of the query.

        Raises:
            JournalReplacedError: It is not.
            PeerError: The hub refuses, or cannot be reached.
        """
        state = self._seen = self._connection.state(expected)
        return state

    def _at(self, start: dict[str, Any]) -> tuple[JournalState, int]:
        """Return how far the journal reaches, and where the query goes on that has read up to an offset of Spark's.

        Raises:
            JournalReplacedError, DataLostError: It cannot go on.
            PeerError: The hub refuses, or cannot be reached.
        """
        state = self._state(bytes.fromhex(start["journal"]))
        offset = self._held(start, state)
        if offset > state.head:
            raise DataLostError(_shrunk(offset, state))
        return state, offset

    def _held(self, at: dict[str, Any], state: JournalState) -> int:
        """Return how far what was read up to an offset of Spark's is still there."""
        offset: int = at["offset"]
        epoch: int = at.get("epoch", 0)
        if not epoch or epoch >= state.epoch:
            return offset
        known = offset, epoch, state.epoch
        if known not in self._known:
            held = self._connection.held(offset, epoch)
            if held < offset:
                _log.warning(
                    "the records %d to %d were lost when the hub lost power; the query goes on at %d, with others",
                    held,
                    offset - 1,
                    held,
                )
            self._known = {known: held}
        return self._known[known]


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stands for a stream that cannot be read as it was asked for: it raises why, whatever it is asked.

    Args:
        error: Why.
    """

    def __init__(self, error: UsageError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """Raise why."""
        raise self._error from None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """Raise why."""
        raise self._error from None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 -- Spark's
        """Raise why."""
        raise self._error from None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002 -- Spark's
        """Raise why."""
        raise self._error from None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 -- Spark's
        """Raise why."""
        raise self._error from None


def _told(offset: int, state: JournalState) -> dict[str, Any]:
    return {"offset": offset, "journal": state.id.hex(), "epoch": state.epoch}


def _shrunk(offset: int, state: JournalState) -> str:
    return (
        f"the query has read up to offset {offset}, the journal ends at {state.head}: it was replaced by an older copy "
        "of itself; begin anew with another checkpointLocation"
    )
