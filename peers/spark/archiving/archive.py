"""`archive`: what a hub records, kept in an archive, each record once.

```
hub ─ streaming query of shares ─ foreachBatch ─▶ Writing ─ tasks: Staging ─▶ Parquet, IcebergBatches
      checkpoint: ARCHIVE/_hub/checkpoint
```

Spark writes down which offsets a batch has before it reads them, and that the batch is done after it was written; a
batch that is repeated in between replaces itself (Parquet) or is recognised (Iceberg). An archive is a folder, which
one job at a time writes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.types import StructType

from hub.errors import UsageError
from peers.spark.archiving.compaction import Compacted
from peers.spark.archiving.folders import batches, repair, roots, tables
from peers.spark.archiving.iceberg import METADATA, check_iceberg
from peers.spark.archiving.staging import ShareSource
from peers.spark.archiving.state import CHECKPOINT, HUB, ArchiveOrder, ArchiveState, DecodedState, load, locked, store
from peers.spark.archiving.writing import Decoded, Writing

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from peers.spark.session import Job

# So few small batches are merged by a job that ends.
_WORTH_MERGING = 2

_POLL_S = 0.5

AWAY_S = 5.0
"""Between two attempts to reach a hub that is away, after the connector has waited itself."""

STARTS = 5
"""How often in a row a query is started whose worker is late.

