"""Merging small batches; no Spark here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from peers.spark.archiving import compaction, folders
from peers.spark.archiving.compaction import Compacted, compact, groups
from peers.spark.archiving.folders import batches, exchange, hidden_name, repair, roots
from tests.spark.archives import archived, write_archive

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
    told: list[str] = []
    assert compact(archive, 3, begin=lambda: told.append("begin")) == Compacted(8, 2)
    assert layout(archive) == {"root=a": [3, 4], "root=b": [3, 4]}
    assert sorted(offsets(archive)) == list(range(150))
    root_a = [offset for offset in offsets(archive) if offset % 3 != 1]
    assert root_a == sorted(root_a)
    assert told == ["begin"]
    assert compact(archive, 3) == Compacted()


def test_merged_files_are_what_the_small_ones_were(tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", 3)
    before = pq.read_schema(next(archive.rglob("*.parquet")))
    compact(archive, 2)
    (part,) = (next(roots(archive)) / "batch=2").glob("*.parquet")
    assert pq.read_schema(part).equals(before)
    metadata = pq.ParquetFile(part).metadata
    assert metadata.num_row_groups == 1
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_too_few_are_left(tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", 5)
    assert compact(archive, 4, least=6) == Compacted()
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
            patched.setattr(compaction, step, crash)
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


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(*_: Any) -> None:
        raise OSError

    return lambda: monkeypatch.setattr(os, "link", refuse)


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, no_links: Callable[[], None]) -> None:
    archive = make(tmp_path / "archive", 3)
    no_links()
    compact(archive, 1)
    assert sorted(offsets(archive)) == list(range(90))
