"""`Scan`: the messages of an archive, summed up by the tasks that read them.

```
files ──▶ task: Parquet ─▶ Arrow ─▶ selected ─▶ sums ──▶ Spark puts the sums of all tasks together
```

So what passes through Java is a row for each topic or cell, not for each message. Files that only Spark can reach
(`hdfs://`, `s3a://`) are read by it; their rows come to the tasks. Cost: 0.2 to 0.3 µs of CPU a message of 100 bytes;
where the time of a message is looked up in its value, 1 to 2 µs more, in each scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from hub.errors import UsageError
from peers.spark.archive_files import decoded_state, local_files, read_archive
from peers.spark.archiving.typed_columns import EVENT_TIME, SIZE
from peers.spark.archiving.typed_rows import moments
from peers.spark.selection import Selection, microseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SUMS", "Chosen", "Reading", "Scan", "summed", "together"]

SUMS = "messages BIGINT, bytes BIGINT, first_us BIGINT, last_us BIGINT"
"""What `summed` tells of each group, as columns of Spark."""

_BATCH_ROWS = 128 * 1024
_HELD_ROWS = 256 * 1024
"""So many groups of single batches are held before they are put together."""


class Chosen(NamedTuple):
    """Messages of a batch that are selected, and have a time."""

    topics: list[str]
    """Distinct ones; some may have no messages."""
    numbers: np.ndarray[Any, Any]
    """Of the topic of each message."""
    times_us: np.ndarray[Any, Any]
    sizes: np.ndarray[Any, Any]
    undated: int
    """Messages without a time."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a task reads.

    Attributes:
        prefixes: Topics that start with one of these; all without any.
        start_us: Not before it.
        end_us: Before it.
        event_time: Field of the messages whose time counts; empty for the time of the hub.
        is_decoded: Whether there are sizes in place of values, and event times in place of fields.
        is_dated: Whether the archive was decoded with event times, by which it is selected.
    """

    prefixes: tuple[str, ...] = ()
    start_us: int | None = None
    end_us: int | None = None
    event_time: str = ""
    is_decoded: bool = False
    is_dated: bool = False

    def columns(self) -> list[str]:
        """Return the columns that are needed for `chosen`."""
        sized = SIZE if self.is_decoded else "value"
        return ["topic", "timestamp", sized, *([EVENT_TIME] if self.is_dated else [])]

    def chosen(self, rows: pa.Table | pa.RecordBatch) -> Chosen:
        """Return what is selected."""
        times = self._times(rows)
        topics = rows.column("topic")
        topics = topics.combine_chunks() if isinstance(topics, pa.ChunkedArray) else topics
        topics = topics if isinstance(topics, pa.DictionaryArray) else topics.dictionary_encode()
        names = topics.dictionary.to_pylist()
        numbers = topics.indices.to_numpy(zero_copy_only=False)
        sizes = rows.column(SIZE) if self.is_decoded else pc.binary_length(rows.column("value"))
        sizes = pc.fill_null(sizes, 0).to_numpy().astype(np.int64)
        keep = np.ones(len(numbers), bool)
        if self.prefixes:
            begins = np.array([name.startswith(self.prefixes) for name in names], bool)
            keep = begins[numbers] if names else keep
        is_dated = times.is_valid().to_numpy(zero_copy_only=False) if times.null_count else None
        undated = 0 if is_dated is None else int(np.count_nonzero(keep & ~is_dated))
        keep = keep if is_dated is None else keep & is_dated
        times_us = pc.fill_null(times, 0).to_numpy()
        keep &= self._inside(times_us if self.event_time else self._by(rows))
        if not keep.all():
            numbers, times_us, sizes = numbers[keep], times_us[keep], sizes[keep]
        return Chosen(names, numbers, times_us, sizes, undated)

    def offsets(self, rows: pa.Table | pa.RecordBatch) -> np.ndarray[Any, Any]:
        """Return the offsets that are selected by time."""
        offsets: np.ndarray[Any, Any] = rows.column("offset").to_numpy()
        return offsets[self._inside(self._by(rows))] if self._is_bounded else offsets

    def offset_columns(self) -> list[str]:
        """Return the columns that are needed for `offsets`."""
        times = ["timestamp", *([EVENT_TIME] if self.is_dated else [])]
        return ["offset", *(times if self._is_bounded else [])]

    def _times(self, rows: pa.Table | pa.RecordBatch) -> Any:
        """Return the times that count, µs since 1970 UTC."""
        if not self.event_time:
            return rows.column("timestamp").cast(pa.int64())
        if self.is_decoded:
            return rows.column(EVENT_TIME).cast(pa.int64())
        return pa.array(moments(rows.column("value").to_pylist(), self.event_time), pa.int64())

    @property
    def _is_bounded(self) -> bool:
        return self.start_us is not None or self.end_us is not None

    def _by(self, rows: pa.Table | pa.RecordBatch) -> np.ndarray[Any, Any]:
        """Return the times by which folders are named."""
        times = rows.column("timestamp")
        if self.is_dated:
            times = pc.coalesce(rows.column(EVENT_TIME), times)
        times_us: np.ndarray[Any, Any] = times.cast(pa.int64()).to_numpy()
        return times_us

    def _inside(self, times_us: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        inside = np.ones(len(times_us), bool)
        if self.start_us is not None:
            inside &= times_us >= self.start_us
        if self.end_us is not None:
            inside &= times_us < self.end_us
        return inside


Sums = Callable[[Reading, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task makes of the batches that it reads."""


