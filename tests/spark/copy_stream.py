"""A streaming query from a hub to the same hub, as a program that can be killed: `/n/` is copied to `/copy`.

python tests/spark/copy_stream.py URL CHECKPOINT OFFSETS_PER_TRIGGER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from typing import TYPE_CHECKING

from peers.spark.session import SessionSettings, open_session
from tests.spark.share_classes import QUICK_CONF

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy(spark: SparkSession, url: str, checkpoint: str, offsets: str) -> None:
    given = {"url": url, "topics": "/n/", "startingOffsets": "earliest", "maxOffsetsPerTrigger": offsets}
    written = spark.readStream.format("hub").options(**given).load().writeStream.format("hub")
    written = written.options(url=url, topic="/copy", checkpointLocation=checkpoint)
    written.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    spark = open_session(SessionSettings(name="copy", master="local[2]", conf=QUICK_CONF))
    copy(spark, *sys.argv[1:])
    spark.stop()


if __name__ == "__main__":
    main()
