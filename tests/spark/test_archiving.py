"""Parts of an archive job, without Spark."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import DoubleType, FloatType, IntegerType, LongType, StringType, StructType

from hub.errors import BusyError, UsageError
from peers.spark.archiving import archive as archive_module
from peers.spark.archiving import folders, typed
from peers.spark.archiving import staging as module
from peers.spark.archiving.archive import STARTS, Compacted, Tally, Writing, compact, groups, run_query
from peers.spark.archiving.folders import batches, exchange, hidden_name, repair, roots
from peers.spark.archiving.staging import Staged, Staging
from peers.spark.archiving.state import HUB, ArchiveOrder, ArchiveState, load, locked, store
from peers.spark.archiving.typed import Growth, TypedColumns
from peers.spark.connector.options import Access, read_source_options
from peers.spark.connector.shares import OffsetRange
from peers.spark.session import Job
from tests.spark.archives import archived, write_archive
from tests.spark.hubs import HubWithJournal

TOPICS = ["/a/x", "/b/x", "/a/y"]


def make(path: Path, count: int, rows: int = 30) -> Path:
    for batch in range(count):
        write_archive(path, archived(TOPICS * (rows // 3), first=batch * rows), batch)
    return path


def offsets(path: Path) -> list[int]:
    found: list[int] = []
    for root in roots(path):
        for batch in batches(root).values():
            for part in folders.parts(batch):
                found += pq.read_table(part, columns=["offset"])["offset"].to_pylist()
    return found


def layout(path: Path) -> dict[str, list[int]]:
    return {root.name: list(batches(root)) for root in roots(path)}


def test_small_batches_become_one(tmp_path: Path) -> None:
    """Under the number of the last; all records are there, in order; unfinished batches are left alone."""
    archive = make(tmp_path / "archive", 5)
    before = pq.read_schema(next(archive.rglob("*.parquet")))
    told: list[str] = []
    assert compact(archive, 4, least=6) == Compacted()
    assert compact(archive, 3, begin=lambda: told.append("begin")) == Compacted(8, 2)
    assert layout(archive) == {"root=a": [3, 4], "root=b": [3, 4]}
    assert sorted(offsets(archive)) == list(range(150))
    root_a = [offset for offset in offsets(archive) if offset % 3 != 1]
    assert root_a == sorted(root_a)
    assert told == ["begin"]
    (part,) = (next(roots(archive)) / "batch=3").glob("*.parquet")
    assert pq.read_schema(part).equals(before)
    metadata = pq.ParquetFile(part).metadata
    assert metadata.num_row_groups == 1
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert compact(archive, 3) == Compacted()
    assert compact(tmp_path / "nothing", 4) == Compacted()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({}, []),
        ({1: 5}, [[1]]),
        ({1: 5, 2: 5, 7: 5}, [[1, 2, 7]]),
        ({1: 5, 2: 32, 3: 5, 4: 5}, [[1], [3, 4]]),
        (dict.fromkeys(range(6), 31), [[0, 1, 2, 3], [4, 5]]),
    ],
)
def test_groups(sizes: dict[int, int], expected: list[list[int]]) -> None:
    mib = 1024 * 1024
    assert list(groups({number: size * mib for number, size in sizes.items()})) == expected


class CrashError(Exception):
    pass


def crash(*_: Any) -> None:
    raise CrashError


class TestCrashes:
    def check(self, archive: Path) -> None:
        assert sorted(offsets(archive)) == list(range(90))
        self.go_on(archive)

    def go_on(self, archive: Path) -> None:
        repair(archive)
        assert sorted(offsets(archive)) == list(range(90))
        assert not list(archive.rglob(".*root=*"))
        compact(archive, 2)
        assert sorted(offsets(archive)) == list(range(90))
        assert layout(archive) == {"root=a": [2], "root=b": [2]}

    @pytest.mark.parametrize("step", ["merge", "link_files", "replace"])
    def test_while_the_folder_is_made(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        archive = make(tmp_path / "archive", 3)
        with monkeypatch.context() as patched:
            patched.setattr(archive_module, step, crash)
            with pytest.raises(CrashError):
                compact(archive, 1)
        self.check(archive)

    def test_before_the_old_folder_is_deleted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        archive = make(tmp_path / "archive", 3)
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", crash)
            with pytest.raises(CrashError):
                compact(archive, 1)
        assert hidden_name(archive / "date=2026-11-21" / "root=a").exists()
        self.check(archive)

    @pytest.mark.parametrize("renames", [0, 1, 2])
    def test_without_exchange(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int) -> None:
        archive = make(tmp_path / "archive", 3)
        rename = Path.rename
        done: list[Path] = []

        def some(path: Path, target: Path) -> Path:
            if len(done) == renames:
                raise CrashError
            done.append(path)
            return rename(path, target)

        with monkeypatch.context() as patched:
            patched.setattr(folders, "exchange", lambda *_: False)
            patched.setattr(Path, "rename", some)
            patched.setattr(shutil, "rmtree", crash)
            with pytest.raises(CrashError):
                compact(archive, 1)
        assert (archive / "date=2026-11-21" / "root=a").exists() is (renames != 1)
        self.go_on(archive)


def test_without_exchange_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "exchange", lambda *_: False)
    archive = make(tmp_path / "archive", 3)
    compact(archive, 2)
    assert sorted(offsets(archive)) == list(range(90))
    assert not list(archive.rglob(".*root=*"))


def test_exchange(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    if exchange(one, other):
        assert (one / "other").exists()
        assert (other / "one").exists()
    assert not exchange(one, tmp_path / "nothing")


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError

    archive = make(tmp_path / "archive", 3)
    monkeypatch.setattr(os, "link", refuse)
    compact(archive, 1)
    assert sorted(offsets(archive)) == list(range(90))


LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"
AWAY = "[STREAM_FAILED] ... peers.client.errors.ConnectionLostError: the hub is unreachable"


class Query:
    isActive = False  # noqa: N815 -- Spark's name
    recentProgress: tuple[Any, ...] = ()  # noqa: N815 -- the same

    def __init__(self, error: str) -> None:
        self.error = error

    def awaitTermination(self) -> None:  # noqa: N802 -- the same
        if self.error:
            raise StreamingQueryException(self.error)

    def stop(self) -> None:
        pass


Run = Callable[..., list[str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run queries that fail so, one after the other; return the steps that were told until one ends well."""
    monkeypatch.setattr(archive_module, "AWAY_S", 0.001)

    def run(errors: list[str], every_s: float | None = None, told: list[str] | None = None) -> list[str]:
        left = iter(errors)
        told = [] if told is None else told
        monkeypatch.setattr(archive_module, "_start", lambda *_: Query(next(left)))
        job = Job(cast("Any", None), cast("Any", SimpleNamespace(step=told.append)))
        order = ArchiveOrder(access=Access("tcp://h"), path="/x", every_s=every_s)
        writing = cast("Writing", SimpleNamespace(rows={}))
        run_query(job, order, writing, Tally(), lambda _: None, threading.Event())
        assert next(left, None) is None
        return told

    return run


