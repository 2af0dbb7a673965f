"""From the longest prefix of each message to all subscribers that it goes to: one broadcast join on a number."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.routing.matcher import Matcher

__all__ = ["with_subscribers"]


def with_subscribers(ends: DataFrame, matcher: Matcher) -> DataFrame:
    """Return `offset, subscribers`.

    Args:
        ends: `offset, longest`, one row for each message that anybody gets.
        matcher: That `longest` is of.

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
