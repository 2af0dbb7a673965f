"""`ReadTimes`: how long the hub takes for a read, and how large reads are; `WaitingTime`: how long messages wait.

```
read ─ due? ─ begin ─▶ feed, act, route, offer, one write ─▶ end
                                  └─ more than a share ─▶ put_off ─▶ turns of others ─▶ end
```

A read is measured from when its bytes are there to when all that they have brought was handed to transports or to
queues. Only the first read after `BETWEEN_S` is measured. If the connection of one that was put off is gone when the
next one is due, it counts with the time until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hub.handlers.counters import Histogram
from hub.handlers.handler import Handler
from hub.limits import Overflow

# How long no other read is measured behind one that was: 100 a second are enough for a 99th percentile of a minute, and
# cost 0.01 % of a core
BETWEEN_S: Final = 0.01

_PUT_OFF_S: Final = 60.0  # How long one that was put off is waited for, before the next one is measured instead

# A small read takes some 10 µs, a share of a turn some 10 ms
READ_S_BOUNDS: Final = (
    *(0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5),
    *(0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)

# From one short message to the most that a loop reads at once
READ_BYTES_BOUNDS: Final = (64, 256, 1024, 4096, 16_384, 65_536, 262_144)


class ReadTimes:
    """Reads of one hub."""

    __slots__ = ("_began_s", "_clock_s", "_put_off_by", "bytes", "due_s", "seconds")

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self.due_s = 0.0  # From when on the next read is measured, of the loop's clock
        self.seconds = Histogram(READ_S_BOUNDS)
        self.bytes = Histogram(READ_BYTES_BOUNDS)
        # When the read began that is measured now, or was last.
        self._began_s = 0.0
        # The id of whose read was put off; 0 if none was. No reference: it may be gone before its turn comes.
        self._put_off_by = 0

    def begin(self, now_s: float, size_bytes: int) -> None:
        """Measure a read of so many bytes, which is about to be acted on."""
        if self._put_off_by:
            self.end()
        self.due_s = now_s + BETWEEN_S
        self.bytes.observe(size_bytes)
        self._began_s = self._clock_s()

    def end(self) -> None:
        """End the measurement: the read was acted on and written."""
        self._put_off_by = 0
        self.seconds.observe(self._clock_s() - self._began_s)

    def put_off(self, whose: object) -> None:
        """Note that the rest of the read waits for a later turn."""
        self._put_off_by = id(whose)
        self.due_s += _PUT_OFF_S

    def go_on(self, whose: object) -> None:
        """Note that the rest of a read was acted on: if it was the one that is measured, this is its end."""
        if self._put_off_by == id(whose):
            self.due_s -= _PUT_OFF_S
            self.end()


# How long messages wait in the queue of a far side that reads too slowly.


# From an unnoticeable time to a far side that hangs
QUEUE_S_BOUNDS: Final = (0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class WaitingTime:
    """How long messages wait in one queue."""

    __slots__ = ("_goes_at", "_since_s")

    def __init__(self, now_s: float) -> None:
        # Since when that has waited whose end is awaited.
        self._since_s = now_s
        # How many messages have gone when it has; 0 before the first resume: then whatever stood in the queue.
        self._goes_at = 0

    def look(self, handler: Handler, waited: int, now_s: float, times: Histogram) -> bool:
        """Observe messages that have gone; return whether any wait still."""
        gone, left = _gone(handler), handler.queued_messages
        if gone >= self._goes_at:
            if waited:
                times.observe(now_s - self._since_s)
            self._goes_at, self._since_s = gone + left, now_s
        return left > 0


def _gone(handler: Handler) -> int:
    if handler.limits.overflow is Overflow.DROP_NEWEST:
        return handler.delivered_messages
    return handler.delivered_messages + handler.dropped_messages
