"""Micro-batches as folders of Parquet, on a local disk (`place_batch`) and where only Spark can write (`write_remote`).

A batch goes to its own folders `date=/root=/batch=N`, and replaces what is there: a batch that Spark repeats after a
crash writes the same records to the same place. Each folder gets its place with all its files, so that readers see
whole ones only.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.archive_files import root_column
from peers.spark.archiving.folders import BATCH, place, root_folder, roots
from peers.spark.archiving.staging import StagedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["partitioned", "place_batch", "write_remote"]

_OPTIONS = {
    "partitionOverwriteMode": "dynamic",
    "compression": "zstd",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # no _SUCCESS: it would speak of one batch
}


def place_batch(archive: Path, files: Iterable[StagedFile], batch: int, *, is_first: bool) -> None:
    """Move the files of a batch to their folders.

    Args:
        archive: Its folder.
        files: All of the batch.
        batch: Its number.
        is_first: Whether a job that was killed may have written it before; then what it had and has no more is deleted.
    """
    folders: defaultdict[Path, list[Path]] = defaultdict(list)
    for file in files:
        table = f"table={file.table}" if file.table else ""
        folders[archive / table / f"date={file.date}" / root_folder(file.root) / f"{BATCH}{batch}"].append(
            Path(file.path)
        )
    for folder, moved in folders.items():
        place(folder, moved, moved[0].with_suffix(".batch"))
    before = [root / f"{BATCH}{batch}" for root in roots(archive)] if is_first else []
    for folder in before:
        if folder not in folders and folder.exists():
            shutil.rmtree(folder)


def partitioned(frame: DataFrame) -> DataFrame:
    """Return records with the columns that name their folders."""
    return frame.select("*", F.to_date("timestamp").alias("date"), root_column(F.col("topic")).alias("root"))


def write_remote(frame: DataFrame, path: str, batch: int) -> None:
    """Write a batch to a file system that only Spark can reach: under a hidden name first, then folder by folder."""
    (
        partitioned(frame)
        .withColumn("batch", F.lit(batch).cast("bigint"))
        .write.mode("overwrite")
        .options(**_OPTIONS)
        .partitionBy("date", "root", "batch")
        .parquet(path)
    )
