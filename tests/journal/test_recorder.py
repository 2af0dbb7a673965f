"""The journal's handler, and its thread: which offset a message gets, who is told, what is committed together."""

from __future__ import annotations

import asyncio
import itertools
import queue
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hub.errors import JournalUnavailableError, RejectedError, StorageError
from hub.journal.segment import Write
from hub.messages.frame import iterate_frames
from peers.journal import recorder as recorder_module
from peers.journal.recorder import ENTRY_OVERHEAD_BYTES, JOURNAL_TOPIC, Entry, Probe, Progress, Recorder, Writer
from peers.journal.store import Retention
from tests.hub.fakes import Turn
from tests.hubs.eventually import eventually
from tests.journal.files import AT_US, everything, fill, frames, opened

pytestmark = pytest.mark.usefixtures("uncaught")

AT = Progress(first=3, next=10, size_bytes=500)
FULL = JournalUnavailableError("the disk is full")


class Bench:
    def __init__(self, *, topics: tuple[str, ...] = ("/",), buffer_bytes: int = 1 << 20) -> None:
        self.turn = Turn()
        self.submitted: list[Entry | Probe] = []
        times = itertools.count(1000)
        self.recorder = Recorder(
            self.turn.core,
            topics,
            self.submitted.append,
            buffer_bytes=buffer_bytes,
            at=AT,
            clock_us=lambda: next(times),
        )
        self.publisher, _ = self.turn.join()
        self.told: list[Any] = []
        self.next = AT.next  # as the writer sees it
        self.epoch = 0

    def publish(self, *values: Any, topic: str = "/a") -> None:
        self.turn.publish(self.publisher, topic, *values)
        self.turn.core.flush()

    def ask(self, messages: int, name: str = "") -> None:
        self.recorder.answer_at_commit(messages, lambda outcome: self.told.append((name, outcome)))

    async def commit(self, entries: int | None = None) -> None:
        done = self.submitted[:entries]
        del self.submitted[:entries]
        size = 0
        for entry in done:
            assert isinstance(entry, Entry)
            assert entry.epoch == self.epoch
            size += entry.size_bytes
            self.next += sum(frame.messages for frame in iterate_frames(entry.frames))
        self.recorder.on_committed(Progress(3, self.next, 700, len(done), size))
        await asyncio.sleep(0)

    async def fail(self, error: JournalUnavailableError = FULL) -> None:
        self.submitted.clear()
        self.epoch += 1
        self.recorder.on_failed(error, self.next)
        await asyncio.sleep(0)

    async def recover(self, *writes: Write, found: int = 0) -> None:
        self.submitted.clear()
        self.next += found
        self.recorder.on_recovered(self.epoch, Progress(3, self.next, 700), list(writes))
        await asyncio.sleep(0)


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_confirmations(bench: Bench) -> None:
    bench.publish(1)
    bench.ask(1, "one")
    bench.publish(2, 3)
    bench.ask(2, "two")
    bench.publish(4)
    assert bench.told == []
    await bench.commit(2)
    assert bench.told == [("one", 10), ("two", 11)]
    bench.ask(1, "three")
    await bench.commit()
    assert bench.told[2:] == [("three", 13)]


async def test_back_pressure() -> None:
    bench = Bench(buffer_bytes=4 * ENTRY_OVERHEAD_BYTES)
    for number in range(3):
        bench.publish(number)
        assert not bench.recorder.is_behind
    bench.publish(4)
    assert bench.recorder.is_behind
    assert bench.recorder.waiting_bytes > 4 * ENTRY_OVERHEAD_BYTES
    resumed: list[int] = []

    def resume() -> None:
        resumed.append(len(bench.submitted))

    gone = partial(resumed.append, -1)
    for one in (resume, resume, gone):
        bench.recorder.wait_room(one)
    for _ in range(2):
        bench.recorder.forget_room(gone)
    await bench.commit(1)
    assert bench.recorder.is_behind
    await bench.commit(2)
    assert not bench.recorder.is_behind
    assert resumed == [1]
    assert bench.recorder.pauses_total == 3
    await bench.commit()
    assert (bench.recorder.waiting_bytes, resumed) == (0, [1])


