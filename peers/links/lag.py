"""`Lag`: how late a link is: how long a PING and its PONG take, and how long the oldest message has waited for it.

```
look, once a second ─ time for a PING? ─▶ token ─▶ PING ─▶ peer ─▶ PONG ─▶ answer(token): the round trip
                    └ queue not empty? ─▶ a mark: its end, and now ─▶ the first that its head has not passed: the age
```

A PING is asked for on busy links, too: it stands behind all that was written before, and the peer answers once it has
acted on that. So the round trip is that of a message which is routed now, there and back. While an answer is awaited,
the lag is at least as long as that takes.

Owner: one link. No I/O, no clock: times are arguments, seconds of a clock that does not go back. That of uvloop goes by
milliseconds, and so do round trips. Cost: a look a second, 1 µs; nothing for a message. Not here: whether the far side
is alive (`peers.transport.liveness`).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from hub.overflow import Overflow

__all__ = ["PING_EVERY_S", "Lag"]

PING_EVERY_S: Final = 5.0
"""How often a link is measured, seconds. Prometheus asks every 15 s or so, and finds another figure each time; two
frames of a few bytes in so long are nothing, also for a hub with 1,000 links."""

_MARKS: Final = 60
"""How many marks are kept, one a second: a message that waits for longer is said to have waited for a minute."""

_TOKEN_BYTES: Final = 4
"""Others PING links with tokens of another length (`peers.node.links`)."""

_TOKEN_MASK: Final = (1 << 8 * _TOKEN_BYTES) - 1


class Lag:
    """Of one link.

    Args:
        overflow: What goes when its queue is full: where it is the oldest, what was dropped has stood before the rest.
    """

    __slots__ = ("_asked_s", "_drops_oldest", "_due_s", "_marks", "_number", "round_trip_s")

    def __init__(self, overflow: Overflow) -> None:
        self._drops_oldest = overflow is Overflow.DROP_OLDEST
        self._number = 0
        # When the PING was sent that is not answered yet; None if there is none.
        self._asked_s: float | None = None
        self._due_s = 0.0
        # When the queue was looked at, and how many messages had been put into it by then: of those that are in it.
        self._marks: deque[tuple[float, int]] = deque(maxlen=_MARKS)
        self.round_trip_s: float | None = None
        """How long the last PING took; None before the first answer."""

    # The round trip.

    def ask(self, now_s: float) -> bytes:
        """Return the token of a PING that is to be sent now; nothing if it is not time for one."""
        if self._asked_s is not None or now_s < self._due_s:
            return b""
        self._asked_s = now_s
        self._due_s = now_s + PING_EVERY_S
        self._number += 1
        return self._token

    @property
    def _token(self) -> bytes:
        return (self._number & _TOKEN_MASK).to_bytes(_TOKEN_BYTES)

    def answer(self, token: bytes, now_s: float) -> None:
        """The far side has answered a PING; one that is none of these is passed over."""
        if self._asked_s is not None and token == self._token:
            self.round_trip_s = round(now_s - self._asked_s, 6)
            self._asked_s = None

    def lag_s(self, now_s: float) -> float | None:
        """Return how long a PING takes now, at least; None if that is not known yet."""
        awaited_s = 0.0 if self._asked_s is None else now_s - self._asked_s
        if self.round_trip_s is None:
            return awaited_s or None
        return max(self.round_trip_s, awaited_s)

    # The queue.

    def look(self, written: int, dropped: int, queued: int, now_s: float) -> None:
        """See how far the queue has got: messages that were written so far, were dropped, and wait now."""
        head = self._head(written, dropped)
        marks = self._marks
        while marks and marks[0][1] <= head:
            marks.popleft()
        tail = head + queued
        if queued and not (marks and marks[-1][1] == tail):
            marks.append((now_s, tail))

    def waiting_s(self, written: int, dropped: int, queued: int, now_s: float) -> float:
        """Return how long the oldest message has waited, to a second; 0 if none waits."""
        head = self._head(written, dropped)
        return next((now_s - at_s for at_s, tail in self._marks if tail > head), 0.0) if queued else 0.0

    def _head(self, written: int, dropped: int) -> int:
        """Return how many messages have left the queue. What was dropped as the newest one has never been in it."""
        return written + dropped if self._drops_oldest else written
