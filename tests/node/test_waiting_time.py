"""How long messages wait in the queue of a far side that reads too slowly."""

from __future__ import annotations

from hub.batch import Batch
from hub.overflow import Overflow
from hub.statistics import Histogram
from hub.waiting import WRITE_LIMIT_BYTES
from peers.node.read_times import WaitingTime
from tests.hub.fakes import FakeOutlet, handler_of

_LARGE = bytes(WRITE_LIMIT_BYTES)  # So large that each message is a write of its own


class Queue:
    def __init__(self, *, messages: int = 1000, overflow: Overflow = Overflow.DROP_OLDEST) -> None:
        self.outlet = FakeOutlet()
        self.handler = handler_of(self.outlet, messages=messages, overflow=overflow)
        self.times = Histogram((1.0, 10.0, 100.0))
        self.handler.pause()
        self.waiting = WaitingTime(0.0)

    def offer(self, messages: int) -> None:
        for _ in range(messages):
            self.handler.offer(Batch.of("/a", [_LARGE]))

    def resume(self, now_s: float, *, takes: int) -> bool:
        writes_before, waited = self.outlet.writes, self.handler.queued_messages

        def pause() -> None:
            if self.outlet.writes - writes_before >= takes:
                self.handler.pause()

        self.outlet.act = pause
        self.handler.resume()
        return self.waiting.look(self.handler, waited, now_s, self.times)

    @property
    def observed(self) -> tuple[int, float]:
        statistics = self.times.statistics()
        return sum(statistics.counts), statistics.total


def test_one_that_is_always_behind() -> None:
    queue = Queue()
    queue.offer(4)
    assert queue.resume(1.0, takes=1)
    assert queue.observed == (1, 1.0)  # the first; three are left, whose last one is awaited now
    queue.offer(5)
    assert queue.resume(2.0, takes=2)
    assert queue.observed == (1, 1.0)
    assert queue.resume(7.0, takes=1)
    assert queue.observed == (2, 1.0 + (7.0 - 1.0))
    assert not queue.resume(8.0, takes=100)
    assert queue.observed == (3, 7.0 + (8.0 - 7.0))


def test_the_oldest_are_dropped() -> None:
    queue = Queue(messages=3)
    queue.offer(4)
    assert queue.resume(1.0, takes=1)
    queue.offer(3)
    assert queue.handler.dropped_messages == 3
    assert queue.resume(4.0, takes=1)
    assert queue.observed == (2, 1.0 + 3.0)


def test_the_newest_are_dropped() -> None:
    queue = Queue(messages=3, overflow=Overflow.DROP_NEWEST)
    queue.offer(3)
    assert queue.resume(1.0, takes=1)
    queue.offer(11)
    assert queue.handler.dropped_messages == 10
    assert queue.resume(4.0, takes=1)
    assert queue.observed == (1, 1.0)
    assert queue.resume(9.0, takes=1)
    assert queue.observed == (2, 1.0 + 8.0)
