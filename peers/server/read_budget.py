"""`ReadBudget`: how much all connections together may ask for in one turn of the event loop.

```
read ─▶ within the connection's own share, and something is left of the common one? ─▶ done now
                                          └─ no ─▶ in the line ── next turn, first come first served ─▶ a part each
```

A share of each connection alone does not bound a turn: four thousand clients that subscribe to ten prefixes each would
make one of half a second. So all work but runs of messages that are routed as they came is taken from a common share,
too. A connection that finds nothing left waits in a line, and is not read meanwhile. There are two shares: `events` for
messages, requests and pings, `changes` for handshakes, subscriptions, services, rules and names; so publishers do not
wait behind thousands of subscriptions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

EVENTS_PER_TURN = 500  # About 8 ms: 3 µs (a ping) to 20 µs (a message over a WebSocket, a new topic) each

CHANGES_PER_TURN = 250  # About 5 ms: to add a prefix takes 10 to 20 µs; a handshake counts as ten

_LEAST = 16  # Least share of a waiting connection, as it costs some 10 µs to go on with one at all


class Waiting(Protocol):
    """A connection that has more to do than was left for it."""

    def take_turn(self, events: int) -> None:
        """Go on, with a share of so many events."""


class ReadBudget:
    """One share of all connections together."""

    __slots__ = ("_after_turn", "_limit", "_line", "_refill_is_due", "left", "put_off_total", "refill_below")

    def __init__(self, limit: int, after_turn: Callable[[Callable[[], object]], object]) -> None:
        self._limit = limit
        self._after_turn = after_turn
        self.refill_below = limit // 2  # Above it, no callback is worth its while
        self._refill_is_due = False
        self._line: deque[Waiting] = deque()
        self.left = limit  # Of this turn's share; below 0 by as much as the last one took beyond
        self.put_off_total = 0

    def __len__(self) -> int:
        return len(self._line)

    def spend(self, events: int) -> None:
        """Take from it what was done. A connection does so inline for what it acts on, as a call is one too many."""
        self.left -= events
        if self.left < self.refill_below:
            self.refill()

    def wait(self, connection: Waiting) -> None:
        """Let a connection go on in a later turn, behind those that wait already."""
        self.put_off_total += 1
        self._line.append(connection)
        self.refill()

    def refill(self) -> None:
        """Have another turn begin; to be called when `left` has fallen below `refill_below`."""
        if not self._refill_is_due:
            self._refill_is_due = True
            self._after_turn(self._begin_turn)

    def _begin_turn(self) -> None:
        self._refill_is_due = False
        self.left = self._limit
        line = self._line
        if not line:
            return
        each = max(_LEAST, self._limit // len(line))
        for _ in range(len(line)):
            if self.left <= 0:
                break
            line.popleft().take_turn(each)
        if line:
            self.refill()
