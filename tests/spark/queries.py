"""Streaming queries as the tests run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_stream(
    spark: SparkSession,
    options: Mapping[str, object],
    look: Callable[[DataFrame, int], None],
    checkpoint: Path,
) -> dict[str, Any]:
    stream = spark.readStream.format("hub").options(**options).load()  # type: ignore[arg-type]
    query = (
        stream.writeStream.foreachBatch(look)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    return {} if progress is None else dict(progress)


def lose_commit(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink()