async def test_a_failure_answers_everybody(bench: Bench) -> None:
    _, watcher = bench.turn.join(JOURNAL_TOPIC)
    called: list[str] = []
    bench.recorder.on_news = lambda *_: called.append("reader")
    bench.recorder.wait_room(lambda: called.append("publisher"))
    bench.publish(1)
    await bench.commit()
    bench.publish(2, 3)
    bench.ask(2, "one")
    bench.publish(4)
    bench.ask(1, "two")
    bench.turn.publish(bench.publisher, "/a", 5)  # in the middle of a turn
    await bench.fail()
    assert [name for name, _ in bench.told] == ["one", "two"]
    for _, error in bench.told:
        assert isinstance(error, RejectedError)
        assert str(error) == "not recorded: the disk is full (4012)"
    assert called == ["reader", "reader", "publisher"]
    seen = bench.recorder
    assert (seen.recorded_messages_total, seen.lost_messages_total, seen.waiting_bytes) == (1, 4, 0)
    assert (seen.committed, str(seen.error)) == (11, "the disk is full")
    assert bench.recorder.position() is None
    bench.turn.core.flush()
    assert watcher.values == [{"state": "failed", "reason": "the disk is full", "offset": 11}]


async def test_recovery(bench: Bench) -> None:
    _, watcher = bench.turn.join(JOURNAL_TOPIC)
    written: list[list[Write]] = []
    bench.recorder.on_writes = written.append
    bench.publish(1, 2, 3)
    await bench.fail()
    bench.publish(4, 5)
    bench.ask(2)
    bench.recorder.begin_batch()
    bench.recorder.end_batch(None)
    assert bench.submitted == []
    assert isinstance(bench.told.pop()[1], RejectedError)
    seen = bench.recorder
    assert (seen.taken, seen.lost_messages_total, seen.is_behind) == (5, 5, False)
    await bench.fail(JournalUnavailableError("worse"))
    assert str(seen.refusal()) == "not recorded: worse (4012)"
    seen.on_recovered(1, Progress(0, 99, 0), [])  # of an epoch that is over
    await asyncio.sleep(0)
    assert seen.error is not None
    await bench.recover(Write("q", 1, 0, 1), found=3)
    assert (seen.error, seen.position(), written) == (None, 13, [[Write("q", 1, 0, 1)]])
    bench.publish(6)
    bench.ask(1)
    (entry,) = bench.submitted
    assert entry.epoch == 2
    await bench.commit()
    assert bench.told == [("", 13)]
    assert (seen.recorded_messages_total, seen.lost_messages_total, seen.position()) == (4, 2, 14)
    await bench.fail()
    bench.turn.core.flush()
    assert [value["state"] for value in watcher.values] == ["failed", "recovered", "failed"]
    assert watcher.values[1] == {"state": "recovered", "offset": 13, "lost": 2}


async def test_it_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_PROBE_S", 0.0)
    for epoch in (1, 2, 3):
        await bench.fail()
        await eventually(lambda: bool(bench.submitted))
        assert bench.submitted == [Probe(epoch)]