Spark gives the Python worker of a query 10 seconds to start (`createSimpleWorker`, without a setting), which is too
little on a busy machine now and then.
"""

# In Spark's errors of a query: its source has lost the hub; its worker was late.
_AWAY = "ConnectionLostError"
_LATE = "Python worker failed to connect back"


class Tally:
    """How far a streaming query is, from the progress that Spark reports; each micro-batch counts once.

    Attributes:
        batches: With records in them.
        messages: Records.
        first: Offset at which reading began, None before the first batch.
        next: Offset behind the last batch.
        head: End of the journal, when the hub was last asked.
    """

    def __init__(self) -> None:
        self.batches = 0
        self.messages = 0
        self.first: int | None = None
        self.next = 0
        self.head = 0
        self._seen: tuple[str, int] = ("", -1)

    def take(self, reports: Iterable[Mapping[str, Any]], rows: MutableMapping[int, int]) -> None:
        """Take the reports of one query, the oldest first; some may have been taken before.

        Args:
            reports: Of Spark.
            rows: Records of batches whose rows Spark has not seen; they are removed.
        """
        for report in reports:
            run, batch = str(report["runId"]), int(report["batchId"])
            if self._seen[0] == run and batch < self._seen[1]:
                continue
            (source,) = report["sources"]
            self.head = _offset(source["latestOffset"], self.head)
            self.next = _offset(source["endOffset"], self.next)
            if source["startOffset"] == source["endOffset"] or (run, batch) == self._seen:
                continue
            self._seen = (run, batch)
            count = rows.pop(batch, int(report["numInputRows"]))
            self.messages += count
            self.batches += bool(count)
            if self.first is None:
                self.first = _offset(source["startOffset"], self.next - count)


def _offset(reported: object, default: int) -> int:
    if isinstance(reported, str):
        reported = json.loads(reported)
    return int(reported["offset"]) if isinstance(reported, Mapping) else default


@dataclass(frozen=True)
class Archived:
    """What a job has done."""

    tally: Tally
    elapsed_s: float
    compacted: Compacted
    stopped: bool
    """Whether `stop` was set."""
    decoded: Decoded | None
    """None of an archive of values."""


def archive(
    job: Job,
    order: ArchiveOrder,
    every: Callable[[Tally], object] = lambda _: None,
    stop: threading.Event | None = None,
) -> Archived:
    """Archive what the hub has; with `every_s`, until it is stopped.

    Args:
        job: Where it runs.
        order: What is archived.
        every: Called with what is done, about once a second.
        stop: Ends the job when it is set.

    Raises:
        UsageError: The order contradicts itself, or the archive.
        BusyError: Another job writes this archive.
        PySparkException: Spark gave up.
    """
    if "://" in order.path:
        raise UsageError(f"{order.path}: an archive is a folder; to other places, Spark writes format('hub') by itself")
    if order.format == "iceberg":
        check_iceberg(order.path)
        if order.compact:
            raise UsageError("--compact: PyIceberg cannot merge the files of a table")
    if (order.schema or order.event_time) and not order.decode:
        raise UsageError("--schema, --event-time: --decode is needed, too")
    begun_s = time.monotonic()
    tally, stop = Tally(), stop or threading.Event()
    with locked(Path(order.path)):
        state = _prepared(order)
        writing = Writing(job, order, state)
        run_query(job, order, writing, tally, every, stop)
        if order.compact and order.every_s is None and not stop.is_set():
            job.progress.step("merging small files")
            writing.compact(_last_finished(order.path), _WORTH_MERGING)
    decoded = None if state.decoded is None else writing.decoded
    return Archived(tally, time.monotonic() - begun_s, writing.compacted, stop.is_set(), decoded)


def _prepared(order: ArchiveOrder) -> ArchiveState:
    """Repair what a killed job has left, and return the state."""
    path = Path(order.path)
    repair(path)
    state = load(path)
    if state is None or not (path / HUB / CHECKPOINT).is_dir():
        _check_empty(path)
    if state is None:
        decoded = DecodedState(StructType().jsonValue(), {}, order.event_time) if order.decode else None
        fresh = ArchiveState(order.format, order.topics or ("",), decoded=decoded, table_by=order.table_by)
        store(path, fresh)
        return fresh
    if state.format != order.format:
        raise UsageError(f"{path} is an archive of format {state.format}, not {order.format}")
    if order.topics not in {None, state.topics}:
        held = ",".join(state.topics) or "of all prefixes"
        raise UsageError(f"{path} holds the topics {held}: give others a folder of their own")
    if order.table_by not in {None, state.table_by}:
        raise UsageError(f"--table-by: the tables of {path} were made otherwise: begin another archive")
    if order.decode and state.decoded is None:
        raise UsageError(f"{order.path} holds values as they came: decode to a folder of its own")
    if state.decoded is not None and order.event_time not in {"", state.decoded.event_time}:
        held = state.decoded.event_time or "of the hub"
        raise UsageError(f"--event-time: the folders of {order.path} bear dates by the time {held}")
    return state


def _check_empty(path: Path) -> None:
    """Check that no batch would be overwritten."""
    if any(batches(root) for root in roots(path)) or any((table / METADATA).exists() for table in tables(path)):
        raise UsageError(
            f"{path} has batches, but {path / HUB / CHECKPOINT} is missing: nobody knows how far it reaches; "
            "restore it, or begin another archive"
        )


def _last_finished(path: str) -> int:
    """Return the number of the last batch that Spark has marked as done; -1 for none."""
    commits = Path(path) / HUB / CHECKPOINT / "commits"
    return max((int(name.name) for name in commits.glob("[0-9]*")), default=-1)


def run_query(  # noqa: PLR0913, PLR0917 -- what one query depends on
    job: Job,
    order: ArchiveOrder,
    writing: Writing,
    tally: Tally,
    every: Callable[[Tally], object],
    stop: threading.Event,
) -> None:
    """Run the streaming query to its end; start it again where its worker was late, or its hub is away."""
    late = 0
    while True:
        try:
            _run_once(_start(job, order, writing), writing.rows, tally, every, stop)
        except StreamingQueryException as error:
            if _LATE in str(error) and late < STARTS - 1:
                late += 1
                job.progress.step("a worker of Spark did not start in time")
                continue
            if order.every_s is None or _AWAY not in str(error):
                raise
            late = 0
            job.progress.step("the hub is away")
            if stop.wait(AWAY_S):
                return
        else:
            return


def _run_once(
    query: StreamingQuery, rows: dict[int, int], tally: Tally, every: Callable[[Tally], object], stop: threading.Event
) -> None:
    try:
        while query.isActive and not stop.wait(_POLL_S):
            tally.take(query.recentProgress, rows)
            every(tally)
        if not query.isActive:
            query.awaitTermination()  # raises what has ended it
    finally:
        query.stop()
        tally.take(query.recentProgress, rows)


def _start(job: Job, order: ArchiveOrder, writing: Writing) -> StreamingQuery:
    stream = job.spark.readStream.format(ShareSource.name()).options(**writing.source_options()).load()
    written = stream.writeStream.foreachBatch(writing.write).queryName("topichub archive")
    written = written.option("checkpointLocation", f"{order.path}/{HUB}/{CHECKPOINT}")
    if order.every_s is None:
        return written.trigger(availableNow=True).start()
    return written.trigger(processingTime=f"{round(order.every_s * 1000)} milliseconds").start()
