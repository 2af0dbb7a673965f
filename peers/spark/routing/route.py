"""`route`: choose how to match an archive with subscriptions, and what comes of it.

| way | when | output |
|---|---|---|
| `topics` | topics are at most `TOPICS_SHARE` of the messages, and `TOPICS_LIMIT` | lists, and pairs from them |
| `explode` | there are more | pairs, and lists from them |

Up to `COLLECTED_LIMIT` topics are matched by the driver, more of them by the workers. How many there are is not asked
where it shows by itself: the topics of few are simply fetched. Only when they are more, or when the first messages
hardly repeat one, they are estimated, which costs a scan of their column.

Both ways give the same, by the hub's own multimap; see `peers.spark.routing.matcher`. What is written to a disk:

```
DELIVERIES/part-*.parquet                offset BIGINT, subscribers ARRAY<INT>, or with pairs: offset, subscriber INT
DELIVERIES/_subscribers/part-*.csv       number, name; readers of the folder skip it
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from hub.errors import UsageError
from peers.spark.routing import by_topic, exploded
from peers.spark.routing.matcher import Matcher, Totals, Way

__all__ = ["COLLECTED_LIMIT", "TOPICS_LIMIT", "TOPICS_SHARE", "Routes", "route", "write_deliveries"]

COLLECTED_LIMIT = 100_000
"""Topics that the driver matches itself: 0.5 s of its time, 10 MB of its memory."""

TOPICS_LIMIT = 1_000_000
"""Topics that are broadcast: about 100 MB in each executor."""

TOPICS_SHARE = 0.1
"""Of the messages; with more topics than that, finding them and joining back costs more than exploding."""

_HINT_MESSAGES = 4_096
_HINT_SHARE = 0.9
"""If more of the first messages than that have a topic of their own, topics are estimated before they are fetched."""


@dataclass(frozen=True)
class Routes:
    """An archive that is matched with subscriptions."""

    way: Way
    messages: DataFrame
    matcher: Matcher
    matched: DataFrame | None
    """By topics: what `peers.spark.routing.by_topic` makes of them."""

    def totals(self) -> tuple[Totals, int]:
        """Return what goes where, and how many messages there are. Bytes are 0 if they were not asked for."""
        if self.matched is None:
            return self.matcher.shared(exploded.totals_by_prefix(self.messages, self.matcher)), self.messages.count()
        ends = by_topic.ends_of(self.matched)
        known = {longest: sums for longest, sums in ends.items() if longest is not None}
        return self.matcher.totals(known), sum(messages for messages, _ in ends.values())

    def lists(self) -> DataFrame:
        """Return `offset, subscribers`: the numbers of all who get a message; without messages that nobody gets.

        Raises:
            UsageError: The lists are too long; see `LISTED_LIMIT`.
        """
        if self.matched is None:
            return _with_subscribers(exploded.ends_by_prefix(self.messages, self.matcher), self.matcher)
        return _with_subscribers(by_topic.ends_by_topic(self.messages, self.matched), self.matcher)

    def pairs(self) -> DataFrame:
        """Return `offset, subscriber`: one row a delivery.

        Raises:
            UsageError: See `lists`.
        """
        if self.matched is None:
            return exploded.pair_deliveries(self.messages, self.matcher)
        return self.lists().select("offset", F.explode("subscribers").alias("subscriber"))


def route(messages: DataFrame, matcher: Matcher, way: Way = Way.AUTO, *, sized: bool = True) -> Routes:
    """Match messages with subscriptions.

    Args:
        messages: With the columns of an archive.
        matcher: Of the subscriptions.
        way: How; `Way.AUTO` looks at the topics.
        sized: Whether bytes are wanted, too, for which the values must be read.

    Returns:
        What can be asked for totals and deliveries; topics are matched already.
    """
    if way is Way.EXPLODE or (way is Way.AUTO and _hardly_repeat(messages) and _too_many(messages)):
        return Routes(Way.EXPLODE, messages, matcher, None)
    topics = by_topic.sum_topics(messages, sized=sized)
    few: pa.Table = topics.limit(COLLECTED_LIMIT + 1).toArrow()
    if few.num_rows <= COLLECTED_LIMIT:
        return Routes(Way.TOPICS, messages, matcher, by_topic.match_collected(few, messages, matcher))
    if way is Way.AUTO and _too_many(messages):
        return Routes(Way.EXPLODE, messages, matcher, None)
    return Routes(Way.TOPICS, messages, matcher, by_topic.match_distributed(topics, matcher))


def write_deliveries(routes: Routes, path: str, *, pairs: bool) -> None:
    """Write who gets each message to a new folder.

    Args:
        routes: An archive that is matched.
        path: A local folder, or a URL that this Spark can write to.
        pairs: Whether to write one row for each delivery, rather than one for each message.

    Raises:
        UsageError: The folder exists already.
    """
    deliveries = routes.pairs() if pairs else routes.lists()
    try:
        deliveries.write.option("compression", "zstd").parquet(path)
    except AnalysisException as error:
        if error.getCondition() == "PATH_ALREADY_EXISTS":
            raise UsageError(f"{path}: it exists already, and deliveries are written to a new folder") from error
        raise
    names = pa.table({"number": range(len(routes.matcher.names)), "name": routes.matcher.names})
    subscribers = routes.messages.sparkSession.createDataFrame(names)
    subscribers.coalesce(1).write.option("header", value=True).csv(f"{path}/_subscribers")


def _with_subscribers(ends: DataFrame, matcher: Matcher) -> DataFrame:
    """Turn the longest prefix of each message into all subscribers that it goes to: one broadcast join on a number.

    Args:
        ends: `offset, longest`, one row for each message that anybody gets.
        matcher: The numbers in `longest` are those of its prefixes.

    Returns:
        `offset, subscribers`.

    Raises:
        UsageError: The lists are too long; see `LISTED_LIMIT`.
    """
    lists = matcher.lists()
    table = pa.table(
        {
            "longest": pa.array(range(len(lists)), pa.int32()),
            "subscribers": pa.array(lists, pa.list_(pa.int32())),
        }
    )
    subscribers = ends.sparkSession.createDataFrame(table)
    return ends.join(F.broadcast(subscribers), "longest").select("offset", "subscribers")


def _hardly_repeat(messages: DataFrame) -> bool:
    """Whether topics look like being many, from the first messages."""
    first: Any = messages.select("topic").limit(_HINT_MESSAGES).toArrow().column("topic")
    distinct: int = pc.count_distinct(first).as_py()
    return len(first) == _HINT_MESSAGES and distinct > _HINT_SHARE * _HINT_MESSAGES


def _too_many(messages: DataFrame) -> bool:
    row = messages.agg(F.count("*"), F.approx_count_distinct("topic", 0.05)).first()
    count, topics = row if row is not None else (0, 0)
    return bool(topics > TOPICS_LIMIT or topics > TOPICS_SHARE * count)
