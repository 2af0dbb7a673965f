"""`ParquetBatches`: micro-batches as folders of Parquet.

A batch goes to its own folders `date=/root=/batch=N`, and replaces what is there: a batch that Spark repeats after a
crash writes the same records to the same place. Spark writes all of it under a hidden name and then moves folder by
folder, so that readers see whole ones only. A batch that was compacted already is not written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.archive_files import root_of
from peers.spark.archiving.typed_columns import EVENT_TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ParquetBatches", "partitioned"]

_OPTIONS = {
    "partitionOverwriteMode": "dynamic",
    "compression": "zstd",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # no _SUCCESS: it would speak of one batch
}

WRITERS = {"spark.sql.maxConcurrentOutputFileWriters": "32"}
"""For the session: so many files are open at a time before Spark sorts rows by folder."""


def partitioned(frame: DataFrame) -> DataFrame:
    """Return records with the columns that name their folders: the date of the event time, where there is one."""
    time = F.coalesce(EVENT_TIME, "timestamp") if EVENT_TIME in frame.columns else F.col("timestamp")
    return frame.select("*", F.to_date(time).alias("date"), root_of(F.col("topic")).alias("root"))


class ParquetBatches:
    """Writes batches.

    Args:
        path: Of the archive.
        compacted: Number of the last batch that may have been compacted; -1 for none.
    """

    def __init__(self, path: str, compacted: int = -1) -> None:
        self._path = path
        self._compacted = compacted

    def write(self, frame: DataFrame, batch: int) -> bool:
        """Write a batch; False if it is in the archive already, in a folder that was merged."""
        if batch <= self._compacted:
            return False
        (
            partitioned(frame)
            .withColumn("batch", F.lit(batch).cast("bigint"))
            .write.mode("overwrite")
            .options(**_OPTIONS)
            .partitionBy("date", "root", "batch")
            .parquet(self._path)
        )
        return True
