"""Count messages by topic in windows of ten seconds, on Spark, and publish the counts to the hub they came from.

    hub run --journal journal --journal-topics /zeek/,/app/
    python examples/windowed_counts.py tcp://127.0.0.1:7400 checkpoint
    hub pub --ndjson zeek-logs.ndjson.gz --topic '/zeek/{_path}' --speed 60

The page of the hub (http://127.0.0.1:7401/) shows the counts live under /app/counts. A window is counted when messages
have come that are 5 seconds younger than its end. It says when it is ready, and counts what was recorded before, too.
Stop it with Ctrl-C; started again with the same checkpoint, it goes on where it was, and each count stands in the
journal once.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it


def main() -> None:
    """Run until it is stopped."""
    url, checkpoint = sys.argv[1:]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers are the first python3 of the PATH
    spark = SparkSession.builder.master("local[2,4]").appName("windowed counts").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    source = spark.readStream.format("hub").option("url", url).option("topics", "/zeek/")
    messages = source.option("startingOffsets", "earliest").load()
    counts = (
        messages.withWatermark("timestamp", "5 seconds")
        .groupBy(F.window("timestamp", "10 seconds"), F.col("topic").alias("of"))
        .count()
        .select(
            F.lit("/app/counts").alias("topic"),
            F.to_json(F.struct(F.col("window.start").alias("start"), "of", "count")).alias("value"),
        )
    )
    query = (
        counts.writeStream.format("hub")
        .option("url", url)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )
    print("ready: counts go to /app/counts", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main()
