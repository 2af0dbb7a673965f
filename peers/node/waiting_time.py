"""`WaitingTime`: how long messages wait in the queue of a far side that reads too slowly.

```
pause ─▶ resume: the queue is written, as far as the transport takes it ─▶ has what stood there at the last look gone?
  └──────── until the queue is empty: look again at each resume ◀─────────── yes: so long it has waited
```

The oldest message that is written when a transport takes bytes again has waited since the pause, at most. Where the
queue does not become empty, what is the newest in it is remembered, by its number; when it has gone, it has waited
since then, at least. So a far side that is always behind is seen, too, and nothing is done for a message.

Owner: one `Writer`, from a pause until the queue is empty; one whose transport always takes bytes has none. No clock:
times are arguments, seconds. Cost: some µs each time that a full transport takes bytes again.
"""

from __future__ import annotations

from typing import Final

from hub.handler import Handler
from hub.histogram import Histogram
from hub.overflow import Overflow

__all__ = ["QUEUE_S_BOUNDS", "WaitingTime"]

QUEUE_S_BOUNDS: Final = (0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Seconds: from what nobody notices to a far side that hangs."""


class WaitingTime:
    """Of one queue.

    Args:
        now_s: When the transport took no more bytes.
    """

    __slots__ = ("_goes_at", "_since_s")

    def __init__(self, now_s: float) -> None:
        # Since when that has waited whose end is awaited.
        self._since_s = now_s
        # How many messages have gone when it has; 0 before the first resume: then whatever stood in the queue.
        self._goes_at = 0

    def look(self, handler: Handler, waited: int, now_s: float, times: Histogram) -> bool:
        """Observe what has gone; return whether anything waits still.

        Args:
            handler: It was resumed just now.
            waited: How many messages stood in its queue before that.
            now_s: The time.
            times: Where it is observed.
        """
        gone, left = _gone(handler), handler.queued_messages
        if gone >= self._goes_at:
            if waited:
                times.observe(now_s - self._since_s)
            self._goes_at, self._since_s = gone + left, now_s
        return left > 0


def _gone(handler: Handler) -> int:
    """Return how many messages have left the queue at its front: where the newest are dropped, these do not count."""
    if handler.limits.overflow is Overflow.DROP_NEWEST:
        return handler.delivered_messages
    return handler.delivered_messages + handler.dropped_messages
