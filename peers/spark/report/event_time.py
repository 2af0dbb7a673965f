"""Messages of an archive by the time that they speak of, in place of the time at which the hub took them.

In a decoded archive it is the column `event_time`; else it is looked up in the values, which are msgpack: then each
message is decoded once, in Python, which takes 1 to 2 us, and what comes of it is kept by Spark for the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from hub.errors import UsageError
from peers.spark.archiving.state import DecodedState
from peers.spark.archiving.typed_columns import EVENT_TIME
from peers.spark.archiving.typed_rows import moments
from peers.spark.selection import Selection, microseconds

__all__ = ["by_event_time", "within"]

_COLUMNS = "root STRING, topic STRING, size INT, timestamp TIMESTAMP"


def by_event_time(messages: DataFrame, name: str, decoded: DecodedState | None) -> DataFrame:
    """Return `root, topic, size, timestamp`: that of a field, NULL where a message has none.

    Args:
        messages: Of an archive.
        name: Of the field.
        decoded: What the columns of a decoded archive are; None where values stand as they came.

    Raises:
        UsageError: The archive was decoded with another event time, or without one.
    """
    if decoded is None:
        return messages.select("root", "topic", "size", "value").mapInArrow(_Dated(name).batches, _COLUMNS)
    if name not in {decoded.event_time, EVENT_TIME} or not decoded.event_time:
        held = f"by {decoded.event_time}" if decoded.event_time else "without --event-time"
        raise UsageError(f"--event-time {name}: the archive was decoded {held}")
    return messages.select("root", "topic", "size", F.col(EVENT_TIME).alias("timestamp"))


def within(messages: DataFrame, selection: Selection) -> DataFrame:
    """Return those that have a time, in the time that is selected."""
    time_us = F.unix_micros("timestamp")
    dated = messages.where("timestamp IS NOT NULL")
    if selection.start is not None:
        dated = dated.where(time_us >= microseconds(selection.start))
    if selection.end is not None:
        dated = dated.where(time_us < microseconds(selection.end))
    return dated


class _Dated:
    """What a task does.

    Args:
        name: Of the field.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield messages with their time in place of their value."""
        for batch in batches:
            times = pa.array(moments(batch.column("value").to_pylist(), self._name), pa.timestamp("us", "UTC"))
            yield pa.RecordBatch.from_arrays(
                [batch.column("root"), batch.column("topic"), batch.column("size"), times],
                names=["root", "topic", "size", "timestamp"],
            )