class Scan:
    """Reads an archive, as often as it is asked to.

    Args:
        spark: The session.
        path: Of the archive.
        selection: Which messages.
        event_time: Field of the messages whose time counts; empty for the time of the hub.

    Attributes:
        spark: The session.

    Raises:
        UsageError: There is no archive, it needs a package that is not installed, or has other event times.
    """

    def __init__(self, spark: SparkSession, path: str, selection: Selection, event_time: str = "") -> None:
        decoded = decoded_state(path)
        known = {decoded.event_time, EVENT_TIME} if decoded is not None and decoded.event_time else set()
        if event_time and decoded is not None and event_time not in known:
            held = f"by {decoded.event_time}" if decoded.event_time else "without --event-time"
            raise UsageError(f"--event-time {event_time}: the archive was decoded {held}")
        self.reading = Reading(
            prefixes=tuple(selection.prefixes),
            start_us=None if selection.start is None else microseconds(selection.start),
            end_us=None if selection.end is None else microseconds(selection.end),
            event_time=event_time,
            is_decoded=decoded is not None,
            is_dated=decoded is not None and bool(decoded.event_time),
        )
        self.spark = spark
        # Folders and offsets do not know the time that messages speak of.
        self._wide = replace(self.reading, prefixes=(), event_time="")
        self._wide = replace(self._wide, start_us=None, end_us=None) if event_time else self._wide
        in_time = Selection(selection.prefixes) if event_time else selection
        self._frames = [self._read(path, one) for one in (in_time, in_time._replace(prefixes=()))]

    def _read(self, path: str, selection: Selection) -> DataFrame:
        """Return the files, or the rows where only Spark can read them."""
        files = local_files(path, selection)
        if files is None:
            return read_archive(self.spark, path, selection)
        tasks = self.spark.sparkContext.defaultParallelism
        largest = sorted(files, key=lambda file: -Path(file).stat().st_size)
        # Spark cuts the list into as many stretches: each has large and small ones.
        dealt = [[file] for begin in range(tasks) for file in largest[begin::tasks]]
        return self.spark.createDataFrame(dealt, "path STRING")

    def sums(self, sums: Sums, schema: str) -> DataFrame:
        """Return what tasks make of the messages that are selected.

        Args:
            sums: It is given what to read, and batches with these columns.
            schema: Of what it yields.
        """
        return self._summed(self._frames[0], self.reading, self.reading.columns(), sums, schema)

    def offset_sums(self, sums: Sums, schema: str) -> DataFrame:
        """Return the same of the offsets in that time, of all topics; by event time, of the whole archive."""
        return self._summed(self._frames[1], self._wide, self._wide.offset_columns(), sums, schema)

    def _summed(self, frame: DataFrame, reading: Reading, columns: list[str], sums: Sums, schema: str) -> DataFrame:
        if frame.columns == ["path"]:
            return frame.mapInArrow(lambda files: sums(reading, _read_files(files, columns)), schema)
        return frame.select(*(F.col(name) for name in columns)).mapInArrow(partial(sums, reading), schema)


def _read_files(files: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for path in (path for batch in files for path in batch.column("path").to_pylist()):
        with pq.ParquetFile(path, read_dictionary=["topic"]) as file:
            yield from file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False)


def summed(keys: dict[str, pa.Array], chosen: Chosen) -> pa.Table:
    """Return messages, bytes, first and last time of each group of messages."""
    rows = pa.table({**keys, "bytes": chosen.sizes, "first_us": chosen.times_us})
    sums = [("bytes", "count"), ("bytes", "sum"), ("first_us", "min"), ("first_us", "max")]
    found = rows.group_by(list(keys), use_threads=False).aggregate(sums)
    return found.rename_columns([*keys, "messages", "bytes", "first_us", "last_us"])


def together(parts: Iterable[pa.Table], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the sums of groups that several batches may have."""
    sums = [("messages", "sum"), ("bytes", "sum"), ("first_us", "min"), ("last_us", "max")]
    held: list[pa.Table] = []
    rows = 0

    def merged() -> pa.Table:
        found = pa.concat_tables(held).group_by(list(keys), use_threads=False).aggregate(sums)
        return found.rename_columns([*keys, *(name for name, _ in sums)])

    for part in parts:
        held.append(part)
        rows += len(part)
        if rows >= _HELD_ROWS:
            whole = merged()
            if len(whole) > _HELD_ROWS // 2:
                yield from whole.to_batches()
                held, rows = [], 0
            else:
                held, rows = [whole], len(whole)
    if held:
        yield from merged().to_batches()
