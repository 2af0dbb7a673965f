"""`archive`: the journal of a hub, kept in an archive, each record once.

```
batch ─▶ tasks: staged as Parquet, with its kinds     ─▶ tables and columns grown? stored, staged once more
                                                       └▶ files are moved to their folders, or committed to each table
```

Spark stores which offsets a batch has before it reads them, and after it was written that it is done; a batch that is
repeated in between replaces itself (Parquet) or is recognised (Iceberg).
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from hub.errors import UsageError
from peers.spark.archiving.folders import (
    BATCH,
    STAGED,
    batches,
    hidden_name,
    link_files,
    parts,
    place,
    repair,
    replace,
    root_folder,
    roots,
    size_of,
    tables,
)
from peers.spark.archiving.iceberg import METADATA, IcebergBatches, check_iceberg
from peers.spark.archiving.staging import OTHER_TABLE, ShareSource, Staged, StagedFile, Staging
from peers.spark.archiving.state import CHECKPOINT, HUB, ArchiveOrder, ArchiveState, DecodedState, load, locked, store
from peers.spark.archiving.typed import Growth, TypedColumns, schema_of, typed_schema, write_common_schema
from peers.spark.connector.fields import Inference
from peers.spark.connector.options import read_source_options
from peers.spark.connector.record_batches import joined
from peers.spark.session import Job

# Compaction. Per date and root, neighbouring small batches are written into one file under the number of the last of
# them, in a hidden folder; the files of all other batches are linked into it; then the two folders exchange names:
#
#     root=zeek/batch=0 .. batch=9 (small)   batch=10 (large)   batch=11 (not finished)
#     root=zeek/batch=9 (all of 0 to 9)      batch=10           batch=11
#
# The number of the last finished batch is stored before the first exchange: if Spark repeats that batch (its commit was
# lost), the job knows that it is in the archive, in any folder.

SMALL_BYTES = 32 * 1024 * 1024
"""Smaller batches are merged. Above it, opening files costs little of reading them."""

TARGET_BYTES = 128 * 1024 * 1024
"""A merged file stops growing there: Spark's own size of a task."""

# Rows that are held and written together: 100 MB of messages of 100 bytes.
_ROW_GROUP_ROWS = 512 * 1024

# As Spark.
_ZSTD_LEVEL = 3


class Compacted(NamedTuple):
    """How many batches of one date and root were merged, and how many files hold them now."""

    merged: int = 0
    made: int = 0


def compact(archive: Path, through: int, least: int = 2, begin: Callable[[], object] = lambda: None) -> Compacted:
    """Merge small batches up to number `through`, if there are `least` or more neighbours.

    `begin` is called before the first folder is replaced.
    """
    merged = made = 0
    for root in roots(archive):
        found = batches(root)
        sizes = {number: size_of(path) for number, path in found.items() if number <= through}
        merging = [group for group in groups(sizes) if len(group) >= least]
        if merging:
            _make(root, found, merging)
            if not made:
                begin()
            replace(root)
            merged += sum(map(len, merging))
            made += len(merging)
    return Compacted(merged, made)


def groups(sizes: dict[int, int]) -> Iterator[list[int]]:
    group: list[int] = []
    total = 0
    for number, size in sizes.items():
        if group and (size >= SMALL_BYTES or total + size > TARGET_BYTES):
            yield group
            group, total = [], 0
        if size < SMALL_BYTES:
            group.append(number)
            total += size
    if group:
        yield group


def _make(root: Path, found: dict[int, Path], merging: Iterable[list[int]]) -> None:
    hidden = hidden_name(root)
    if hidden.exists():
        shutil.rmtree(hidden)
    merged: set[int] = set()
    for group in merging:
        merged.update(group)
        target = hidden / f"{BATCH}{group[-1]}"
        target.mkdir(parents=True)
        merge([part for number in group for part in parts(found[number])], target / "part-00000.zstd.parquet")
    for number, path in found.items():
        if number not in merged:
            link_files(path, hidden / path.name)


def merge(sources: list[Path], target: Path) -> None:
    """Write the rows of files into one, in their order, and sync it.

    Files of a decoded archive may differ in their columns: the new one has all of them, each as wide as its widest.
    """
    schemas = [pq.read_schema(source) for source in sources]
    schema = schemas[0]
    if not all(other.equals(schema) for other in schemas):
        plain = [other.remove_metadata() for other in schemas]  # Spark's says which columns there are
        schema = pa.unify_schemas(plain, promote_options="permissive")

    def rows() -> Iterator[pa.RecordBatch]:
        for source in sources:
            with pq.ParquetFile(source) as opened:
                for batch in opened.iter_batches():
                    yield _fitted(batch, schema)

    settings: dict[str, Any] = {"compression": "zstd", "compression_level": _ZSTD_LEVEL, "use_dictionary": ["topic"]}
    with target.open("wb") as file:
        with pq.ParquetWriter(file, schema, **settings) as writer:
            for table in joined(rows(), _ROW_GROUP_ROWS, attrgetter("num_rows")):
                writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)
        file.flush()
        os.fsync(file.fileno())


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.names == schema.names:
        return batch.cast(schema) if not batch.schema.equals(schema) else batch
    present = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in present else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


