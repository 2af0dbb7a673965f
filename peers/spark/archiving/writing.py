"""`Writing`: the micro-batches of one run, written one after the other, and small files merged between them.

```
batch ─▶ tasks: staged as Parquet, with what they saw ─▶ tables and columns grown? stored, staged once more
                                                       └▶ files get their places, or are one commit of each table
```

Types that were written down (`--schema`) are taken in place of those that are seen.

Owner: one job. Invariants: when a batch is written, those before it are finished: Spark has marked them as done. Tables
and columns are stored before a file has them; a batch that is repeated finds the same ones.
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs
from pyspark.sql.types import StructType

from hub.errors import UsageError
from peers.spark.archiving.common_schema import schema_of, write_common_schema
from peers.spark.archiving.compaction import Compacted, compact
from peers.spark.archiving.folders import STAGED
from peers.spark.archiving.iceberg import IcebergBatches
from peers.spark.archiving.parquet import place_batch, write_remote
from peers.spark.archiving.staging import OTHER_TABLE, ShareSource, Staged, StagedFile, Staging
from peers.spark.archiving.state import ArchiveOrder, ArchiveState, store
from peers.spark.archiving.typed_columns import Growth, TypedColumns
from peers.spark.archiving.typed_rows import typed_schema
from peers.spark.connector.inference import Inference
from peers.spark.connector.options import read_source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from peers.spark.session import Job

__all__ = ["COMPACTED_BATCHES", "COMPACTED_LEAST", "STREAMED_OFFSETS", "TABLES_LIMIT", "Decoded", "Writing"]

TABLES_LIMIT = 200
"""Tables of an archive; the topics of later ones go to `OTHER_TABLE`."""

STREAMED_OFFSETS = 2_000_000
"""Default of a batch that is written as it is read; others are held by the driver, and keep the connector's. What a
batch costs beside its rows is as much as some 250,000 rows."""

COMPACTED_BATCHES = 64
"""A continuous job looks for small files after so many batches."""

COMPACTED_LEAST = 16
"""Then, so many small batches are merged or more."""


@dataclass
class Decoded:
    """What a job has decoded."""

    added: list[str] = field(default_factory=list)
    """Columns."""
    widened: list[str] = field(default_factory=list)
    """The same."""
    rest: int = 0
    """Messages of which something stands in `_rest`."""
    undated: int = 0
    """Messages without an event time."""

    def grow(self, growth: Growth, table: str = "") -> None:
        """Count what has changed."""
        begin = f"{table}." if table else ""
        self.added += [begin + name for name in growth.added]
        self.widened += [begin + name for name in growth.widened]


class Writing:
    """Writes batches.

    Args:
        job: Where it runs.
        order: What is to be done.
        state: Of the archive.

    Attributes:
        rows: Records of batches that were written and not counted yet, by their numbers.

    Raises:
        UsageError: The columns that were written down cannot be those of this archive.
    """

    def __init__(self, job: Job, order: ArchiveOrder, state: ArchiveState) -> None:
        self.rows: dict[int, int] = {}
        self.compacted = Compacted()
        self.decoded = Decoded()
        self._job = job
        self._order = order
        self._state = state
        self._since_compaction = 0
        self._is_first = True
        self._is_full = False
        self._widens = order.format == "parquet"
        self._named = schema_of(order.schema) if order.schema else StructType()
        if order.is_local:
            job.spark.dataSource.register(ShareSource)
        if state.decoded is not None:
            self._name()

    def _name(self) -> None:
        """Have the columns that were written down, and those of all tables where other tools look for them."""
        named = self._named
        TypedColumns().named(named, widens=self._widens)
        tables = self._tables()
        for table, columns in tables.items():
            own = [column for column in named.fields if not table or column.name in columns.fields]
            tables[table], growth = columns.named(StructType(own), widens=self._widens)
            self.decoded.grow(growth, table)
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

    def source_options(self) -> dict[str, str]:
        """Return the options of the source."""
        order = self._order
        given = {
            "url": order.url,
            "topics": ",".join(self._state.topics),
            "startingOffsets": order.starting,
            "failOnDataLoss": "false" if order.lossy else "true",
        }
        most = order.max_offsets or (STREAMED_OFFSETS if order.format == "parquet" else None)
        if most is not None:
            given["maxOffsetsPerTrigger"] = str(most)
        if order.consumer:
            given["consumer"] = order.consumer
        secured = {"token": order.token, "tokenFile": order.token_file}
        secured |= {"ca": order.ca, "certificate": order.certificate, "key": order.key}
        return given | {name: text for name, text in secured.items() if text}

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write a batch; for `foreachBatch`. One that was merged already is in the archive."""
        order = self._order
        if order.is_local:
            self.rows[batch] = 0
            if order.format != "parquet" or batch > self._state.compacted:
                self._write_staged(frame, batch)
        else:
            write_remote(frame, order.path, batch)
        self._is_first = False
        self._since_compaction += 1
        if order.every_s is not None and order.compact and self._since_compaction >= COMPACTED_BATCHES:
            self.compact(batch - 1, COMPACTED_LEAST)

    def _write_staged(self, shares: DataFrame, batch: int) -> None:
        archive = Path(self._order.path).resolve()
        folder = archive / STAGED / uuid.uuid4().hex
        try:
            staged = self._staged(shares, str(folder))
            self.rows[batch] = staged.rows
            if self._order.format == "parquet":
                place_batch(archive, staged.files, batch, is_first=self._is_first)
            else:
                self._commit(staged.files, _query_id(shares), batch)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.decoded.rest += staged.rest
        self.decoded.undated += staged.undated
        if not self._is_full and any(file.table == OTHER_TABLE for file in staged.files):
            self._is_full = True
            self._job.progress.warn(
                f"{self._order.path} has {TABLES_LIMIT} tables, which is the limit: the topics of all others go to "
                f"table={OTHER_TABLE}; with fewer levels (--table-by) another archive has fewer tables"
            )

    def _commit(self, files: Iterable[StagedFile], query: str, batch: int) -> None:
        """Write each table. One that has this batch already recognises it."""
        by_table: defaultdict[str, list[pa.Table]] = defaultdict(list)
        for file in files:
            by_table[file.table].append(_rows(file))
        for table, rows in sorted(by_table.items()):
            IcebergBatches(self._order.path, table).write(pa.concat_tables(rows), query, batch)

    def _staged(self, shares: DataFrame, folder: str) -> Staged:
        """Have tasks stage a batch; once more where that shows columns or tables that are to be made first."""
        state, before = self._state, self._tables()
        staging = Staging(
            options=read_source_options(self.source_options(), streaming=True),
            folder=folder,
            levels=state.table_by,
            known=before,
            room=0 if state.table_by is None else max(0, TABLES_LIMIT - len(before)),
            is_decoded=state.decoded is not None,
            event_time="" if state.decoded is None else state.decoded.event_time,
            grows=None if state.decoded is None else partial(_grown, named=self._named, widens=self._widens),
        )
        staged = _run(shares, staging)
        after = self._after(before, staged, staging.room)
        if after != before:
            self._keep(after)
        if staged.is_whole and all(
            after.get(file.table) == before.get(file.table, TypedColumns()) for file in staged.files
        ):
            return staged
        return _run(shares, replace(staging, known=after, room=0, grows=None))

    def _after(self, before: Mapping[str, TypedColumns], staged: Staged, room: int) -> dict[str, TypedColumns]:
        """Return the tables and columns that also hold a batch."""
        known = {*before, *staged.tables[:room]} - {OTHER_TABLE}
        seen: defaultdict[str, Inference] = defaultdict(Inference)
        for name in sorted({*staged.tables, *staged.seen, *(file.table for file in staged.files)}):
            seen[name if name in known else OTHER_TABLE].merge(Inference(staged.seen.get(name)))
        after = dict(before)
        for table, one in seen.items():
            columns = before.get(table, TypedColumns())
            after[table], growth = columns.grown(one.kinds(), self._named, widens=self._widens)
            self.decoded.grow(growth, table)
        return after

    def compact(self, through: int, least: int) -> None:
        """Merge small files.

        Args:
            through: Number of the last finished batch.
            least: Fewest batches that are worth it.
        """
        self._since_compaction = 0
        self.compacted += compact(Path(self._order.path), through, least, lambda: self._compacting(through))

    def _compacting(self, through: int) -> None:
        """Remember which batches are in the archive, before they are moved to other folders."""
        self._state = structs.replace(self._state, compacted=through)
        store(Path(self._order.path), self._state)


def _run(shares: DataFrame, staging: Staging) -> Staged:
    rows = shares.mapInArrow(staging.batches, "staged BINARY").collect()
    return Staged.together(msgspec.json.decode(row.staged, type=Staged) for row in rows)


def _grown(columns: TypedColumns, seen: Inference, named: StructType, *, widens: bool) -> TypedColumns:
    return columns.grown(seen.kinds(), named, widens=widens)[0]


def _query_id(frame: DataFrame) -> str:
    """Return the id of the query, by which a table recognises a batch that is repeated.

    Raises:
        UsageError: Spark does not say it.
    """
    query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query is None:
        raise UsageError("Spark does not say which query this is, so that nothing can be written once")
    return str(query)


def _rows(file: StagedFile) -> pa.Table:
    """Return the rows of a file, with the columns that name its folders."""
    with pq.ParquetFile(file.path) as opened:
        rows = opened.read()
    day = pa.scalar(date.fromisoformat(file.date))
    rows = rows.append_column("date", pa.repeat(day, len(rows)))
    return rows.append_column("root", pa.repeat(pa.scalar(file.root), len(rows)))