@pytest.mark.parametrize("every_s", [None, 1.0])
def test_a_worker_that_starts_late_is_started_again(run: Run, every_s: float | None) -> None:
    """A few times in a row; a hub that is away ends a job only if that is to end."""
    assert run([LATE, LATE, ""], every_s) == ["a worker of Spark did not start in time"] * 2
    told: list[str] = []
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        run([LATE] * STARTS, every_s, told)
    assert len(told) == STARTS - 1
    late = [LATE] * (STARTS - 1)
    assert run([*late, AWAY, *late, AWAY, ""], 1.0).count("the hub is unreachable") == 2


@pytest.mark.parametrize(("error", "every_s", "said"), [(AWAY, None, "ConnectionLostError"), ("no such", 1.0, "no su")])
def test_other_errors_end_it(run: Run, error: str, every_s: float | None, said: str) -> None:
    with pytest.raises(StreamingQueryException, match=said):
        run([error], every_s)


def report(
    batch: int, rows: int, start: int | None, end: int, *, head: int | None = None, run: str = "a"
) -> dict[str, Any]:
    def told(offset: int | None) -> str | None:
        return None if offset is None else json.dumps({"offset": offset, "journal": "ab"})

    source = {"startOffset": told(start), "endOffset": told(end), "latestOffset": told(end if head is None else head)}
    return {"runId": run, "batchId": batch, "numInputRows": rows, "sources": [source]}


def test_each_batch_counts_once() -> None:
    """Idle reports tell how far a query is; batches without rows count where another query has made them."""
    tally = Tally()
    first, second = report(0, 5, None, 5, head=12), report(1, 4, 5, 10, head=12)
    for reports in ([first], [first], [first, second]):
        tally.take(reports, {})
    assert (tally.batches, tally.messages, tally.first, tally.next, tally.head) == (2, 9, 0, 10, 12)
    tally = Tally()
    tally.take([report(3, 0, 10, 10)], {})
    assert (tally.batches, tally.first, tally.next) == (0, None, 10)
    tally.take([report(3, 0, 10, 10), report(3, 2, 10, 12)], {})
    assert (tally.batches, tally.messages, tally.first, tally.next) == (1, 2, 10, 12)
    tally = Tally()
    tally.take([report(0, 0, 0, 50)], {})
    assert (tally.batches, tally.messages, tally.next) == (0, 0, 50)
    tally.take([report(0, 1, 0, 50, run="b"), report(1, 1, 50, 52, run="b")], {1: 7})
    assert (tally.batches, tally.messages, tally.next) == (2, 8, 52)


COUNT = 24_000


def staged(hub: HubWithJournal, folder: Path, **given: Any) -> Staged:
    with hub.client() as client:
        journal = client.journal().id.hex()
    shares = [OffsetRange(0, 16_000, journal), OffsetRange(16_000, COUNT, journal)]
    batch = pa.record_batch({"share": [pickle.dumps(share) for share in shares]})
    options = read_source_options({"url": hub.url}, streaming=True)
    done = Staging(options=options, folder=str(folder), **given).batches([batch])
    parts = [msgspec.json.decode(part["staged"][0].as_py(), type=Staged) for part in done]
    assert len(parts) == len(shares)
    return Staged.together(parts)


