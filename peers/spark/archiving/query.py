"""`run_query`: the streaming query behind an archive, from its start to its end, or begun again.

The connector waits for a hub that is away for some seconds, then Spark gives up on the query. A job that is to go on
for good begins it again, from its checkpoint.

Each query starts a Python worker of its own, and Spark gives that 10 seconds to start (`createSimpleWorker` of its
`PythonWorkerFactory`; no setting changes it). On a busy machine that is too little now and then, and the next attempt
succeeds: so each job begins such a query again, a few times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from peers.spark.archiving.staging import ShareSource
from peers.spark.archiving.state import CHECKPOINT, HUB, ArchiveOrder
from peers.spark.archiving.watch import Tally
from peers.spark.archiving.writing import Writing

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from peers.spark.session import Job

__all__ = ["AWAY_S", "CHEAP_CHECKPOINTS", "Watching", "run_query"]

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

CHEAP_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
}
"""For the session, where the checkpoint is on a local disk. Spark's own choice, by way of Hadoop's FileContext, takes
30 to 45 ms more for each of the two files that a micro-batch writes; what it does more, to refuse a file that is there
already, the archive's lock does."""


class Watching(NamedTuple):
    """Who looks at it, and how."""

    tally: Tally
    every: Callable[[Tally], object]
    """Called about once a second."""
    stop: threading.Event
    """Set when it is to end."""


_POLL_S = 0.5

AWAY_S = 5.0
"""Between two attempts to reach a hub that is away, on top of what the connector waits."""

_AWAY = "ConnectionLostError"
"""In what Spark says of a query whose source has lost its hub."""

STARTS = 5
"""How often in a row a query is begun whose worker does not start in time: a Python that is broken never does."""

_NO_WORKER = "Python worker failed to connect back"
"""In what Spark says of a query whose worker did not start in time."""


def run_query(job: Job, order: ArchiveOrder, writing: Writing, watching: Watching) -> None:
    """Run it to its end.

    Args:
        job: Where it runs.
        order: What is to be done.
        writing: Writes the batches.
        watching: Counts them.

    Raises:
        StreamingQueryException: Spark gave up.
    """
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 -- heavy

    failed_starts = 0
    while True:
        try:
            _run_once(_start(job, order, writing), writing.rows, watching)
        except StreamingQueryException as error:
            if _NO_WORKER in str(error) and failed_starts < STARTS - 1:
                failed_starts += 1
                job.progress.tell("a worker of Spark did not start in time")
                continue
            if order.every_s is None or _AWAY not in str(error):
                raise
            failed_starts = 0
            job.progress.tell("the hub is away")
            if watching.stop.wait(AWAY_S):
                return
        else:
            return


def _run_once(query: StreamingQuery, rows: dict[int, int], watching: Watching) -> None:
    tally = watching.tally
    try:
        while query.isActive and not watching.stop.wait(_POLL_S):
            tally.take(query.recentProgress, rows)
            watching.every(tally)
        if not query.isActive:
            query.awaitTermination()  # raises what has ended it
    finally:
        query.stop()
        tally.take(query.recentProgress, rows)


def _start(job: Job, order: ArchiveOrder, writing: Writing) -> StreamingQuery:
    source = ShareSource.name() if order.is_local else "hub"
    stream = job.spark.readStream.format(source).options(**writing.source_options()).load()
    written = stream.writeStream.foreachBatch(writing.write).queryName("topichub archive")
    written = written.option("checkpointLocation", f"{order.path}/{HUB}/{CHECKPOINT}")
    if order.every_s is None:
        return written.trigger(availableNow=True).start()
    return written.trigger(processingTime=f"{round(order.every_s * 1000)} milliseconds").start()
