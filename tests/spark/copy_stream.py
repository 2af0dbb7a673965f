"""A streaming query from a hub to the same hub, as a program that can be killed: `/n/` is copied to `/copy`.

python tests/spark/copy_stream.py URL CHECKPOINT OFFSETS_PER_TRIGGER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from peers.spark.session import SessionSettings, open_session
from tests.spark.quick import QUICK_CONF


def main() -> None:
    url, checkpoint, offsets = sys.argv[1:]
    spark = open_session(SessionSettings(name="copy", master="local[2]", conf=QUICK_CONF))
    given = {"url": url, "topics": "/n/", "startingOffsets": "earliest", "maxOffsetsPerTrigger": offsets}
    query = (
        spark.readStream.format("hub")
        .options(**given)
        .load()
        .writeStream.format("hub")
        .options(url=url, topic="/copy", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
