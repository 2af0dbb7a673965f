"""Which offsets of an archive are absent: exactly, without sorting those that are there.

```
block of 65,536 offsets   ████████  ██ █ ███  ████████          full if count, least and greatest, and sum agree
                              sorted: holes within it
                                   ◀──────▶ between blocks: last of one, first of the next
```

Only blocks with holes or repeats are looked into. Cost: a scan of the offsets, which are small; for blocks that are
not full a sort of theirs.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.report.findings import Missing, Offsets

__all__ = ["BLOCK_OFFSETS", "find_offsets"]

BLOCK_OFFSETS = 65_536


def find_offsets(messages: DataFrame, limit: int) -> Offsets:
    """Return which offsets are there.

    Args:
        messages: With `offset`, not selected by topic; one or more.
        limit: How many ranges are listed.
    """
    offsets = messages.select("offset", F.call_function("div", F.col("offset"), F.lit(BLOCK_OFFSETS)).alias("block"))
    blocks = _blocks(offsets).persist()
    odd = _odd(offsets, blocks).persist()
    try:
        ((first, last),) = blocks.agg(F.min("first"), F.max("last")).collect()
        missing = _between(blocks).unionByName(odd.where("next > first"))
        longest = missing.orderBy(_length().desc(), "first").limit(limit).collect()
        if len(longest) < limit:
            absent, ranges = sum(row.next - row.first for row in longest), len(longest)
        else:
            ((absent, ranges),) = missing.agg(F.sum(_length()), F.count("*")).collect()
        repeated = odd.where("next < first").count()
    finally:
        odd.unpersist()
        blocks.unpersist()
    return Offsets(first, last, absent, ranges, repeated, tuple(sorted(Missing(*found) for found in longest)))


def _length() -> Column:
    return F.col("next") - F.col("first")


def _blocks(offsets: DataFrame) -> DataFrame:
    """Return each block's `first, last`, and whether it is `full` between them."""
    place = F.col("offset") - F.col("block") * BLOCK_OFFSETS
    sums = offsets.groupBy("block").agg(
        F.count("*").alias("count"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.sum(place).alias("places"),
    )
    ends = F.col("first") + F.col("last") - 2 * F.col("block") * BLOCK_OFFSETS
    # An offset that is absent and one that is there twice could make up for each other in the count, hardly in the sum.
    full = (F.col("count") == F.col("last") - F.col("first") + 1) & (2 * F.col("places") == ends * F.col("count"))
    return sums.select("block", "first", "last", full.alias("full"))


def _between(blocks: DataFrame) -> DataFrame:
    """Return the ranges `first, next` between one block's last offset and the next one's first."""
    before = F.lag("last").over(Window.orderBy("block"))  # blocks are few: 15,000 of a billion offsets
    ranges = blocks.select((before + 1).alias("first"), F.col("first").alias("next"))
    return ranges.where("next > first")


def _odd(offsets: DataFrame, blocks: DataFrame) -> DataFrame:
    """Return `first, next` where an offset does not follow the one before it in its block: greater, or the same again.

    If it is the same again, `next` is less than `first`.
    """
    looked_into = F.broadcast(blocks.where("NOT full").select("block"))
    before = F.lag("offset").over(Window.partitionBy("block").orderBy("offset"))
    steps = offsets.join(looked_into, "block", "left_semi").select(
        (before + 1).alias("first"), F.col("offset").alias("next")
    )
    return steps.where("next != first")
