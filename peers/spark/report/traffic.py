"""Messages, bytes and times of each topic, and from these of each root and of all: one scan of the archive (`Scan`).

Everything else is asked of the table of topics, which Spark keeps until `release`. Where they are few, the table is
fetched instead, for each question to Spark takes some tenths of a second. Cost: the scan, which reads the values to
know their sizes; then what the number of topics costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.archive_files import root_column
from peers.spark.report.findings import Traffic
from peers.spark.report.scan import SUMS, Reading, Scan, summed, together

if TYPE_CHECKING:
    from pyspark import Accumulator

__all__ = ["FETCHED_LIMIT", "TopicTable"]

FETCHED_LIMIT = 10_000
"""Topics that are fetched: 2 MB of this process."""


class TopicTable:
    """`root, topic, messages, bytes, first_us, last_us`, one row a topic.

    Attributes:
        undated: Messages that have no time and are left out.

    Args:
        scan: Of the archive.
    """

    def __init__(self, scan: Scan) -> None:
        undated = scan.spark.sparkContext.accumulator(0)
        found = scan.sums(partial(_by_topic, undated), f"topic STRING, {SUMS}")
        self._table = found.groupBy(root_column(F.col("topic")).alias("root"), "topic").agg(*_sums()).persist()
        fetched = self._table.limit(FETCHED_LIMIT + 1).collect()
        self.undated = undated.value
        self._few: list[Any] | None = fetched if len(fetched) <= FETCHED_LIMIT else None

    def release(self) -> None:
        """Let Spark forget it."""
        self._table.unpersist()

    def total(self) -> tuple[Traffic, int] | None:
        """Return what came in all, and the number of topics; None if nothing did."""
        if self._few is not None:
            return (_together("", self._few), len(self._few)) if self._few else None
        (row,) = self._table.agg(F.lit("").alias("name"), *_sums(), F.count("*").alias("topics")).collect()
        return None if not row.topics else (_traffic(row), row.topics)

    def roots(self, limit: int) -> tuple[Traffic, ...]:
        """Return the roots with the most messages."""
        if self._few is not None:
            of_root: dict[str, list[Any]] = {}
            for row in self._few:
                of_root.setdefault(row.root, []).append(row)
            return _first((_together(root, rows) for root, rows in of_root.items()), "messages", limit)
        return _rows(_most(self._table.groupBy(F.col("root").alias("name")).agg(*_sums()), "messages", limit))

    def topics(self, by: str, limit: int) -> tuple[Traffic, ...]:
        """Return the topics with the most `messages` or `bytes`."""
        if self._few is not None:
            return _first((_together(row.topic, [row]) for row in self._few), by, limit)
        return _rows(_most(self._table.withColumnRenamed("topic", "name"), by, limit))

    def all_topics(self, limit: int) -> pa.Table:
        """Return all of it, those with the most messages first; not more than `limit`."""
        return self._table.orderBy(F.desc("messages"), "topic").limit(limit).toArrow()


def _by_topic(
    undated: Accumulator[int], reading: Reading, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    def parts() -> Iterator[pa.Table]:
        for batch in batches:
            chosen = reading.chosen(batch)
            undated.add(chosen.undated)
            found = summed({"topic": pa.array(chosen.numbers)}, chosen)
            topics = pa.array(chosen.topics, pa.string()).take(found.column("topic"))
            yield found.set_column(0, "topic", topics)

    return together(parts(), ["topic"])


def _together(name: str, rows: Sequence[Any]) -> Traffic:
    return Traffic(
        name,
        sum(row.messages for row in rows),
        sum(row.bytes for row in rows),
        min(row.first_us for row in rows),
        max(row.last_us for row in rows),
    )


def _first(found: Iterable[Traffic], by: str, limit: int) -> tuple[Traffic, ...]:
    """Return those with the most; where several have as many, by name, as Spark sorts them."""
    return tuple(sorted(found, key=lambda traffic: (-getattr(traffic, by), traffic.name))[:limit])


def _sums() -> tuple[Column, ...]:
    return (
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
    )


def _most(table: DataFrame, by: str, limit: int) -> DataFrame:
    return table.orderBy(F.desc(by), "name").limit(limit)


def _rows(table: DataFrame) -> tuple[Traffic, ...]:
    return tuple(map(_traffic, table.collect()))


def _traffic(row: Any) -> Traffic:
    return Traffic(row.name, row.messages, row.bytes, row.first_us, row.last_us)
