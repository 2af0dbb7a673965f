"""`query_id`: which streaming query a batch is of, so that what has numbered batches can tell one that is repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hub.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["query_id"]

_QUERY_ID = "sql.streaming.queryId"


def query_id(frame: DataFrame) -> str:
    """Return the id of the query, which stands in its checkpoint.

    Raises:
        UsageError: Spark does not say it.
    """
    query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if query is None:
        raise UsageError("Spark does not say which query this is, so that nothing can be written once")
    return str(query)
