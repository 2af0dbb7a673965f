"""What came when: rates in buckets of time, and gaps, from one scan of the archive.

```
bucket   │               │               │         as wide as rates are wanted
cell     │   │   │   │   │   │   │   │   │         a part of it, no wider than what counts as a gap
root a     ••  •  •• •     •           •           a gap cannot be within a cell: it begins at the last message of one
                            ╰── gap ──╯            and ends at the first message of the next that has any
```

So gaps are found exactly without sorting messages. Cost: the scan, then what roots times cells that have messages cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.report.findings import OTHERS, Gap, Rate

__all__ = ["Timeline"]


class Timeline:
    """Messages by root, bucket and cell; those of some topics apart.

    Args:
        messages: With the columns of an archive.
        bucket_us: Width of a bucket.
        gap_us: Stretches longer than this are gaps; 1 or more.
        talkers: Topics whose rates are wanted.
    """

    def __init__(self, messages: DataFrame, bucket_us: int, gap_us: int, talkers: Sequence[str]) -> None:
        self._gap_us = gap_us
        time = F.unix_micros("timestamp")
        cells = -(-bucket_us // gap_us)
        cut = messages.select(
            "root",
            F.when(F.col("topic").isin(list(talkers)), F.col("topic")).alias("talker"),
            (time - F.pmod(time, F.lit(bucket_us))).alias("start_us"),
            _whole(F.pmod(time, F.lit(bucket_us)), max(1, bucket_us // cells)).alias("cell"),
            time.alias("time_us"),
            "size",
        )
        self._cells = (
            cut.groupBy("root", "talker", "start_us", "cell")
            .agg(
                F.count("*").alias("messages"),
                F.sum("size").alias("bytes"),
                F.min("time_us").alias("first_us"),
                F.max("time_us").alias("last_us"),
            )
            .persist()
        )

    def release(self) -> None:
        """Let Spark forget it."""
        self._cells.unpersist()

    def root_rates(self, roots: Sequence[str]) -> tuple[Rate, ...]:
        """Return the rates of these roots, and of all others together."""
        root = F.col("root")
        return _rates(self._cells.withColumn("name", F.when(root.isin(list(roots)), root).otherwise(OTHERS)))

    def topic_rates(self) -> tuple[Rate, ...]:
        """Return the rates of the topics that were named."""
        return _rates(self._cells.where("talker IS NOT NULL").withColumnRenamed("talker", "name"))

    def gaps(self, limit: int) -> tuple[tuple[Gap, ...], int]:
        """Return the longest gaps, not more than `limit`, and how many there are."""
        cells = self._cells.groupBy("root", "start_us", "cell").agg(
            F.min("first_us").alias("next_us"), F.max("last_us").alias("cell_last_us")
        )
        before = F.lag("cell_last_us").over(Window.partitionBy("root").orderBy("next_us"))
        length = F.col("next_us") - F.col("last_us")
        gaps = cells.withColumn("last_us", before).where(length > self._gap_us).select("root", "last_us", "next_us")
        longest = gaps.orderBy(length.desc(), "root", "last_us").limit(limit).collect()
        return tuple(Gap(*row) for row in longest), len(longest) if len(longest) < limit else gaps.count()


def _whole(dividend: Column, divisor: int) -> Column:
    """Divide whole numbers; Spark's own `/` makes floats of them."""
    return F.call_function("div", dividend, F.lit(divisor))


def _rates(cells: DataFrame) -> tuple[Rate, ...]:
    rates = cells.groupBy("name", "start_us").agg(F.sum("messages"), F.sum("bytes")).orderBy("name", "start_us")
    return tuple(Rate(*row) for row in rates.collect())
