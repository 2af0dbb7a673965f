"""The thread that writes: what is committed together, what is told, and that it goes on whatever happens."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hub.errors import JournalUnavailableError, StorageError
from hub.journal.segment import Write
from peers.journal import writer as writer_module
from peers.journal.store import Retention
from peers.journal.writer import ENTRY_OVERHEAD_BYTES, Entry, Probe, Progress, Writer
from tests.journal.files import AT_US, everything, fill, frames, opened

PATIENCE_S = 60.0


class Told:
    def __init__(self) -> None:
        self.news: queue.Queue[tuple[Any, ...]] = queue.Queue()

    def on_committed(self, progress: Progress) -> None:
        self.news.put(("committed", progress))

    def on_failed(self, error: StorageError, next_offset: int) -> None:
        self.news.put(("failed", str(error), next_offset))

    def on_recovered(self, epoch: int, progress: Progress, writes: list[Write]) -> None:
        self.news.put(("recovered", epoch, progress.next, writes))

    def next(self) -> tuple[Any, ...]:
        return self.news.get(timeout=PATIENCE_S)

    def rest(self) -> list[tuple[Any, ...]]:
        return [self.news.get_nowait() for _ in range(self.news.qsize())]


class FakeStore:
    def __init__(self) -> None:
        self.first = self.next = self.size_bytes = 0
        self.writes: list[Write] = []
        self.asked: list[Any] = []
        self.failures: dict[str, list[Exception]] = {}
        self.open = 0
        self.hasty: list[bool] = []

    def fail(self, what: str, *errors: Exception) -> None:
        self.failures[what] = list(errors)

    def _asked(self, what: str, *values: Any) -> None:
        self.asked.append((what, *values))
        if self.failures.get(what):
            raise self.failures[what].pop(0)

    def add(self, parts: list[tuple[int, bytes]], *, in_haste: bool = False) -> None:
        self._asked("add", b"".join(frames for _, frames in parts))
        self.hasty.append(in_haste)
        self.open += sum(len(frames) for _, frames in parts)

    def commit(self, writes: Iterable[Write] = (), *, now_us: int) -> None:
        self._asked("commit", list(writes), now_us)
        self.next += self.open
        self.size_bytes += self.open
        self.open = 0

    def roll_back(self) -> None:
        self.open = 0

    def probe(self) -> None:
        self._asked("probe")

    def close(self) -> None:
        self._asked("close")


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def writer(store: FakeStore) -> Iterator[Writer]:
    writer = Writer(store, 0.0, lambda: 7)  # type: ignore[arg-type]
    yield writer
    if writer._thread.is_alive():
        writer.stop()


def entry(letters: bytes, epoch: int = 0, **mark: Any) -> Entry:
    return Entry(epoch, AT_US, letters, **mark)


def size(*entries: Entry) -> int:
    return sum(one.size_bytes for one in entries)


# Groups.


def test_what_has_come_is_committed_together(writer: Writer, store: FakeStore, told: Told) -> None:
    entries = [entry(b"ab"), entry(b"c")]
    for one in entries:
        writer.submit(one)
    writer.start(told)
    assert told.next() == ("committed", Progress(0, 3, 3, 2, 3 + 2 * ENTRY_OVERHEAD_BYTES))
    writer.stop()
    assert store.asked == [("add", b"abc"), ("commit", [], 7), ("close",)]


def test_a_long_queue_is_several_commits(
    writer: Writer, store: FakeStore, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "GROUP_BYTES", 2 * ENTRY_OVERHEAD_BYTES)
    for letter in b"abcde":
        writer.submit(entry(bytes([letter])))
    writer.start(told)
    assert [told.next()[1].next for _ in range(3)] == [2, 4, 5]
    assert [one[1] for one in store.asked if one[0] == "add"] == [b"ab", b"cd", b"e"]


def test_what_comes_too_fast_is_not_compressed(
    writer: Writer, store: FakeStore, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is behind so much in one go is written in haste; once all of it is written, there is time again."""
    monkeypatch.setattr(writer_module, "GROUP_BYTES", 1)
    monkeypatch.setattr(writer_module, "HASTE_BYTES", 2 * ENTRY_OVERHEAD_BYTES)
    for letter in b"abcd":
        writer.submit(entry(bytes([letter])))
    writer.start(told)
    assert [told.next()[1].next for _ in range(4)] == [1, 2, 3, 4]
    writer.submit(entry(b"e"))
    told.next()
    writer.stop()
    assert store.hasty == [False, False, True, True, False]


