"""Messages, bytes and times of each topic, and from these of each root and of all: one scan of the archive.

Everything else is asked of the table of topics, which Spark keeps until `release`. Cost: the scan, which reads the
values to know their sizes; then what the number of topics costs.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.report.findings import Traffic

__all__ = ["TopicTable"]


class TopicTable:
    """`root, topic, messages, bytes, first_us, last_us`, one row a topic.

    Args:
        messages: With the columns of an archive.
    """

    def __init__(self, messages: DataFrame) -> None:
        time = F.unix_micros("timestamp")
        sums = {
            "messages": F.count("*"),
            "bytes": F.sum("size"),
            "first_us": F.min(time),
            "last_us": F.max(time),
        }
        grouped = messages.groupBy("root", "topic")
        self._table = grouped.agg(*(column.alias(name) for name, column in sums.items())).persist()

    def release(self) -> None:
        """Let Spark forget it."""
        self._table.unpersist()

    def total(self) -> tuple[Traffic, int] | None:
        """Return what came in all, and the number of topics; None if nothing did."""
        (row,) = self._table.agg(F.lit("").alias("name"), *_sums(), F.count("*").alias("topics")).collect()
        return None if not row.topics else (_traffic(row), row.topics)

    def roots(self, limit: int) -> tuple[Traffic, ...]:
        """Return the roots with the most messages."""
        return _rows(_most(self._table.groupBy(F.col("root").alias("name")).agg(*_sums()), "messages", limit))

    def topics(self, by: str, limit: int) -> tuple[Traffic, ...]:
        """Return the topics with the most `messages` or `bytes`."""
        return _rows(_most(self._table.withColumnRenamed("topic", "name"), by, limit))

    def all_topics(self, limit: int) -> pa.Table:
        """Return all of it, those with the most messages first; not more than `limit`."""
        return self._table.orderBy(F.desc("messages"), "topic").limit(limit).toArrow()


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
