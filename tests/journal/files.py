"""What the tests of the journal share: files with records whose content tells their place, and ways to hurt them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from hub.batch import Batch
from hub.journal.block import Block, Record
from peers.journal import merging, store
from peers.journal.store import Retention, Store
from peers.journal.view import View

ALL = Retention(bytes=1 << 50, age_us=1 << 60)
"""Everything is kept."""

AT_US = 1_700_000_000_000_000
"""A time, µs since 1970."""


def frames(topic: str, *values: Any) -> bytes:
    """One MESSAGES frame."""
    return Batch.of(topic, values).frames


def numbered(numbers: Sequence[int], *, topics: int = 3, padding: int = 0) -> bytes:
    """One frame each: the number and some bytes, under topics in turn."""
    return b"".join(frames(f"/t/{number % topics}", [number, b"." * padding]) for number in numbers)


def fill(journal: Store, *counts: int, padding: int = 0) -> None:
    """Commit so many numbered records each time, a second apart."""
    for count in counts:
        first = journal.next
        at_us = AT_US + first * 1_000_000
        journal.add([(at_us, numbered(range(first, first + count), padding=padding))])
        journal.commit(now_us=at_us)


def opened(path: Path, *, retention: Retention = ALL, full_sync: bool = False) -> Store:
    """A store."""
    return Store(str(path), full_sync=full_sync, retention=retention)


def records(blocks: Sequence[bytes]) -> list[Record]:
    """What blocks hold."""
    return [record for block in blocks for record in Block.parse(block).records()]


def everything(path: Path, *prefixes: str) -> list[Record]:
    """All records of a journal."""
    view = View(str(path))
    try:
        found: list[Record] = []
        extent = view.extent
        start = extent.first
        while start < extent.next:
            piece = view.fetch(start, None, prefixes or ("",), 1 << 20)
            found += records(piece.blocks)
            assert piece.next > start
            start = piece.next
        return found
    finally:
        view.close()


def block_rows(path: Path) -> list[tuple[int, int]]:
    """Where each block begins and ends."""
    view = View(str(path))
    try:
        return [(row.first, row.next) for row in view.rows()]
    finally:
        view.close()


def crashed(path: Path, to: Path) -> Path:
    """What stands on the disk now, as a process would find it after this one was killed."""
    for tail in ("", "-wal"):
        part = Path(f"{path}{tail}")
        if part.exists():
            shutil.copyfile(part, f"{to}{tail}")
    return to


def change(path: Path, statement: str, *values: Any) -> None:
    """Do what no hub does."""
    connection = apsw.Connection(str(path))
    connection.execute(statement, values)
    connection.close()


@contextmanager
def small_blocks(
    monkeypatch: pytest.MonkeyPatch, *, records: int = 16, size: int = 2000, tail: int = 5
) -> Iterator[None]:
    """Blocks that are full sooner, so that few records make many of them."""
    with monkeypatch.context() as patch:
        for module in (merging, store):
            patch.setattr(module, "BLOCK_RECORDS", records)
            patch.setattr(module, "BLOCK_BYTES", size)
            patch.setattr(module, "TAIL_BLOCKS", tail)
        yield


class Failing:
    """A connection of which a statement fails: the one that begins so, the so-manyth time."""

    def __init__(
        self, connection: apsw.Connection, beginning: str, *, at: int = 1, error: apsw.Error | None = None
    ) -> None:
        self._connection = connection
        self._beginning = beginning
        self._left = at
        self._error = error or apsw.FullError("FullError: database or disk is full")

    def execute(self, statement: str, *values: Any) -> Any:
        """Execute, or fail."""
        if statement.startswith(self._beginning):
            self._left -= 1
            if not self._left:
                raise self._error
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@contextmanager
def failing(journal: Store, beginning: str, *, at: int = 1, error: apsw.Error | None = None) -> Iterator[None]:
    """Have a statement of a store fail while the block lasts."""
    connection = journal._connection
    journal._connection = Failing(connection, beginning, at=at, error=error)  # type: ignore[assignment]
    try:
        yield
    finally:
        journal._connection = connection


def clock(*times_us: int) -> Callable[[], int]:
    """A clock that shows one time after the other, then the last."""
    left = list(times_us)
    return lambda: left.pop(0) if len(left) > 1 else left[0]
