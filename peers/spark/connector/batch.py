"""`BatchReader`: a range of the journal as it is now, for `spark.read`.

What is read is fixed when the query is planned: records that come later, and the journal of a hub that is replaced
meanwhile, are not mixed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from peers.spark.connector.connection import Connection
from peers.spark.connector.errors import OptionError, shortened
from peers.spark.connector.options import EARLIEST, SourceOptions
from peers.spark.connector.positions import resolve_end, resolve_start
from peers.spark.connector.reading import read_share
from peers.spark.connector.tier import Sought, plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class BatchReader(DataSourceReader):
    """Plans and reads.

    Args:
        schema: The columns wanted.
        options: Of the query.
    """

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options

    @shortened
    def partitions(self) -> list[InputPartition]:
        """Return the shares of the tasks.

        Raises:
            OptionError: Start and end make no sense.
            DataLostError: The start was deleted.
            PeerError: The hub refuses, or cannot be reached.
        """
        options = self._options
        connection = Connection(options.access)
        state = connection.state()
        position = options.starting or EARLIEST
        start = resolve_start(position, state, connection, lossy=not options.fail_on_data_loss)
        end = resolve_end(options.ending, state, connection)
        if start > end and "time" not in {position.kind, options.ending.kind}:
            raise OptionError(f"startingOffsets {start} are behind endingOffsets {end}")
        sought = Sought(start, end, state.id.hex(), options.topics, epoch=state.epoch)
        return plan(sought, options.tier, options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one share. Raises as `read_share`."""
        return read_share(partition, self._schema, self._options, self._options.topics)
