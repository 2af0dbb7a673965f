"""Deliveries on disk: who gets each message, as Parquet.

```
DELIVERIES/part-*.parquet                offset BIGINT, subscribers ARRAY<INT>, or with pairs: offset, subscriber INT
DELIVERIES/_subscribers/part-*.csv       number, name; readers of the folder skip it
```
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import AnalysisException

from hub.errors import UsageError
from peers.spark.routing.route import Routes

__all__ = ["write_deliveries"]


def write_deliveries(routes: Routes, path: str, *, pairs: bool) -> None:
    """Write deliveries to a new folder.

    Args:
        routes: What was matched.
        path: A local folder, or a URL that this Spark can write to.
        pairs: One row a delivery, rather than one a message.

    Raises:
        UsageError: It exists already.
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