TABLES_LIMIT = 200
"""Tables of an archive; the topics of later ones go to `OTHER_TABLE`."""

# Default of a batch of Parquet; the driver holds one of Iceberg, which keeps the connector's. A batch costs as much as
# some 250,000 rows, beside its rows.
_STREAMED_OFFSETS = 2_000_000

COMPACTED_BATCHES = 64
"""A continuous job looks for small files after so many batches."""

COMPACTED_LEAST = 16


@dataclass
class Decoded:
    """New and wider columns, messages with something in `_rest`, and messages without an event time, of one job."""

    added: list[str] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)
    rest: int = 0
    undated: int = 0

    def grow(self, growth: Growth, table: str = "") -> None:
        begin = f"{table}." if table else ""
        self.added += [begin + name for name in growth.added]
        self.widened += [begin + name for name in growth.widened]


class Writing:
    """Writes the micro-batches of a job, one after the other, and merges small files between them.

    When a batch is written, Spark has marked those before it as done. Tables and columns are stored before a file has
    them; a batch that is repeated finds the same ones. `rows` are the records of batches that were not counted yet.
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
        if state.decoded is None:
            return
        # The columns of `--schema` are stored, and those of all tables are written for other tools.
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
                # A table that has this batch already recognises it by the id of the query.
                query = shares.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
                if query is None:
                    raise UsageError("Spark does not say which query this is, so that nothing can be written once")
                by_table: defaultdict[str, list[pa.Table]] = defaultdict(list)
                for file in staged.files:
                    by_table[file.table].append(_rows(file))
                for table, rows in sorted(by_table.items()):
                    IcebergBatches(self._order.path, table).write(pa.concat_tables(rows), str(query), batch)
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
        return _run(shares, dataclasses.replace(staging, known=after, room=0, grows=None))

    def _after(self, before: Mapping[str, TypedColumns], staged: Staged, room: int) -> dict[str, TypedColumns]:
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
        def begin() -> None:
            # Stored before batches are moved to other folders: these are in the archive.
            self._state = structs.replace(self._state, compacted=through)
            store(Path(self._order.path), self._state)

        self._since_compaction = 0
        merged, made = compact(Path(self._order.path), through, least, begin)
        self.compacted = Compacted(self.compacted.merged + merged, self.compacted.made + made)


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


def _rows(file: StagedFile) -> pa.Table:
    with pq.ParquetFile(file.path) as opened:
        rows = opened.read()
    day = pa.scalar(date.fromisoformat(file.date))
    rows = rows.append_column("date", pa.repeat(day, len(rows)))
    return rows.append_column("root", pa.repeat(pa.scalar(file.root), len(rows)))


_POLL_S = 0.5

AWAY_S = 5.0
"""Between two attempts to reach a hub that is away, after the connector has waited itself."""

STARTS = 5
"""How often in a row a query is started whose worker is late: Spark gives the Python worker of a query 10 seconds to
start (`createSimpleWorker`, without a setting), which is too little on a busy machine now and then."""

# In Spark's errors of a query: its source has lost the hub; its worker was late.
_AWAY = "ConnectionLostError"
_LATE = "Python worker failed to connect back"


class Tally:
    """How far a streaming query is, from the progress that Spark reports; each micro-batch counts once."""

    def __init__(self) -> None:
        self.batches = 0  # with records in them
        self.messages = 0
        self.first: int | None = None  # offset at which reading began
        self.next = 0  # offset behind the last batch
        self.head = 0  # end of the journal, when the hub was last asked
        self._seen: tuple[str, int] = ("", -1)

    def take(self, reports: Iterable[Mapping[str, Any]], rows: MutableMapping[int, int]) -> None:
        """Take the reports of one query, the oldest first; some may have been taken before.

        `rows` are the records of batches whose rows Spark has not seen; they are removed.
        """
        for report in reports:
            run, batch = str(report["runId"]), int(report["batchId"])
            if self._seen[0] == run and batch < self._seen[1]:
                continue
            (source,) = report["sources"]
            self.head = _offset(source["latestOffset"], self.head)
            self.next = _offset(source["endOffset"], self.next)
            if source["startOffset"] == source["endOffset"] or (run, batch) == self._seen:
                continue
            self._seen = (run, batch)
            count = rows.pop(batch, int(report["numInputRows"]))
            self.messages += count
            self.batches += bool(count)
            if self.first is None:
                self.first = _offset(source["startOffset"], self.next - count)


def _offset(reported: object, default: int) -> int:
    if isinstance(reported, str):
        reported = json.loads(reported)
    return int(reported["offset"]) if isinstance(reported, Mapping) else default


@dataclass(frozen=True)
class Archived:
    """The outcome of a job; `decoded` is None of an archive of values."""

    tally: Tally
    elapsed_s: float
    compacted: Compacted
    stopped: bool
    decoded: Decoded | None


def archive(
    job: Job,
    order: ArchiveOrder,
    every: Callable[[Tally], object] = lambda _: None,
    stop: threading.Event | None = None,
) -> Archived:
    """Archive the journal; with `every_s`, until `stop` is set. `every` is called about once a second.

    Raises:
        UsageError: The order contradicts itself, or the archive.
        BusyError: Another job writes this archive.
        PySparkException: Spark gave up.
    """
    order.check()
    if order.format == "iceberg":
        check_iceberg(order.path)
    begun_s = time.monotonic()
    tally, stop = Tally(), stop or threading.Event()
    with locked(Path(order.path)):
        state = _prepared(order)
        writing = Writing(job, order, state)
        run_query(job, order, writing, tally, every, stop)
        if order.compact and order.every_s is None and not stop.is_set():
            job.progress.step("merging small files")
            commits = Path(order.path) / HUB / CHECKPOINT / "commits"  # Spark's marks of batches that are done
            writing.compact(max((int(name.name) for name in commits.glob("[0-9]*")), default=-1), 2)
    decoded = None if state.decoded is None else writing.decoded
    return Archived(tally, time.monotonic() - begun_s, writing.compacted, stop.is_set(), decoded)


def _prepared(order: ArchiveOrder) -> ArchiveState:
    """Repair the folders after a killed job, and return the state."""
    path = Path(order.path)
    repair(path)
    state = load(path)
    if (state is None or not (path / HUB / CHECKPOINT).is_dir()) and (
        any(batches(root) for root in roots(path)) or any((table / METADATA).exists() for table in tables(path))
    ):  # the numbers of batches would begin at 0 again
        raise UsageError(
            f"{path} has batches, but {path / HUB / CHECKPOINT} is missing: its end is unknown; "
            "restore it, or begin another archive"
        )
    if state is None:
        decoded = DecodedState(StructType().jsonValue(), {}, order.event_time) if order.decode else None
        fresh = ArchiveState(order.format, order.topics or ("",), decoded=decoded, table_by=order.table_by)
        store(path, fresh)
        return fresh
    if state.format != order.format:
        raise UsageError(f"{path} is an archive of format {state.format}, not {order.format}")
    if order.topics not in {None, state.topics}:
        held = ",".join(state.topics) or "of all prefixes"
        raise UsageError(f"{path} holds the topics {held}: give others a folder of their own")
    if order.table_by not in {None, state.table_by}:
        raise UsageError(f"--table-by: the tables of {path} were made otherwise: begin another archive")
    if order.decode and state.decoded is None:
        raise UsageError(f"{order.path} holds values as they came: decode to a folder of its own")
    if state.decoded is not None and order.event_time not in {"", state.decoded.event_time}:
        held = state.decoded.event_time or "of the hub"
        raise UsageError(f"--event-time: the folders of {order.path} bear dates by the time {held}")
    return state


def run_query(  # noqa: PLR0913, PLR0917 -- the parts of a query
    job: Job,
    order: ArchiveOrder,
    writing: Writing,
    tally: Tally,
    every: Callable[[Tally], object],
    stop: threading.Event,
) -> None:
    """Run the streaming query to its end; start it again where its worker was late, or its hub is away."""
    late = 0
    while True:
        try:
            _run_once(_start(job, order, writing), writing.rows, tally, every, stop)
        except StreamingQueryException as error:
            if _LATE in str(error) and late < STARTS - 1:
                late += 1
                job.progress.step("a worker of Spark did not start in time")
                continue
            if order.every_s is None or _AWAY not in str(error):
                raise
            late = 0
            job.progress.step("the hub is unreachable")
            if stop.wait(AWAY_S):
                return
        else:
            return


def _run_once(
    query: StreamingQuery, rows: dict[int, int], tally: Tally, every: Callable[[Tally], object], stop: threading.Event
) -> None:
    try:
        while query.isActive and not stop.wait(_POLL_S):
            tally.take(query.recentProgress, rows)
            every(tally)
        if not query.isActive:
            query.awaitTermination()  # raises the error of the query
    finally:
        query.stop()
        tally.take(query.recentProgress, rows)


def _start(job: Job, order: ArchiveOrder, writing: Writing) -> StreamingQuery:
    stream = job.spark.readStream.format(ShareSource.name()).options(**writing.source_options()).load()
    written = stream.writeStream.foreachBatch(writing.write).queryName("topichub archive")
    written = written.option("checkpointLocation", f"{order.path}/{HUB}/{CHECKPOINT}")
    if order.every_s is None:
        return written.trigger(availableNow=True).start()
    return written.trigger(processingTime=f"{round(order.every_s * 1000)} milliseconds").start()
