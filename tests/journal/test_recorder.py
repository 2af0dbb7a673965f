"""The journal's handler: which offset a message gets, who is told when, and what happens while nothing is recorded."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from hub.batch import decode_values
from hub.errors import JournalUnavailableError, RejectedError
from hub.frame import iterate_frames
from hub.journal.segment import Write
from peers.journal import recorder as recorder_module
from peers.journal.recorder import JOURNAL_TOPIC, Recorder
from peers.journal.writer import ENTRY_OVERHEAD_BYTES, Entry, Probe, Progress
from tests.hub.fakes import Turn
from tests.hubs.eventually import eventually

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


# Offsets.


async def test_what_is_recorded_becomes_entries(bench: Bench) -> None:
    bench.publish(1, 2)
    bench.publish(3, topic="/b")
    first, second = bench.submitted
    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert (first.epoch, first.time_us, second.time_us) == (0, 1000, 1001)
    assert [decode_values(frame) for frame in iterate_frames(first.frames)] == [[1, 2]]
    assert bench.recorder.taken == 3


async def test_other_topics_are_not_recorded() -> None:
    bench = Bench(topics=("/zeek/", "/app/"))
    for topic in ("/zeek/dns", "/zeek", "/other", "/app/"):
        bench.publish(1, topic=topic)
    assert bench.recorder.taken == 2


async def test_positions(bench: Bench) -> None:
    """The offset of the next message is known before it is on the disk, also in the middle of a read."""
    assert (bench.recorder.position(), bench.recorder.committed) == (10, 10)
    bench.turn.core.write_is_due = True
    bench.turn.publish(bench.publisher, "/a", 1, 2, 3)
    assert bench.recorder.position() == 13
    bench.turn.core.end_read()
    await bench.commit()
    assert (bench.recorder.position(), bench.recorder.committed) == (13, 13)


# Confirmations.


async def test_confirmations(bench: Bench) -> None:
    """With the offset of the first message, at the commit, in the order in which they were asked for."""
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


async def test_a_confirmation_of_an_empty_batch(bench: Bench) -> None:
    bench.recorder.begin_batch()
    bench.recorder.end_batch(Write("q", 1, 10, 10))
    bench.ask(0)
    assert bench.told == []
    await bench.commit()
    assert bench.told == [("", 10)]


async def test_batches_are_marked(bench: Bench) -> None:
    bench.turn.core.write_is_due = True
    bench.turn.publish(bench.publisher, "/a", 1)
    bench.recorder.begin_batch()
    bench.turn.publish(bench.publisher, "/a", 2)
    bench.recorder.end_batch(None)
    bench.turn.core.end_read()
    assert [entry.opens for entry in bench.submitted if isinstance(entry, Entry)] == [0, 1, 0, -1]


# Readers.


async def test_each_commit_is_told(bench: Bench) -> None:
    told: list[tuple[int, int, object]] = []
    bench.recorder.on_news = lambda *news: told.append(news)
    bench.publish(1, 2)
    assert told == []
    await bench.commit()
    bench.publish(3)
    await bench.commit()
    assert told == [(10, 12, None), (12, 13, None)]


# Back-pressure.


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

    bench.recorder.wait_room(resume)
    bench.recorder.wait_room(resume)
    await bench.commit(1)
    assert bench.recorder.is_behind
    await bench.commit(2)
    assert not bench.recorder.is_behind
    assert resumed == [1]
    assert bench.recorder.pauses_total == 2
    await bench.commit()
    assert (bench.recorder.waiting_bytes, resumed) == (0, [1])


async def test_who_has_gone_is_not_resumed() -> None:
    bench = Bench(buffer_bytes=1)
    bench.publish(1)
    resumed: list[int] = []

    def resume() -> None:
        resumed.append(1)

    bench.recorder.wait_room(resume)
    bench.recorder.forget_room(resume)
    bench.recorder.forget_room(resume)
    await bench.commit()
    assert resumed == []


# Failures.


async def test_a_failure_answers_everybody(bench: Bench) -> None:
    """Confirmations become errors, in order; those who wait for room or for records go on; all is counted."""
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


async def test_while_it_fails(bench: Bench) -> None:
    await bench.fail()
    bench.publish(1, 2)
    bench.ask(2)
    bench.recorder.begin_batch()
    bench.recorder.end_batch(None)
    assert bench.submitted == []
    assert isinstance(bench.told[0][1], RejectedError)
    assert (bench.recorder.taken, bench.recorder.lost_messages_total) == (2, 2)
    assert not bench.recorder.is_behind


async def test_it_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_PROBE_S", 0.0)
    for epoch in (1, 2, 3):
        await bench.fail()
        await eventually(lambda: bool(bench.submitted))
        assert bench.submitted == [Probe(epoch)]


async def test_recovery(bench: Bench) -> None:
    """Offsets go on without a gap, what comes is submitted in the new epoch, and confirmations are given again."""
    _, watcher = bench.turn.join(JOURNAL_TOPIC)
    written: list[list[Write]] = []
    bench.recorder.on_writes = written.append
    bench.publish(1)
    await bench.fail()
    bench.publish(2)
    await bench.recover(Write("q", 1, 0, 1))
    assert (bench.recorder.error, bench.recorder.position()) == (None, 10)
    assert written == [[Write("q", 1, 0, 1)]]
    bench.publish(3)
    bench.ask(1)
    (entry,) = bench.submitted
    assert entry.epoch == 1
    await bench.commit()
    assert bench.told == [("", 10)]
    seen = bench.recorder
    assert (seen.recorded_messages_total, seen.lost_messages_total, seen.position()) == (1, 2, 11)
    bench.turn.core.flush()
    assert [value["state"] for value in watcher.values] == ["failed", "recovered"]
    assert watcher.values[1] == {"state": "recovered", "offset": 10, "lost": 2}


async def test_what_a_failed_commit_has_left(bench: Bench) -> None:
    bench.publish(1, 2, 3)
    await bench.fail()
    await bench.recover(found=3)
    seen = bench.recorder
    assert (seen.position(), seen.recorded_messages_total, seen.lost_messages_total) == (13, 3, 0)


async def test_a_second_failure(bench: Bench) -> None:
    _, watcher = bench.turn.join(JOURNAL_TOPIC)
    await bench.fail()
    await bench.fail(JournalUnavailableError("worse"))
    assert str(bench.recorder.refusal()) == "not recorded: worse (4012)"
    await bench.recover()
    await bench.fail()
    bench.turn.core.flush()
    assert [value["state"] for value in watcher.values] == ["failed", "recovered", "failed"]
    assert bench.recorder.epoch == 3


async def test_a_recovery_of_an_old_epoch(bench: Bench) -> None:
    await bench.fail()
    bench.recorder.on_recovered(7, Progress(0, 99, 0), [])
    await asyncio.sleep(0)
    assert bench.recorder.error is FULL


# The rest.


async def test_stopping(bench: Bench) -> None:
    bench.turn.publish(bench.publisher, "/a", 1)
    bench.recorder.stop()
    assert len(bench.submitted) == 1
    bench.publish(2)
    assert len(bench.submitted) == 1
    await bench.fail()
    assert bench.recorder._probing is None
    bench.recorder.stop()


async def test_stopping_while_it_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_PROBE_S", 0.0)
    await bench.fail()
    bench.recorder.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert bench.submitted == []


async def test_statistics(bench: Bench) -> None:
    bench.publish(1, 2)
    assert (*bench.recorder.at[:3], bench.recorder.position()) == (3, 10, 500, 12)
    await bench.commit()
    assert (*bench.recorder.at[:3], bench.recorder.recorded_messages_total) == (3, 12, 700, 2)


def test_a_writer_may_outlive_the_loop() -> None:
    async def make() -> Recorder:
        return Bench().recorder

    recorder = asyncio.run(make())
    recorder.on_committed(AT)
    recorder.send_gap(1)
    recorder.close(1000, "")


async def test_commits_are_measured() -> None:
    """From taking to the disk: of the first that came behind each commit, and not of what was thrown away."""
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
