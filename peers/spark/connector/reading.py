"""What one task of a query does: read its range of offsets. The same for batch queries and streams."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from peers.spark.connector.connection import Connection
from peers.spark.connector.ranges import OffsetRange
from peers.spark.connector.record_batches import RecordBatches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from peers.spark.connector.options import SourceOptions

__all__ = ["read_range"]

_log = logging.getLogger("peers.spark")


def read_range(
    share: OffsetRange, schema: StructType, options: SourceOptions, topics: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range.

    Args:
        share: Which.
        schema: The columns wanted.
        options: Of the query.
        topics: Prefixes of the topics wanted.

    Raises:
        JournalReplacedError: The hub has another journal by now.
        DataLostError: Records were deleted before they were read.
        PeerError: The hub refuses, or cannot be reached.
    """
    made = RecordBatches(schema, options.decode)
    blocks = Connection(options.access).blocks(
        topics, share.start, share.end, journal=bytes.fromhex(share.journal), lossy=not options.fail_on_data_loss
    )
    yield from made.batches(blocks)
    troubles = str(made.troubles)
    if troubles:
        _log.warning("offsets %d to %d: %s", share.start, share.end - 1, troubles)
