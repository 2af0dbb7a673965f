"""`Writing`: the micro-batches of one run, written one after the other, and small files merged between them.

Owner: one job. Invariant: when a batch is written, those before it are finished: Spark has marked them as done.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from peers.spark.archiving.common_schema import schema_of, write_common_schema
from peers.spark.archiving.compaction import Compacted, compact
from peers.spark.archiving.decoding import Decoded, Decoding
from peers.spark.archiving.delta import DeltaBatches
from peers.spark.archiving.iceberg import IcebergBatches
from peers.spark.archiving.parquet import ParquetBatches
from peers.spark.archiving.state import ArchiveOrder, ArchiveState, DecodedState, store
from peers.spark.archiving.typed_columns import Growth, TypedColumns
from peers.spark.archiving.typed_rows import typed_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COMPACTED_BATCHES", "COMPACTED_LEAST", "Writing"]

COMPACTED_BATCHES = 64
"""A continuous job looks for small files after so many batches."""

COMPACTED_LEAST = 16
"""Then, so many small batches are merged or more."""


class Writing:
    """Writes batches.

    Args:
        spark: The session.
        order: What is to be done.
        state: Of the archive.

    Raises:
        UsageError: The columns that were written down cannot be those of this archive.
    """

    def __init__(self, spark: SparkSession, order: ArchiveOrder, state: ArchiveState) -> None:
        self._order = order
        self._state = state
        self._since_compaction = 0
        self._decoding = None if state.decoded is None else self._decode(spark, state.decoded)
        self._batches = self._make()
        self.compacted = Compacted()

    def _make(self) -> DeltaBatches | IcebergBatches | ParquetBatches:
        path = self._order.path
        match self._order.format:
            case "delta":
                return DeltaBatches(path)
            case "iceberg":
                return IcebergBatches(path)
            case "parquet":
                return ParquetBatches(path, self._state.compacted)

    def _decode(self, spark: SparkSession, state: DecodedState) -> Decoding:
        order = self._order
        widens = order.format == "parquet"
        columns = TypedColumns.of_state(state.schema, state.fields)
        growth = Growth()
        if order.schema:
            columns, growth = columns.named(schema_of(order.schema), widens=widens)
        self._keep_columns(columns)
        decoding = Decoding(
            spark, columns, state.event_time, fixed=bool(order.schema), widens=widens, keep=self._keep_columns
        )
        decoding.done().grow(growth)
        return decoding

    def _keep_columns(self, columns: TypedColumns) -> None:
        """Remember the columns, and tell other tools of them, before there is a file that has them."""
        path = Path(self._order.path)
        known = self._state.decoded or DecodedState({}, {})
        decoded = structs.replace(known, schema=columns.schema.jsonValue(), fields=dict(columns.fields))
        self._state = structs.replace(self._state, decoded=decoded)
        store(path, self._state)
        if self._state.format == "parquet":
            write_common_schema(path, typed_schema(columns, decoded.event_time))

    def decoded(self) -> Decoded:
        """Return what was decoded."""
        return Decoded() if self._decoding is None else self._decoding.done()

    def source_options(self) -> dict[str, str]:
        """Return the options of the source."""
        order = self._order
        given = {
            "url": order.url,
            "topics": ",".join(self._state.topics),
            "startingOffsets": order.starting,
            "failOnDataLoss": "false" if order.lossy else "true",
        }
        if order.max_offsets is not None:
            given["maxOffsetsPerTrigger"] = str(order.max_offsets)
        if order.consumer:
            given["consumer"] = order.consumer
        secured = {"token": order.token, "tokenFile": order.token_file}
        secured |= {"ca": order.ca, "certificate": order.certificate, "key": order.key}
        return given | {name: text for name, text in secured.items() if text}

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write a batch; for `foreachBatch`."""
        with nullcontext(frame) if self._decoding is None else self._decoding.typed(frame) as rows:
            self._batches.write(rows, batch)
        self._since_compaction += 1
        if self._order.every_s is not None and self._order.compact and self._since_compaction >= COMPACTED_BATCHES:
            self.compact(batch - 1, COMPACTED_LEAST)

    def compact(self, through: int, least: int) -> None:
        """Merge small files.

        Args:
            through: Number of the last finished batch.
            least: Fewest batches that are worth it.
        """
        self._since_compaction = 0
        if isinstance(self._batches, DeltaBatches):
            self.compacted += self._batches.compact()
        else:
            self.compacted += compact(Path(self._order.path), through, least, lambda: self._compacting(through))

    def _compacting(self, through: int) -> None:
        """Remember which batches are in the archive, before they are moved to other folders."""
        self._state = structs.replace(self._state, compacted=through)
        store(Path(self._order.path), self._state)
        self._batches = self._make()
