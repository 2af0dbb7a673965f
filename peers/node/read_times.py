"""`ReadTimes`: how long the hub takes for what a read brings, and how much that is, of some reads.

```
read ─ due? ─ begin ─▶ feed, act, route, offer, one write ─▶ end
                                  └─ more than a share ─▶ put_off ─▶ turns of others ─▶ end
```

What is measured is a read, from when its bytes are there to when all that they have brought was handed to transports or
to queues: not each message of it. So a read that is the first one after `BETWEEN_S` is measured, and the others are
not; a busy hub measures 100 a second, and one with few reads all of them.

Owner: the node; a connection says when. Invariants: one read is measured at a time; one that was put off is not
forgotten: if its connection is gone when the next one is due, it counts with the time until then.

Cost: a comparison a read, about 20 ns; 1 µs for a read that is measured. Not here: what waits in a queue for a far side
that does not read (`peers.node.waiting_time`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hub.histogram import Histogram

__all__ = ["BETWEEN_S", "READ_BYTES_BOUNDS", "READ_S_BOUNDS", "ReadTimes"]

BETWEEN_S: Final = 0.01
"""How long no other read is measured behind one that was, seconds. 100 a second are enough for a 99th percentile of a
minute, and cost 0.01 % of a core."""

_PUT_OFF_S: Final = 60.0
"""How long one that was put off is waited for, seconds, before the next one is measured instead."""

READ_S_BOUNDS: Final = (
    *(0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5),
    *(0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)
"""Seconds: a small read takes some 10 µs, a share of a turn some 10 ms."""

READ_BYTES_BOUNDS: Final = (64, 256, 1024, 4096, 16_384, 65_536, 262_144)
"""Bytes: from one short message to the most that a loop reads at once."""


class ReadTimes:
    """Of one hub.

    Args:
        clock_s: A steady clock that is finer than the loop's, seconds.
    """

    __slots__ = ("_began_s", "_clock_s", "_put_off_by", "bytes", "due_s", "seconds")

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self.due_s = 0.0
        """From when on the next read is measured, of the loop's clock, seconds."""
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
        """All that the read has brought was acted on and written."""
        self._put_off_by = 0
        self.seconds.observe(self._clock_s() - self._began_s)

    def put_off(self, whose: object) -> None:
        """The rest of the read waits for a later turn."""
        self._put_off_by = id(whose)
        self.due_s += _PUT_OFF_S

    def go_on(self, whose: object) -> None:
        """The rest of somebody's read was acted on: if it was the one that is measured, this is its end."""
        if self._put_off_by == id(whose):
            self.due_s -= _PUT_OFF_S
            self.end()