async def test_stopping(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_PROBE_S", 0.0)
    bench.turn.publish(bench.publisher, "/a", 1)
    bench.recorder.stop()
    bench.publish(2)
    assert len(bench.submitted) == 1
    for stops_after in (False, True):
        await bench.fail()
        if stops_after:
            bench.recorder.stop()
        for _ in range(5):
            await asyncio.sleep(0)
        assert bench.submitted == []


async def test_commits_are_measured() -> None:
    bench = Bench()

    def measured() -> int:
        return sum(bench.recorder.confirm_times.statistics().counts)

    bench.publish(1)
    bench.publish(2)
    assert measured() == 0
    await bench.commit(1)
    assert measured() == 1
    await bench.commit()
    assert measured() == 1
    bench.publish(3)
    await bench.fail()
    bench.submitted.clear()
    assert measured() == 1


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


def test_what_has_come_is_committed_together(
    writer: Writer, store: FakeStore, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long queue is several commits; what is behind so much in one go is written in haste, as long as it is."""
    writer.submit(entry(b"ab"))
    writer.submit(entry(b"c"))
    writer.start(told)
    assert told.next() == ("committed", Progress(0, 3, 3, 2, 3 + 2 * ENTRY_OVERHEAD_BYTES))
    writer.stop()
    assert store.asked == [("add", b"abc"), ("commit", [], 7), ("close",)]
    monkeypatch.setattr(recorder_module, "GROUP_BYTES", 2 * ENTRY_OVERHEAD_BYTES)
    monkeypatch.setattr(recorder_module, "HASTE_BYTES", 2 * ENTRY_OVERHEAD_BYTES)
    store = FakeStore()
    writer = Writer(store, 0.0, lambda: 7)  # type: ignore[arg-type]
    for letter in b"abcde":
        writer.submit(entry(bytes([letter])))
    writer.start(told)
    assert [told.next()[1].next for _ in range(3)] == [2, 4, 5]
    writer.submit(entry(b"f"))
    told.next()
    writer.stop()
    assert [one[1] for one in store.asked if one[0] == "add"] == [b"ab", b"cd", b"e", b"f"]
    assert store.hasty == [False, True, True, False]


def test_waits_between_commits(store: FakeStore, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    times = [100.0, 100.0, 100.25, 101.0]
    fake = SimpleNamespace(monotonic=lambda: times.pop(0) if len(times) > 1 else times[0], sleep=slept.append)
    monkeypatch.setattr(recorder_module, "time", fake)
    writer = Writer(store, 1.0, lambda: 7)  # type: ignore[arg-type]
    for letter in (b"a", b"b"):
        writer.submit(entry(letter))
        if letter == b"a":
            writer.start(told)
        told.next()
    assert slept == [0.75]
    writer.stop()


def test_a_batch_is_one_transaction(
    writer: Writer, store: FakeStore, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "GROUP_BYTES", 1)
    write = Write("q", 1, 0, 3)
    entries = [entry(b"", opens=1), entry(b"ab"), entry(b"x"), entry(b"c"), entry(b"", opens=-1, write=write)]
    for one in entries:
        writer.submit(one)
    writer.start(told)
    assert told.next() == ("committed", Progress(0, 4, 4, 5, sum(one.size_bytes for one in entries)))
    assert store.asked == [("add", b"ab"), ("add", b"x"), ("add", b"c"), ("commit", [write], 7)]
    store.fail("add", JournalUnavailableError("full"))
    writer.submit(entry(b"", opens=1))
    writer.submit(entry(b"a"))
    assert told.next() == ("failed", "full", 4)
    writer.submit(entry(b"", opens=-1, write=write))
    writer.submit(Probe(1))
    assert told.next()[0] == "recovered"
    writer.submit(entry(b"b", epoch=1))
    assert told.next() == ("committed", Progress(0, 5, 5, 1, 1 + ENTRY_OVERHEAD_BYTES))
    writer.stop()
    assert store.asked.count(("commit", [write], 7)) == 1


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("add", JournalUnavailableError("full"), "full"),
        ("commit", JournalUnavailableError("full"), "full"),
        ("add", KeyError("oops"), "a bug of the journal, please report it: KeyError('oops')"),
    ],
)
def test_a_failure_is_told(  # noqa: PLR0917 -- fixtures
    writer: Writer, store: FakeStore, told: Told, what: str, error: Exception, text: str
) -> None:
    store.writes = [Write("q", 1, 0, 0)]
    writer.submit(entry(b"ab"))
    writer.start(told)
    told.next()
    store.fail(what, error)
    store.fail("probe", JournalUnavailableError("still full"))
    writer.submit(entry(b"c"))
    assert told.next() == ("failed", text, 2)
    assert store.open == 0
    writer.submit(entry(b"d"))
    writer.submit(entry(b"e", epoch=1))
    writer.submit(Probe(1))
    assert told.next() == ("failed", "still full", 2)
    writer.submit(entry(b"f", epoch=1))
    writer.submit(Probe(2))
    writer.submit(entry(b"g", epoch=1))
    writer.submit(entry(b"h", epoch=2))
    assert told.next() == ("recovered", 2, 2, [Write("q", 1, 0, 0)])
    assert told.next()[1].next == 3
    writer.stop()
    assert [one for one in store.asked if one[0] == "add"] == [("add", b"ab"), ("add", b"c"), ("add", b"h")]
    assert told.rest() == []


def test_looks_after_retention_while_nothing_comes(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_IDLE_S", 0.001)
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
    monkeypatch.setattr(recorder_module, "_IDLE_S", 0.001)
    store.fail("commit", JournalUnavailableError("full"))
    writer.start(told)
    assert told.next() == ("failed", "full", 0)
    writer.submit(Probe(1))
    assert told.next()[0] == "recovered"
    assert store.asked[:2] == [("commit", [], 7), ("probe",)]