def test_what_a_task_stages(hub: HubWithJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds is bounded. Tables that there is no room for: nothing is written, the driver decides; or one."""
    monkeypatch.setattr(module, "CHUNK_BYTES", 50_000)
    monkeypatch.setattr(module, "FLUSHED_BYTES", 100_000)
    hub.fill_numbers(COUNT, topics=3)
    done = staged(hub, tmp_path, levels=0, known={"n_0": TypedColumns()}, room=2)
    assert (done.rows, done.is_whole, done.tables) == (COUNT, True, ["n_1", "n_2"])
    assert len(done.files) > 6
    found: dict[str, list[int]] = {}
    for file in sorted(done.files, key=lambda file: file.path):
        found.setdefault(file.table, []).extend(pq.read_table(file.path)["offset"].to_pylist())
    assert found == {f"n_{number}": list(range(number, COUNT, 3)) for number in range(3)}
    done = staged(hub, tmp_path, levels=0, room=1)
    assert (done.rows, done.is_whole, done.tables, done.files) == (COUNT, False, ["n_0", "n_1"], [])
    done = staged(hub, tmp_path, levels=0, known={"n_2": TypedColumns()})
    assert done.is_whole
    assert {file.table for file in done.files} == {"n_2", "_other"}
    assert sum(pq.read_metadata(file.path).num_rows for file in done.files) == COUNT


def test_one_job_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BusyError, match="another job writes this archive"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    (tmp_path / HUB).mkdir()
    (tmp_path / HUB / "archive.json").write_text("{")
    with pytest.raises(UsageError, match=r"archive\.json"):
        load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"), locked(tmp_path / "file"):
        pass
    with pytest.raises(UsageError, match=r"archive\.json"):
        store(tmp_path / "nothing", ArchiveState("iceberg", ()))


def types_of(columns: TypedColumns) -> dict[str, str]:
    return {column.name: column.dataType.simpleString() for column in columns.schema.fields}


def test_names() -> None:
    kinds = {"a.b": "BIGINT", "topic": "STRING", "x y": "BIGINT", "A.B": "BIGINT", "": "BIGINT", "x_y": "BIGINT"}
    columns, growth = TypedColumns().grown(kinds, widens=True)
    assert growth.added == ("a.b", "field_topic", "x_y")
    assert columns.fields == {"a.b": "a.b", "field_topic": "topic", "x_y": "x y"}


def test_integers_are_wide_from_the_start() -> None:
    columns, _ = TypedColumns().grown({"a": "BIGINT", "b": "ARRAY<BIGINT>", "c": "STRING"}, widens=True)
    assert types_of(columns) == {"a": "bigint", "b": "array<bigint>", "c": "string"}
    assert columns.grown({"a": "DOUBLE", "b": "ARRAY<DOUBLE>", "c": "BIGINT"}, widens=True) == (columns, Growth())


def test_columns_that_were_written_down_widen() -> None:
    """Integers become larger or reals, which readers take old files for; not where a table knows no widening."""
    columns, _ = TypedColumns().named(StructType().add("a", IntegerType()).add("b", IntegerType()), widens=True)
    grown, growth = columns.grown({"a": "BIGINT", "b": "DOUBLE"}, widens=True)
    assert growth == Growth((), ("a", "b"))
    assert types_of(grown) == {"a": "bigint", "b": "double"}
    assert columns.grown({"a": "BIGINT", "b": "DOUBLE"}, widens=False) == (columns, Growth())


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed, "COLUMNS_LIMIT", 2)
    columns, growth = TypedColumns().grown(dict.fromkeys("abc", "BIGINT"), widens=True)
    assert growth.added == ("a", "b")
    assert columns.grown({"c": "BIGINT", "a": "BIGINT"}, widens=True) == (columns, Growth())


def test_what_is_stored_comes_back() -> None:
    columns, _ = TypedColumns().grown({"a": "ARRAY<STRING>", "topic": "BIGINT"}, widens=True)
    assert TypedColumns.of_state(columns.schema.jsonValue(), columns.fields) == columns


def test_columns_that_are_written_down() -> None:
    """Grow in the same way; a field called like a column of the record is named by that of its column."""
    schema = StructType().add("n", IntegerType()).add("field_topic", StringType()).add("f", FloatType())
    columns, growth = TypedColumns().named(schema, widens=True)
    assert growth.added == ("n", "field_topic", "f")
    assert columns.fields == {"n": "n", "field_topic": "topic", "f": "f"}
    wider, growth = columns.named(StructType().add("n", LongType()).add("f", DoubleType()), widens=True)
    assert growth.widened == ("n", "f")
    assert types_of(wider) == {"n": "bigint", "field_topic": "string", "f": "double"}
    with pytest.raises(UsageError, match="column n is BIGINT in this archive and cannot become INT"):
        wider.named(schema, widens=True)
    with pytest.raises(UsageError, match="column n is INT in this archive and cannot become BIGINT"):
        columns.named(StructType().add("n", LongType()), widens=False)
