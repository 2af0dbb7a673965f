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

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.archive_files import root_of
from peers.spark.report.findings import OTHERS, Gap, Rate
from peers.spark.report.scan import SUMS, Reading, Scan, summed, together

__all__ = ["Timeline"]


class Timeline:
    """Messages by root, bucket and cell; those of some topics apart.

    Args:
        scan: Of the archive.
        bucket_us: Width of a bucket.
        gap_us: Stretches longer than this are gaps; 1 or more.
        talkers: Topics whose rates are wanted.
    """

    def __init__(self, scan: Scan, bucket_us: int, gap_us: int, talkers: Sequence[str]) -> None:
        self._gap_us = gap_us
        cells = -(-bucket_us // gap_us)
        cut = partial(_by_cell, bucket_us, max(1, bucket_us // cells), frozenset(talkers))
        found = scan.sums(cut, f"root STRING, talker STRING, start_us BIGINT, cell BIGINT, {SUMS}")
        self._cells = (
            found.groupBy("root", "talker", "start_us", "cell")
            .agg(
                F.sum("messages").alias("messages"),
                F.sum("bytes").alias("bytes"),
                F.min("first_us").alias("first_us"),
                F.max("last_us").alias("last_us"),
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


def _by_cell(
    bucket_us: int, cell_us: int, talkers: frozenset[str], reading: Reading, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    def parts() -> Iterator[pa.Table]:
        for batch in batches:
            chosen = reading.chosen(batch)
            if not chosen.topics:
                continue
            names = [(root_of(topic), topic if topic in talkers else None) for topic in chosen.topics]
            numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
            number_of = np.array([numbers[name] for name in names], np.int32)
            into_us = chosen.times_us % bucket_us
            keys = {
                "name": number_of[chosen.numbers],
                "start_us": chosen.times_us - into_us,
                "cell": into_us // cell_us,
            }
            found = summed(keys, chosen)
            number = found.column("name")
            roots, named = (pa.array(texts, pa.string()).take(number) for texts in zip(*numbers, strict=True))
            yield found.set_column(0, "talker", named).add_column(0, "root", roots)

    return together(parts(), ["root", "talker", "start_us", "cell"])


def _rates(cells: DataFrame) -> tuple[Rate, ...]:
    rates = cells.groupBy("name", "start_us").agg(F.sum("messages"), F.sum("bytes"))
    return tuple(sorted(Rate(*row) for row in rates.collect()))
