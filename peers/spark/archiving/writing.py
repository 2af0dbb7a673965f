"""`Writing`: the micro-batches of one run, written one after the other, and small files merged between them.

Owner: one job. Invariant: when a batch is written, those before it are finished: Spark has marked them as done.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it
from pyspark.sql.types import StructType

from peers.spark.archive_files import table_of
from peers.spark.archiving.common_schema import schema_of, write_common_schema
from peers.spark.archiving.compaction import Compacted, compact
from peers.spark.archiving.decoding import Decoded, Decoding
from peers.spark.archiving.delta import DeltaBatches
from peers.spark.archiving.iceberg import IcebergBatches
from peers.spark.archiving.parquet import ParquetBatches
from peers.spark.archiving.state import ArchiveOrder, ArchiveState, store
from peers.spark.archiving.typed_columns import TypedColumns
from peers.spark.archiving.typed_rows import typed_schema
from peers.spark.connector.inference import Inference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COMPACTED_BATCHES", "COMPACTED_LEAST", "OTHER_TABLE", "STREAMED_OFFSETS", "TABLES_LIMIT", "Writing"]

TABLES_LIMIT = 200
"""Tables of an archive; the topics of later ones go to `OTHER_TABLE`. Each costs some 0.3 s of a batch that has it."""

OTHER_TABLE = "_other"

STREAMED_OFFSETS = 2_000_000
"""Default of a batch that is written as it is read; others are held by Spark or the driver, and keep the connector's.
What a batch costs beside its rows is as much as some 250,000 rows."""

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
        self._widens = order.format == "parquet"
        self._decoding = None
        if state.decoded is not None:
            named = schema_of(order.schema) if order.schema else StructType()
            self._decoding = Decoding(spark, state.decoded.event_time, named, widens=self._widens)
            self._name(named, self._decoding.done())
        self.compacted = Compacted()

    def _name(self, named: StructType, decoded: Decoded) -> None:
        """Have the columns that were written down, and those of all tables where other tools look for them."""
        TypedColumns().named(named, widens=self._widens)
        tables = self._tables()
        for table, columns in tables.items():
            own = [column for column in named.fields if not table or column.name in columns.fields]
            tables[table], growth = columns.named(StructType(own), widens=self._widens)
            decoded.grow(growth, table)
        self._keep(tables)

    def _tables(self) -> dict[str, TypedColumns]:
        """Return the columns of each table; where there is one, its name is empty."""
        state = self._state
        held = {"": state.decoded} if state.table_by is None else state.tables
        return {
            table: TypedColumns() if one is None else TypedColumns.of_state(one.schema, one.fields, one.declared)
            for table, one in held.items()
        }

    def _keep(self, tables: Mapping[str, TypedColumns]) -> None:
        """Remember the tables and tell other tools of their columns, before there is a file that has them."""
        decoded = self._state.decoded
        kept = {
            table: decoded
            and structs.replace(
                decoded,
                schema=columns.schema.jsonValue(),
                fields=dict(columns.fields),
                declared=tuple(sorted(columns.declared)),
            )
            for table, columns in tables.items()
        }
        if self._state.table_by is None:
            self._state = structs.replace(self._state, decoded=kept[""])
        else:
            self._state = structs.replace(self._state, tables=kept)
        store(Path(self._order.path), self._state)
        if decoded is not None and self._state.format == "parquet":
            for table, columns in tables.items():
                folder = Path(self._path(table))
                folder.mkdir(exist_ok=True)
                write_common_schema(folder, typed_schema(columns, decoded.event_time))

    def _path(self, table: str) -> str:
        return f"{self._order.path}/table={table}" if table else self._order.path

    def _batches(self, table: str) -> DeltaBatches | IcebergBatches | ParquetBatches:
        match self._order.format:
            case "delta":
                return DeltaBatches(self._path(table))
            case "iceberg":
                return IcebergBatches(self._order.path, table)
            case "parquet":
                return ParquetBatches(self._path(table), self._state.compacted)

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
        most = order.max_offsets
        if most is None and order.format == "parquet" and self._decoding is None and self._state.table_by is None:
            most = STREAMED_OFFSETS
        if most is not None:
            given["maxOffsetsPerTrigger"] = str(most)
        if order.consumer:
            given["consumer"] = order.consumer
        secured = {"token": order.token, "tokenFile": order.token_file}
        secured |= {"ca": order.ca, "certificate": order.certificate, "key": order.key}
        return given | {name: text for name, text in secured.items() if text}

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write a batch; for `foreachBatch`."""
        if self._decoding is None and self._state.table_by is None:
            self._batches("").write(frame, batch)
        else:
            levels = self._state.table_by
            kept = frame.withColumn(
                "table", F.lit("") if levels is None else table_of(F.col("topic"), levels)
            ).persist()
            try:
                self._write_tables(kept, batch)
            finally:
                kept.unpersist()
        self._since_compaction += 1
        if self._order.every_s is not None and self._order.compact and self._since_compaction >= COMPACTED_BATCHES:
            self.compact(batch - 1, COMPACTED_LEAST)

    def _write_tables(self, frame: DataFrame, batch: int) -> None:
        """Write each table of a batch. One that is repeated finds the same tables, and those that it has written."""
        decoding, before = self._decoding, self._tables()
        if decoding is None:
            seen = {name: Inference() for (name,) in frame.select("table").distinct().collect()}
        else:
            seen = decoding.look(frame)
        room = max(0, TABLES_LIMIT - len(before))
        known = {*before, *sorted(seen.keys() - before.keys())[:room]} - {OTHER_TABLE}
        members: dict[str, list[str]] = {}
        for name in sorted(seen):
            members.setdefault(name if name in known else OTHER_TABLE, []).append(name)
        after = before | {table: before.get(table, TypedColumns()) for table in members}
        if decoding is not None:
            for table, names in members.items():
                after[table] = decoding.grown(table, after[table], (seen[name] for name in names))
        if after != before:
            self._keep(after)
        for table, names in members.items():
            rows = frame.where(F.col("table").isin(names)).drop("table")
            self._batches(table).write(rows if decoding is None else decoding.typed(rows, after[table]), batch)

    def compact(self, through: int, least: int) -> None:
        """Merge small files.

        Args:
            through: Number of the last finished batch.
            least: Fewest batches that are worth it.
        """
        self._since_compaction = 0
        if self._order.format == "delta":
            for table in self._state.tables if self._state.table_by is not None else ("",):
                self.compacted += DeltaBatches(self._path(table)).compact()
        else:
            self.compacted += compact(Path(self._order.path), through, least, lambda: self._compacting(through))

    def _compacting(self, through: int) -> None:
        """Remember which batches are in the archive, before they are moved to other folders."""
        self._state = structs.replace(self._state, compacted=through)
        store(Path(self._order.path), self._state)
