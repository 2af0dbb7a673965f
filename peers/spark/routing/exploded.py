"""Matching when topics are too many: each message is joined with the prefixes at every length that a prefix has.

```
/zeek/dns/7  ── lengths 0, 6, 9 ──▶  "", "/zeek/", "/zeek/d"...  ── broadcast join ──▶  those that are prefixes
```

Nothing depends on how many topics there are, nor on how many prefixes; the cost is messages times lengths. All of it
runs in Java. Lengths are characters, as those of Python's texts are.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.routing.matcher import Matcher

__all__ = ["ends_by_prefix", "pair_deliveries", "totals_by_prefix"]


def pair_deliveries(messages: DataFrame, matcher: Matcher) -> DataFrame:
    """Return `offset, subscriber`, one row a delivery."""
    return _joined(messages, matcher, "offset").select("offset", F.explode("added").alias("subscriber"))


def ends_by_prefix(messages: DataFrame, matcher: Matcher) -> DataFrame:
    """Return `offset, longest`, one row for each message that anybody gets.

    The prefixes of one message meet again in a shuffle of two numbers each, which is what costs most here.
    """
    return _joined(messages, matcher, "offset").groupBy("offset").agg(F.max("number").alias("longest"))


def totals_by_prefix(messages: DataFrame, matcher: Matcher) -> list[tuple[int, int]]:
    """Return messages and bytes that have each prefix."""
    sized = messages.select("topic", F.col("size").cast("long"))
    summed = _joined(sized, matcher, "size").groupBy("number").agg(F.count("*"), F.sum("size"))
    found = {number: (count, size) for number, count, size in summed.collect()}
    return [found.get(number, (0, 0)) for number in range(len(matcher.prefixes))]


def _joined(messages: DataFrame, matcher: Matcher, column: str) -> DataFrame:
    """Return `column` of each message with `number` and `added` of each prefix that its topic has."""
    exploded = messages.select(column, F.explode(_beginnings(_lengths(matcher))).alias("prefix"))
    return exploded.join(F.broadcast(_prefixes(messages, matcher)), "prefix")


def _lengths(matcher: Matcher) -> list[int]:
    return sorted({len(prefix) for prefix, added in zip(matcher.prefixes, matcher.added, strict=True) if added})


def _beginnings(lengths: Sequence[int]) -> Column:
    topic = F.col("topic")
    fitting = F.filter(F.array(*map(F.lit, lengths)), lambda length: length <= F.char_length(topic))
    return F.transform(fitting, lambda length: F.substring(topic, F.lit(1), length))


def _prefixes(messages: DataFrame, matcher: Matcher) -> DataFrame:
    """Return `prefix, number, added`, without prefixes that bring nobody: chains without them are as good."""
    kept = [number for number, added in enumerate(matcher.added) if added]
    table = {
        "prefix": pa.array([matcher.prefixes[number] for number in kept], pa.string()),
        "number": pa.array(kept, pa.int32()),
        "added": pa.array([matcher.added[number] for number in kept], pa.list_(pa.int32())),
    }
    return messages.sparkSession.createDataFrame(pa.table(table))
