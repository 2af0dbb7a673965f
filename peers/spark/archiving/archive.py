"""`archive`: what a hub records, kept in an archive, each record once.

```
hub ─ streaming query of shares ─ foreachBatch ─▶ Writing ─ tasks: Staging ─▶ Parquet, IcebergBatches
      checkpoint: ARCHIVE/_hub/checkpoint
```

What makes it exact: Spark writes down which offsets a batch has before it reads them, and that it is done after it was
written; a batch that is repeated in between replaces itself (Parquet) or is recognised (Iceberg).

Once (`availableNow`), or continuously: then a hub that is away is waited for, and small files are merged from time to
time, between two batches.

Owner of the state: the archive's folder, which one job at a time may write. An archive on a file system that only Spark
can reach (`hdfs://`, `s3a://`) is written as well, but has no lock, remembers no topics, and is not compacted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from hub.errors import UsageError
from peers.spark.archiving.compaction import Compacted
from peers.spark.archiving.folders import batches, repair, roots, tables
from peers.spark.archiving.iceberg import METADATA, check_iceberg
from peers.spark.archiving.query import CHEAP_CHECKPOINTS, Watching, run_query
from peers.spark.archiving.state import CHECKPOINT, HUB, ArchiveOrder, ArchiveState, DecodedState, load, locked, store
from peers.spark.archiving.watch import Tally
from peers.spark.archiving.writing import Decoded, Writing

if TYPE_CHECKING:
    from peers.spark.session import Job

__all__ = ["Archived", "archive"]

_WORTH_MERGING = 2
"""Small batches, by a job that ends."""


@dataclass(frozen=True)
class Archived:
    """What was done."""

    tally: Tally
    elapsed_s: float
    compacted: Compacted
    stopped: bool
    """Whether it was told to."""
    decoded: Decoded | None = None
    """What was decoded; None of an archive of values as they came."""


def archive(
    job: Job,
    order: ArchiveOrder,
    every: Callable[[Tally], object] = lambda _: None,
    stop: threading.Event | None = None,
) -> Archived:
    """Archive what the hub has, or what comes until it is told to stop.

    Args:
        job: Where it runs.
        order: What is to be done.
        every: Called with what is done, about once a second.
        stop: Set when it is to end.

    Raises:
        UsageError: It cannot be done so.
        BusyError: Another job writes this archive.
        PySparkException: Spark gave up.
    """
    if order.format == "iceberg":
        check_iceberg(order.path)
        if order.compact:
            raise UsageError("--compact: PyIceberg cannot merge the files of a table")
    if order.compact and not order.is_local:
        raise UsageError("--compact: only archives on a local disk are compacted")
    if (order.schema or order.event_time) and not order.decode:
        raise UsageError("--schema, --event-time: --decode is needed, too")
    if order.decode and not order.is_local:
        raise UsageError("--decode: only archives on a local disk are decoded")
    if order.table_by is not None and not order.is_local:
        raise UsageError("--table-by: only archives on a local disk have a table for each topic")
    begun_s = time.monotonic()
    watching = Watching(Tally(), every, stop or threading.Event())
    with locked(Path(order.path)) if order.is_local else nullcontext():
        state = _prepared(order)
        writing = Writing(job, order, state)
        with _conf(job, CHEAP_CHECKPOINTS if order.is_local else {}):
            run_query(job, order, writing, watching)
        if order.compact and order.every_s is None and not watching.stop.is_set():
            job.progress.tell("merging small files")
            writing.compact(_last_finished(order.path), _WORTH_MERGING)
    decoded = None if state.decoded is None else writing.decoded
    return Archived(watching.tally, time.monotonic() - begun_s, writing.compacted, watching.stop.is_set(), decoded)


def _prepared(order: ArchiveOrder) -> ArchiveState:
    """Repair what was left, and return what the archive is.

    Raises:
        UsageError: It is of another kind, or its checkpoint is missing.
    """
    decoded = DecodedState(StructType().jsonValue(), {}, order.event_time) if order.decode else None
    fresh = ArchiveState(order.format, order.topics or ("",), decoded=decoded, table_by=order.table_by)
    if not order.is_local:
        return fresh
    path = Path(order.path)
    repair(path)
    state = load(path)
    if state is None or not (path / HUB / CHECKPOINT).is_dir():
        _check_empty(path)
    if state is None:
        store(path, fresh)
        return fresh
    if state.format != order.format:
        raise UsageError(f"{path} is an archive of format {state.format}, not {order.format}")
    if order.topics not in {None, state.topics}:
        held = ",".join(state.topics) or "of all prefixes"
        raise UsageError(f"{path} holds the topics {held}: give others a folder of their own")
    if order.table_by not in {None, state.table_by}:
        raise UsageError(f"--table-by: the tables of {path} were made otherwise: begin another archive")
    if order.decode:
        _check_decoded(order, state)
    return state


def _check_decoded(order: ArchiveOrder, state: ArchiveState) -> None:
    """See to it that an archive is decoded in the way that is asked for.

    Raises:
        UsageError: It is not.
    """
    if state.decoded is None:
        raise UsageError(f"{order.path} holds values as they came: decode to a folder of its own")
    if order.event_time not in {"", state.decoded.event_time}:
        held = state.decoded.event_time or "of the hub"
        raise UsageError(f"--event-time: the folders of {order.path} bear dates by the time {held}")


def _check_empty(path: Path) -> None:
    """See to it that no batch is overwritten.

    Raises:
        UsageError: There are some.
    """
    if any(batches(root) for root in roots(path)) or any((table / METADATA).exists() for table in tables(path)):
        raise UsageError(
            f"{path} has batches, but {path / HUB / CHECKPOINT} is missing: nobody knows how far it reaches; "
            "restore it, or begin another archive"
        )


def _last_finished(path: str) -> int:
    """Return the number of the last batch that Spark has marked as done; -1 for none."""
    commits = Path(path) / HUB / CHECKPOINT / "commits"
    return max((int(name.name) for name in commits.glob("[0-9]*")), default=-1)


@contextmanager
def _conf(job: Job, wanted: Mapping[str, str]) -> Iterator[None]:
    """Have settings in the session while the block runs; what somebody has set there already stays as it is."""
    added = [key for key in wanted if job.spark.conf.get(key, None) is None]
    for key in added:
        job.spark.conf.set(key, wanted[key])
    try:
        yield
    finally:
        for key in added:
            job.spark.conf.unset(key)
