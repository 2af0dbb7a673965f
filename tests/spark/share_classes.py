"""Java as the tests start it, and the classes that it shares.

    python -m tests.spark.share_classes

writes down the classes that Spark loads in a short session, in a form that Java only maps: to load them is half of the
work of such a session. It takes as long as two of them, and does nothing where that was done for this Java and this
Spark. Without the file the tests are slower, and the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from peers.spark.session import SessionSettings, java_path, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED_CLASSES = Path(sys.prefix) / "spark-classes.jsa"
"""Of the Spark of this virtual environment."""

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A file that another Java has written is passed over, and classes that cannot be in it, too, without a word."""

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The tests' Javas live for seconds, in which optimising costs more than it gains."""

QUICK_JAVA = " ".join(
    [_SHORT_LIVED, *([f"-XX:SharedArchiveFile={SHARED_CLASSES} {SILENT}"] if SHARED_CLASSES.exists() else [])]
)

QUICK_CONF = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "1",
    # To compile what runs over a few rows costs more than it gains, too.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""The settings of a session."""

_WRITTEN_FOR = SHARED_CLASSES.with_suffix(".txt")


def _java_and_spark() -> str:
    told = subprocess.run([java_path(os.environ), "-version"], capture_output=True, text=True, check=True)
    return f"{told.stderr}{pyspark.__file__} {pyspark.__version__}\n"


def _use(spark: SparkSession, folder: Path) -> None:
    """Do a little of all that tests do: group, write and read files, run a stream and a function in Python."""
    numbers, counts, copy = (str(folder / name) for name in ("numbers", "counts", "copy"))
    frame = spark.range(100).selectExpr("id", "id % 7 AS part", "CAST(id AS STRING) AS text")
    frame.write.partitionBy("part").parquet(numbers)
    frame.groupBy("part").count().orderBy("part").write.parquet(counts)
    spark.read.parquet(numbers).join(spark.read.parquet(counts), "part").collect()
    frame.mapInArrow(lambda batches: batches, frame.schema).collect()
    stream = spark.readStream.schema(spark.read.parquet(numbers).schema).parquet(numbers)
    query = stream.writeStream.option("checkpointLocation", f"{copy}.state").trigger(availableNow=True)
    query.start(copy, format="parquet").awaitTermination()


def _share(made: Path) -> None:
    flags = f"-XX:ArchiveClassesAtExit={made} {_SHORT_LIVED} {SILENT}"
    conf = QUICK_CONF | {"spark.driver.extraJavaOptions": flags}
    settings = SessionSettings(name="share classes", master="local[2]", conf=conf)
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        spark = open_session(settings, log)
        _use(spark, Path(folder))
        spark.stop()
        gateway: Any = pyspark.SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def main() -> None:
    written_for = _java_and_spark()
    if SHARED_CLASSES.exists() and _WRITTEN_FOR.exists() and _WRITTEN_FOR.read_text() == written_for:
        return
    made = SHARED_CLASSES.with_suffix(".new")
    made.unlink(missing_ok=True)
    _share(made)
    if not made.exists():
        sys.stderr.write("make test: this Java shares no classes; the tests of Spark take longer\n")
        return
    made.replace(SHARED_CLASSES)
    _WRITTEN_FOR.write_text(written_for)


if __name__ == "__main__":
    main()
