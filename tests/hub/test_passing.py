"""`Passing`: it waits among messages, in their order, and is never one."""

from __future__ import annotations

import pytest

from hub.frame import encode_frame
from hub.handler import Handler
from hub.origin import Origin
from hub.overflow import Overflow, QueueLimits
from hub.passing import Passing
from tests.hub.fakes import FakeOutlet, Shape, handler_of, numbers_of

_ORIGIN = Origin(b"o" * 16, 3)
_ONE = Shape(((1, False),))


class Clock:
    """Says how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def make(self) -> bytes:
        """Return a frame with that number."""
        self.asked += 1
        return encode_frame(12, bytes([self.asked]))


def passing(clock: Clock) -> Passing:
    """One that is made as it is written."""
    return Passing(clock.make, 100, _ORIGIN)


def paused(limits: QueueLimits) -> tuple[Handler, FakeOutlet]:
    """A handler for which everything waits."""
    outlet = FakeOutlet()
    handler = handler_of(outlet, messages=limits.messages, limit_bytes=limits.bytes, overflow=limits.overflow)
    handler.pause()
    return handler, outlet


def test_it_is_made_as_it_is_written() -> None:
    """Behind what was offered before it, in front of what came after it; it counts as no message."""
    handler, outlet = paused(QueueLimits(messages=2))
    clock = Clock()
    for one in (_ONE.batch(1), passing(clock), _ONE.batch(2)):
        assert handler.has_room_for(one)
        handler.offer(one)
    assert (clock.asked, handler.queued_messages) == (0, 2)
    handler.resume()
    first, middle, last = outlet.batches
    assert numbers_of([first, last]) == [1, 2]
    assert (middle.frames, middle.origin, clock.asked) == (encode_frame(12, b"\x01"), _ORIGIN, 1)
    assert (handler.delivered_messages, handler.dropped_messages) == (2, 0)


@pytest.mark.parametrize("overflow", Overflow)
def test_where_there_is_no_room(overflow: Overflow) -> None:
    """It says so, so that nothing need be lost for it: neither a message nor the connection."""
    room_bytes = 2 * _ONE.batch(1).size_bytes
    handler, outlet = paused(QueueLimits(messages=100, bytes=room_bytes, overflow=overflow))
    clock = Clock()
    handler.offer(_ONE.batch(1))
    handler.offer(_ONE.batch(2))
    assert not handler.has_room_for(passing(clock))
    handler.resume()
    assert numbers_of(outlet.batches) == [1, 2]
    assert handler.has_room_for(passing(clock))
    handler.close(1000, "done")
    assert not handler.has_room_for(passing(clock))


def test_a_queue_too_small_for_it_alone() -> None:
    """There is no room, though nothing waits; nor where the far side takes no frame of that size."""
    handler, _ = paused(QueueLimits(messages=1, bytes=50, overflow=Overflow.DISCONNECT))
    assert not handler.has_room_for(passing(Clock()))
    small = handler_of(FakeOutlet())
    small.frame_limit_bytes = 50
    assert not small.has_room_for(passing(Clock()))


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
@pytest.mark.parametrize("bound", ["messages", "bytes"])
def test_messages_that_push_it_out(overflow: Overflow, bound: str) -> None:
    """It goes as a whole where it stands in the way, and the losses that are told are those of messages alone."""
    one_bytes = _ONE.batch(1).size_bytes
    probe = passing(Clock())
    limits = (
        QueueLimits(messages=3, overflow=overflow)
        if bound == "messages"
        else QueueLimits(messages=100, bytes=3 * one_bytes + probe.size_bytes, overflow=overflow)
    )
    handler, outlet = paused(limits)
    handler.offer(probe)
    for number in range(6):
        handler.offer(_ONE.batch(number))
    assert handler.dropped_messages + handler.queued_messages == 6
    handler.resume()
    numbers = numbers_of([one for one in outlet.batches if one is not probe])
    assert sum(outlet.gaps) == handler.dropped_messages == 6 - len(numbers) > 0
    kept = range(6 - len(numbers), 6) if overflow is Overflow.DROP_OLDEST else range(len(numbers))
    assert numbers == list(kept)
    assert (probe in outlet.batches) is (overflow is Overflow.DROP_NEWEST)


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
def test_offered_all_the_same(overflow: Overflow) -> None:
    """Where nobody has asked for room: it is dropped, or takes the place of others, and no account goes wrong."""
    one_bytes = _ONE.batch(1).size_bytes
    handler, outlet = paused(QueueLimits(messages=100, bytes=2 * one_bytes, overflow=overflow))
    handler.offer(_ONE.batch(0))
    handler.offer(passing(Clock()))
    handler.offer(_ONE.batch(1))
    assert handler.dropped_messages + handler.queued_messages == 2
    handler.resume()
    assert handler.delivered_messages + handler.dropped_messages == 2
    assert sum(outlet.gaps) == handler.dropped_messages


def test_too_little_memory() -> None:
    """What is dropped for that may be a probe: then nobody is told of a loss."""
    handler, outlet = paused(QueueLimits())
    handler.offer(passing(Clock()))
    handler.drop(1)
    handler.resume()
    assert outlet.told == []
    assert handler.dropped_messages == 0
