"""Matching when topics are few: each distinct topic is matched once, and messages find it in a broadcast table.

```
messages ── distinct topics ──▶ driver, or workers by Arrow: the hub's multimap ──▶ topic → longest prefix
    └──────────── broadcast join on topic ◀──────────────────────────────────────────────┘
                       └───── broadcast join on prefix ◀── prefix → subscribers
```

The tables in the memory of each executor are as large as the topics and the prefixes, not as their product. Cost: two
scans of the topics' column, 2 to 5 µs of Python a distinct topic, one hash lookup and one copy of a list a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.routing.matcher import LongestPrefix, Matcher

__all__ = ["ends_by_topic", "ends_of", "match_collected", "match_distributed", "sum_topics"]


def sum_topics(messages: DataFrame, *, sized: bool) -> DataFrame:
    """Return `topic, messages, bytes`, one row a topic.

    Args:
        messages: With `topic` and `size`.
        sized: Whether bytes are wanted, which are the bulk of what is read; 0 if not.
    """
    size = F.sum("size").cast("long") if sized else F.lit(0).cast("long")
    return messages.groupBy("topic").agg(F.count("*").alias("messages"), size.alias("bytes"))


def match_collected(topics: pa.Table, messages: DataFrame, matcher: Matcher) -> DataFrame:
    """Match topics here.

    Args:
        topics: What `sum_topics` gives.
        messages: Of the session in which the result is to be used.
        matcher: Of the subscriptions.

    Returns:
        The topics with their `longest` prefix, null if they have none.
    """
    return messages.sparkSession.createDataFrame(_with_longest(topics, matcher.longest))


def match_distributed(topics: DataFrame, matcher: Matcher) -> DataFrame:
    """The same in the workers, kept for further use."""
    longest = matcher.longest

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _with_longest(pa.Table.from_batches([batch]), longest).to_batches()

    matched = topics.mapInArrow(match, "topic STRING, messages BIGINT, bytes BIGINT, longest INT")
    return matched.persist()


def _with_longest(topics: pa.Table, longest: LongestPrefix) -> pa.Table:
    found = [longest.of(topic) for topic in topics.column("topic").to_pylist()]
    return topics.append_column("longest", pa.array(found, pa.int32()))


def ends_of(matched: DataFrame) -> dict[int | None, tuple[int, int]]:
    """Return messages and bytes by the number of their longest prefix; None for those that have none."""
    rows: list[Any] = matched.groupBy("longest").agg(F.sum("messages"), F.sum("bytes")).collect()
    return {longest: (messages, size_bytes) for longest, messages, size_bytes in rows}


def ends_by_topic(messages: DataFrame, matched: DataFrame) -> DataFrame:
    """Return `offset, longest`, one row for each message that anybody gets."""
    known = matched.where("longest IS NOT NULL").select("topic", "longest")
    return messages.select("offset", "topic").join(F.broadcast(known), "topic").select("offset", "longest")
