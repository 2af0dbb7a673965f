"""Handlers: writing, losing and ending, one example each. In any mixture: `test_handler_model`."""

from __future__ import annotations

import pytest

from hub.batch import Batch
from hub.delivery import Role
from hub.errors import CloseCode
from hub.handler import Handler
from hub.overflow import Overflow, QueueLimits
from hub.statistics import HandlerStatistics
from hub.waiting import WRITE_LIMIT_BYTES
from tests.hub.fakes import Bench, FakeOutlet, Shape, handler_of, numbers_of, opaque_frame, values_of

KIB = 1024

# Writing.


def test_a_large_turn_is_written_early() -> None:
    bench = Bench()
    for _ in range(8):
        bench.offer(Shape(((1, False),), padding=64 * KIB))
        assert bench.handler._pending_bytes < WRITE_LIMIT_BYTES
    assert bench.outlet.writes == 2
    assert bench.dirty == 1
    bench.check_end()


def test_a_pause_when_the_queue_runs_empty_keeps() -> None:
    bench = Bench()
    bench.handler.pause()
    bench.offer()
    bench.outlet.act = bench.handler.pause
    bench.handler.resume()
    bench.offer()
    bench.flush()
    assert numbers_of(bench.outlet.batches) == [0]
    assert bench.handler.statistics().queued_messages == 1
    bench.check_end()


def test_what_is_offered_from_within_a_write_waits_for_its_end() -> None:
    bench = Bench()
    bench.offer()
    bench.offer()
    todo = [Shape(((1, False),), padding=WRITE_LIMIT_BYTES)] * 3
    bench.outlet.act = lambda: bench.offer(todo.pop()) if todo else None
    bench.flush()
    assert numbers_of(bench.outlet.batches) == list(range(5))
    bench.check_end()


def test_resuming_from_within_every_write_does_not_nest() -> None:
    bench = Bench()
    bench.handler.pause()
    for _ in range(2000):
        bench.offer(Shape(((1, False),), padding=WRITE_LIMIT_BYTES))

    def blink() -> None:
        bench.handler.pause()
        bench.handler.resume()

    bench.outlet.act = blink
    bench.handler.resume()
    assert len(bench.outlet.batches) == 2000
    bench.check_end()


# Losing.


@pytest.mark.parametrize("overflow", Overflow)
def test_a_gap_of_what_was_lost_elsewhere(overflow: Overflow) -> None:
    """It is told behind what was offered; where the oldest of what waits go first, in front; and not counted."""
    outlet = FakeOutlet()
    handler = handler_of(outlet, overflow=overflow)
    handler.offer(Batch.of("/a", [1]))
    handler.tell_gap(3)
    assert outlet.told[1:] == [3]
    handler.pause()
    handler.offer(Batch.of("/a", [2]))
    handler.tell_gap(4)
    handler.tell_gap(1)
    assert len(outlet.told) == 2
    handler.resume()
    gap, batch = outlet.told[2:] if overflow is Overflow.DROP_OLDEST else outlet.told[:1:-1]
    assert gap == 5
    assert isinstance(batch, Batch)
    assert handler.dropped_messages == 0
    handler.pause()
    handler.tell_gap(6)
    handler.resume()
    assert outlet.told[4:] == [6]
    handler.shut()
    handler.tell_gap(7)
    assert outlet.told[5:] == []


def test_losses_that_show_when_the_queue_is_taken_are_counted() -> None:
    bench = Bench(messages=5)
    bench.handler.pause()
    bench.handler.offer(Batch(opaque_frame(5), 5))
    bench.handler.offer(Shape(((1, False),)).batch(5))
    assert (bench.drops, bench.handler.dropped_messages) == (1, 1)
    bench.handler.resume()
    assert (bench.drops, bench.handler.dropped_messages) == (2, 5)
    assert bench.handler.delivered_messages == 1
    assert bench.outlet.told[0] == 5
    assert numbers_of(bench.outlet.batches) == [5]


def test_what_has_no_form_for_this_outlet_is_told_and_counted() -> None:
    bench = Bench()
    bench.outlet.act = lambda: bench.handler.lose(2) if not bench.outlet.gaps else None
    bench.offer(3)
    bench.flush()
    assert bench.outlet.gaps == [2]
    assert bench.drops == 1
    seen = bench.handler.statistics()
    assert (seen.delivered_messages, seen.dropped_messages) == (1, 2)


# Ending.