def test_waits_between_commits(store: FakeStore, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    times = [100.0, 100.0, 100.25, 101.0]
    fake = SimpleNamespace(monotonic=lambda: times.pop(0) if len(times) > 1 else times[0], sleep=slept.append)
    monkeypatch.setattr(writer_module, "time", fake)
    writer = Writer(store, 1.0, lambda: 7)  # type: ignore[arg-type]
    writer.submit(entry(b"a"))
    writer.start(told)
    told.next()
    writer.submit(entry(b"b"))
    told.next()
    assert slept == [0.75]
    writer.stop()


# Batches of writers.


def test_a_batch_is_one_transaction(
    writer: Writer, store: FakeStore, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "GROUP_BYTES", 1)
    write = Write("q", 1, 0, 3)
    entries = [entry(b"", opens=1), entry(b"ab"), entry(b"x"), entry(b"c"), entry(b"", opens=-1, write=write)]
    for one in entries:
        writer.submit(one)
    writer.start(told)
    assert told.next() == ("committed", Progress(0, 4, 4, 5, size(*entries)))
    writer.stop()
    assert store.asked == [("add", b"ab"), ("add", b"x"), ("add", b"c"), ("commit", [write], 7), ("close",)]


def test_an_empty_batch_is_committed(writer: Writer, store: FakeStore, told: Told) -> None:
    write = Write("q", 1, 0, 0)
    writer.submit(entry(b"", opens=1))
    writer.submit(entry(b"", opens=-1, write=write))
    writer.start(told)
    assert told.next()[1].entries == 2
    assert store.asked[0] == ("commit", [write], 7)


# Failures.


@pytest.mark.parametrize("what", ["add", "commit"])
def test_a_failure_is_told(writer: Writer, store: FakeStore, told: Told, what: str) -> None:
    """With the offset from which on nothing is recorded; then nothing is taken, of that epoch or the next."""
    writer.submit(entry(b"ab"))
    writer.start(told)
    told.next()
    store.fail(what, JournalUnavailableError("full"))
    writer.submit(entry(b"c"))
    assert told.next() == ("failed", "full", 2)
    writer.submit(entry(b"d"))
    writer.submit(entry(b"e", epoch=1))
    writer.stop()
    assert told.rest() == []
    assert store.open == 0


def test_it_goes_on_after_a_probe(writer: Writer, store: FakeStore, told: Told) -> None:
    """With entries of the new epoch; those of the old one are thrown away, wherever they stand."""
    store.writes = [Write("q", 1, 0, 0)]
    store.fail("add", JournalUnavailableError("full"))
    store.fail("probe", JournalUnavailableError("still full"))
    writer.submit(entry(b"a"))
    writer.start(told)
    assert told.next() == ("failed", "full", 0)
    writer.submit(entry(b"b"))
    writer.submit(Probe(1))
    assert told.next() == ("failed", "still full", 0)
    writer.submit(entry(b"c", epoch=1))
    writer.submit(Probe(2))
    writer.submit(entry(b"d", epoch=1))
    writer.submit(entry(b"e", epoch=2))
    assert told.next() == ("recovered", 2, 0, [Write("q", 1, 0, 0)])
    assert told.next()[1].next == 1
    writer.stop()
    assert [one for one in store.asked if one[0] == "add"] == [("add", b"a"), ("add", b"e")]


def test_an_open_batch_ends_with_a_failure(writer: Writer, store: FakeStore, told: Told) -> None:
    store.fail("add", JournalUnavailableError("full"))
    write = Write("q", 1, 0, 0)
    writer.submit(entry(b"", opens=1))
    writer.submit(entry(b"a"))
    writer.start(told)
    assert told.next()[0] == "failed"
    writer.submit(entry(b"", opens=-1, write=write))
    writer.submit(Probe(1))
    assert told.next()[0] == "recovered"
    writer.submit(entry(b"b", epoch=1))
    assert told.next() == ("committed", Progress(0, 1, 1, 1, 1 + ENTRY_OVERHEAD_BYTES))
    writer.stop()
    assert ("commit", [write], 7) not in store.asked


def test_a_bug_is_a_failure(writer: Writer, store: FakeStore, told: Told) -> None:
    store.fail("add", KeyError("oops"))
    writer.submit(entry(b"a"))
    writer.start(told)
    assert told.next() == ("failed", "a bug of the journal, please report it: KeyError('oops')", 0)
    writer.submit(Probe(1))
    assert told.next()[0] == "recovered"


# Retention, and the end.


def test_looks_after_retention_while_nothing_comes(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """And tells what it has let go; not while it fails, nor in the middle of a batch."""
    monkeypatch.setattr(writer_module, "_IDLE_S", 0.001)
    path = tmp_path / "journal"
    store = opened(path, retention=Retention(1 << 50, 60_000_000), segment_bytes=1)
    fill(store, 16, 16, 4)
    writer = Writer(store, 0.0, lambda: AT_US + 10**9)
    writer.start(told)
    assert told.next()[1][:2] == (36, 36)
    writer.submit(Entry(0, 0, b"", opens=1))
    writer.submit(Entry(0, AT_US, frames("/a", *range(20))))
    writer.submit(Entry(0, 0, b"", opens=-1))
    assert told.next()[1][:2] == (56, 56)
    writer.submit(Entry(0, AT_US + 10**9, frames("/a", 1)))
    assert told.next()[1][:2] == (56, 57)
    writer.stop()
    assert [record.offset for record in everything(path)] == [56]


def test_retention_that_fails_is_a_failure(
    writer: Writer, store: FakeStore, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_IDLE_S", 0.001)
    store.fail("commit", JournalUnavailableError("full"))
    writer.start(told)
    assert told.next() == ("failed", "full", 0)
    writer.submit(Probe(1))
    assert told.next()[0] == "recovered"
    assert store.asked[:2] == [("commit", [], 7), ("probe",)]


def test_stopping_in_the_middle_of_a_batch(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "journal"
    writer = Writer(opened(path), 0.0)
    writer.start(told)
    writer.submit(Entry(0, AT_US, frames("/a", 1)))
    told.next()
    writer.submit(Entry(0, 0, b"", opens=1))
    writer.submit(Entry(0, AT_US, frames("/a", 2)))
    writer.stop()
    assert len(everything(path)) == 1
