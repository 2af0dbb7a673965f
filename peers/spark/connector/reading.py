"""What one task of a query does: read its share, from the hub or from the tier, for batch queries and streams alike."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from hub.errors import HubError
from peers.spark.connector.connection import Connection
from peers.spark.connector.file import file_tables
from peers.spark.connector.ranges import OffsetRange
from peers.spark.connector.record_batches import RecordBatches
from peers.spark.connector.tier import FileShare

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from peers.spark.connector.options import SourceOptions

_log = logging.getLogger("peers.spark")


def read_share(
    share: InputPartition, schema: StructType, options: SourceOptions, topics: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a share, in the order of their offsets.

    Args:
        share: Which; of another kind where there are no shares, of which Spark makes one.
        schema: The columns wanted.
        options: Of the query.
        topics: Prefixes of the topics wanted.

    Raises:
        JournalReplacedError: The hub has another journal by now.
        DataLostError: Records were deleted before they were read, or could not be read when they were copied.
        PeerError: The hub refuses, or cannot be reached.
        StorageError: A file of the tier is damaged, or cannot be read now.
    """
    try:
        yield from _records(share, schema, options, topics)
    except HubError as error:
        raise error.with_traceback(None) from None  # Spark shows the whole chain before its text, twice


def _records(
    share: InputPartition, schema: StructType, options: SourceOptions, topics: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    lossy = not options.fail_on_data_loss
    made = RecordBatches(schema, options.decode)
    if isinstance(share, FileShare):
        yield from made.table_batches(file_tables(share, topics, lossy=lossy, columns=made.table_columns))
    elif isinstance(share, OffsetRange):
        journal = bytes.fromhex(share.journal)
        connection, columns = Connection(options.access), made.record_columns
        yield from made.batches(
            connection.blocks(
                topics, share.start, share.end, journal=journal, epoch=share.epoch, lossy=lossy, columns=columns
            )
        )
    else:
        return
    troubles = str(made.troubles)
    if troubles:
        _log.warning("offsets %d to %d: %s", share.start, share.end - 1, troubles)