def test_overflow_with_disconnect_ends_the_connection_and_says_why() -> None:
    bench = Bench(messages=4, limit_bytes=100_000, overflow=Overflow.DISCONNECT)
    bench.offer(3)
    bench.flush()
    bench.handler.pause()
    bench.offer(4)
    assert bench.outlet.closed == []
    bench.offer(2)
    ((code, text),) = bench.outlet.closed
    assert code == CloseCode.OVERFLOW
    assert text.startswith("queue full (4 messages, 100000 bytes), 6 messages lost")
    assert bench.handler.closed
    assert bench.drops == 1
    bench.handler.resume()
    bench.offer(5)
    bench.flush()
    assert bench.outlet.closed == [(code, text)]
    assert numbers_of(bench.outlet.batches) == [0, 1, 2]
    seen = bench.handler.statistics()
    assert (seen.delivered_messages, seen.dropped_messages) == (3, 6)
    assert (seen.queued_messages, seen.queued_bytes) == (0, 0)


def test_overflow_with_disconnect_counts_what_the_turn_had_brought() -> None:
    bench = Bench(messages=4, overflow=Overflow.DISCONNECT)
    bench.offer(3)
    bench.handler.pause()
    bench.offer(4)
    bench.offer(1)
    ((_, text),) = bench.outlet.closed
    assert "8 messages lost" in text
    bench.flush()
    assert bench.outlet.writes == 0
    seen = bench.handler.statistics()
    assert (seen.delivered_messages, seen.dropped_messages) == (0, 8)


@pytest.mark.parametrize("paused", [False, True])
def test_closing_throws_away_what_waits(paused: bool) -> None:  # noqa: FBT001
    bench = Bench()
    bench.offer(2)
    bench.flush()
    if paused:
        bench.handler.pause()
    bench.offer(3)
    bench.handler.close(CloseCode.GOING_AWAY, "the hub stops")
    bench.handler.close(CloseCode.DONE, "again")
    assert bench.outlet.closed == [(1001, "the hub stops")]
    bench.handler.resume()
    bench.flush()
    bench.offer(1)
    bench.flush()
    assert not bench.handler.writable
    assert numbers_of(bench.outlet.batches) == [0, 1]
    seen = bench.handler.statistics()
    assert (seen.delivered_messages, seen.queued_messages, seen.dropped_messages) == (2, 0, 0)


def test_losses_are_remembered_when_the_handler_is_shut() -> None:
    bench = Bench(messages=2)
    bench.handler.pause()
    bench.offer(5)
    bench.handler.shut()
    bench.handler.shut()
    assert bench.handler.dropped_messages == 3
    assert bench.handler.delivered_messages == 0


def test_shutting_from_within_a_write() -> None:
    bench = Bench(messages=3)
    bench.handler.pause()
    for _ in range(4):
        bench.offer(Shape(((1, False),), padding=WRITE_LIMIT_BYTES))
    bench.outlet.act = lambda: bench.handler.shut() if bench.outlet.batches else None
    bench.handler.resume()
    assert numbers_of(bench.outlet.batches) == [1]
    assert bench.handler.dropped_messages == 1
    assert bench.handler.delivered_messages == 1


def test_shutting_when_the_last_of_the_queue_is_written() -> None:
    bench = Bench(messages=1)
    bench.handler.pause()
    bench.offer(4)
    bench.outlet.act = lambda: bench.handler.shut() if bench.outlet.batches else None
    bench.handler.resume()
    assert bench.handler.dropped_messages == 3
    assert bench.handler.delivered_messages == 1


# Looking at it.


def test_statistics_name_everything() -> None:
    outlet = FakeOutlet()
    limits = QueueLimits(2, 10_000, Overflow.DROP_NEWEST)
    handler = Handler(outlet, role=Role.LINK, limits=limits, name="hub-2", address="tcp://127.0.0.1:7400")
    assert repr(handler) == "<Handler 0 link 'hub-2'>"
    assert repr(handler_of()) == "<Handler 0 client 'nowhere'>"
    handler.prefixes = {f"/{number}": 1 for number in range(9)}
    handler.published_messages = 11
    handler.offer(Batch.of("/a", [1, 2]))
    handler.flush()
    handler.pause()
    queued = Batch.of("/a", [3])
    handler.offer(queued)
    handler.offer(Batch.of("/a", [4, 5]))
    assert values_of(outlet.batches) == [1, 2]
    assert handler.statistics() == HandlerStatistics(
        id=0,
        role="link",
        name="hub-2",
        address="tcp://127.0.0.1:7400",
        prefixes=9,
        sample=("/0", "/1", "/2", "/3", "/4"),
        published_messages=11,
        delivered_messages=2,
        delivered_bytes=Batch.of("/a", [1, 2]).frames_bytes,
        queued_messages=2,
        queued_bytes=queued.size_bytes + Batch.of("/a", [4]).size_bytes + 4,
        dropped_messages=1,
        overflow="drop-newest",
        paused=True,
    )


# Rights.
