"""`Writing`: the micro-batches of one job, written one after the other, and small files merged between them.

```
batch ─▶ tasks: staged as Parquet, with what they saw ─▶ tables and columns grown? stored, staged once more
                                                       └▶ files are moved to their folders, or committed to each table
```

Invariants: when a batch is written, Spark has marked those before it as done. Tables and columns are stored before a
file has them; a batch that is repeated finds the same ones.
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
from peers.spark.archiving.compaction import Compacted, compact
from peers.spark.archiving.folders import BATCH, STAGED, place, root_folder, roots
from peers.spark.archiving.iceberg import IcebergBatches
from peers.spark.archiving.staging import OTHER_TABLE, ShareSource, Staged, StagedFile, Staging
from peers.spark.archiving.state import ArchiveOrder, ArchiveState, store
from peers.spark.archiving.typed_columns import Growth, TypedColumns, schema_of, write_common_schema
from peers.spark.archiving.typed_rows import typed_schema
from peers.spark.connector.fields import Inference
from peers.spark.connector.options import read_source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from peers.spark.session import Job

TABLES_LIMIT = 200
"""Tables of an archive; the topics of later ones go to `OTHER_TABLE`."""

# Default of a batch of Parquet; the driver holds one of Iceberg, which keeps the connector's. A batch costs as much as
# some 250,000 rows, beside its rows.
_STREAMED_OFFSETS = 2_000_000

COMPACTED_BATCHES = 64
"""A continuous job looks for small files after so many batches."""

COMPACTED_LEAST = 16
"""It merges so many small batches or more."""


@dataclass
class Decoded:
    """What a job has decoded."""

    added: list[str] = field(default_factory=list)
    """New columns."""
    widened: list[str] = field(default_factory=list)
    """Wider columns."""
    rest: int = 0
    """Messages with something in `_rest`."""
    undated: int = 0
    """Messages without an event time."""

    def grow(self, growth: Growth, table: str = "") -> None:
        """Count new and wider columns."""
        begin = f"{table}." if table else ""
        self.added += [begin + name for name in growth.added]
        self.widened += [begin + name for name in growth.widened]


class Writing:
    """Writes batches.

    Attributes:
        rows: Records of batches that were written and not counted yet, by their numbers.
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
        job.spark.dataSource.register(ShareSource)
        if state.decoded is not None:
            self._name_columns()

    def _name_columns(self) -> None:
        """Store the columns of `--schema`, and write those of all tables for other tools."""
        TypedColumns().named(self._named, widens=self._widens)
        tables = self._tables()
        for table, columns in tables.items():
            own = [column for column in self._named.fields if not table or column.name in columns.fields]
            tables[table], growth = columns.named(StructType(own), widens=self._widens)
            self.decoded.grow(growth, table)
        self._store_tables(tables)

    def _tables(self) -> dict[str, TypedColumns]:
        """Return the columns of each table; the only one has no name."""
        state = self._state
        held = {"": state.decoded} if state.table_by is None else state.tables
        return {
            table: TypedColumns() if one is None else TypedColumns.of_state(one.schema, one.fields, one.declared)
            for table, one in held.items()
        }

    def _store_tables(self, tables: Mapping[str, TypedColumns]) -> None:
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
                folder = Path(self._order.path) / _table_folder(table)
                folder.mkdir(exist_ok=True)
                write_common_schema(folder, typed_schema(columns, decoded.event_time))

    def source_options(self) -> dict[str, str]:
        """Return the options of the source."""
        order, access = self._order, self._order.access
        most = order.max_offsets or (_STREAMED_OFFSETS if order.format == "parquet" else 0)
        given = {
            "url": access.url,
            "token": access.token,
            "tokenFile": access.token_file,
            "ca": access.ca,
            "certificate": access.certificate,
            "key": access.key,
            "topics": ",".join(self._state.topics),
            "startingOffsets": order.starting,
            "failOnDataLoss": "false" if order.lossy else "true",
            "maxOffsetsPerTrigger": str(most or ""),
            "consumer": order.consumer,
        }
        return {name: text for name, text in given.items() if text or name == "topics"}

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write a batch, for `foreachBatch`. One that was merged already is in the archive."""
        order = self._order
        self.rows[batch] = 0
        if order.format != "parquet" or batch > self._state.compacted:
            self._write(frame, batch)
        self._is_first = False
        self._since_compaction += 1
        if order.every_s is not None and order.compact and self._since_compaction >= COMPACTED_BATCHES:
            self.compact(batch - 1, COMPACTED_LEAST)

    def _write(self, shares: DataFrame, batch: int) -> None:
        archive = Path(self._order.path).resolve()
        folder = archive / STAGED / uuid.uuid4().hex
        try:
            staged = self._staged(shares, str(folder))
            self.rows[batch] = staged.rows
            if self._order.format == "parquet":
                _place_batch(archive, staged.files, batch, is_first=self._is_first)
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
        """Write each Iceberg table; a table that has this batch already recognises it."""
        by_table: defaultdict[str, list[pa.Table]] = defaultdict(list)
        for file in files:
            by_table[file.table].append(_rows(file))
        for table, rows in sorted(by_table.items()):
            IcebergBatches(self._order.path, table).write(pa.concat_tables(rows), query, batch)

    def _staged(self, shares: DataFrame, folder: str) -> Staged:
        """Have tasks stage a batch; once more where columns or tables are to be made first."""
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
            self._store_tables(after)
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

        def begin() -> None:
            # Stored before batches are moved to other folders: these are in the archive.
            self._state = structs.replace(self._state, compacted=through)
            store(Path(self._order.path), self._state)

        self._since_compaction = 0
        self.compacted += compact(Path(self._order.path), through, least, begin)


def _table_folder(table: str) -> str:
    return f"table={table}" if table else ""


def _run(shares: DataFrame, staging: Staging) -> Staged:
    rows = shares.mapInArrow(staging.batches, "staged BINARY").collect()
    return Staged.together(msgspec.json.decode(row.staged, type=Staged) for row in rows)


def _grown(columns: TypedColumns, seen: Inference, named: StructType, *, widens: bool) -> TypedColumns:
    return columns.grown(seen.kinds(), named, widens=widens)[0]


def _place_batch(archive: Path, files: Iterable[StagedFile], batch: int, *, is_first: bool) -> None:
    """Move the files of a batch to their folders, in place of those that are there."""
    folders: defaultdict[Path, list[Path]] = defaultdict(list)
    for file in files:
        date_folder = archive / _table_folder(file.table) / f"date={file.date}"
        folders[date_folder / root_folder(file.root) / f"{BATCH}{batch}"].append(Path(file.path))
    for folder, moved in folders.items():
        place(folder, moved, moved[0].with_suffix(".batch"))
    for folder in [root / f"{BATCH}{batch}" for root in roots(archive)] if is_first else []:
        if folder not in folders and folder.exists():
            shutil.rmtree(folder)


def _query_id(frame: DataFrame) -> str:
    """Return the id of the query, by which a table recognises a batch that is repeated."""
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
