"""Reads: how much connections may ask for in a turn (`ReadBudget`), how long reads take, and how long messages wait.

A share of each connection alone does not bound a turn: four thousand clients that subscribe to ten prefixes each would
make one of half a second. A connection that finds nothing left of the common share waits in a line, and is not read
meanwhile. There are two: `events` for messages, requests and pings, `changes` for handshakes, subscriptions, services,
rules and names; so publishers do not wait behind thousands of subscriptions.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from hub.handlers.counters import Histogram
from hub.handlers.handler import Handler
from hub.limits import Overflow

EVENTS_PER_TURN = 500  # About 8 ms: 3 µs (a ping) to 20 µs (a message over a WebSocket, a new topic) each
CHANGES_PER_TURN = 250  # About 5 ms: to add a prefix takes 10 to 20 µs; a handshake counts as ten
_LEAST = 16  # Least share of a waiting connection, as it costs some 10 µs to go on with one at all


class Waiting(Protocol):
    """A connection that has more to do than was left for it."""

    def take_turn(self, events: int) -> None:
        """Go on, with a share of so many events."""


class ReadBudget:
    """One share of all connections together."""

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
        """Take events from the share. A connection inlines this, as a call is one too many there."""
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


# How long no other read is measured behind one that was: 100 a second are enough for a 99th percentile of a minute, and
# cost 0.01 % of a core
BETWEEN_S: Final = 0.01
_PUT_OFF_S: Final = 60.0  # How long the end of a delayed read is awaited, before the next one is measured instead
# A small read takes some 10 µs, a share of a turn some 10 ms
READ_S_BOUNDS: Final = (
    *(0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5),
    *(0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)
# From one short message to the most that a loop reads at once
READ_BYTES_BOUNDS: Final = (64, 256, 1024, 4096, 16_384, 65_536, 262_144)


class ReadTimes:
    """Sizes of reads, and the time from a read until all its messages were handed to transports or queues.

    If the connection of a delayed read is gone when the next read is due, it counts with the time until then.
    """

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self.due_s = 0.0  # When the next read is measured, by the loop's clock
        self.seconds = Histogram(READ_S_BOUNDS)
        self.bytes = Histogram(READ_BYTES_BOUNDS)
        self._began_s = 0.0
        self._put_off_by = 0  # `id` of the connection of a delayed read, or 0. No reference: it may be gone by then

    def begin(self, now_s: float, size_bytes: int) -> None:
        """Measure a read that is about to be acted on."""
        if self._put_off_by:
            self.end()
        self.due_s = now_s + BETWEEN_S
        self.bytes.observe(size_bytes)
        self._began_s = self._clock_s()

    def end(self) -> None:
        self._put_off_by = 0
        self.seconds.observe(self._clock_s() - self._began_s)

    def put_off(self, whose: object) -> None:
        """Note that the rest of the read waits for a later turn."""
        self._put_off_by = id(whose)
        self.due_s += _PUT_OFF_S

    def go_on(self, whose: object) -> None:
        """Note that the rest of a read was acted on."""
        if self._put_off_by == id(whose):
            self.due_s -= _PUT_OFF_S
            self.end()


# From an unnoticeable time to a far side that hangs
QUEUE_S_BOUNDS: Final = (0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class WaitingTime:
    """How long messages wait in the queue of a far side that reads too slowly."""

    __slots__ = ("_goes_at", "_since_s")

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._goes_at = 0  # The measured message has gone when so many have; 0 before the first look

    def look(self, handler: Handler, waited: int, now_s: float, times: Histogram) -> bool:
        """Observe messages that have gone; return whether any wait still."""
        gone, left = handler.delivered_messages, handler.queued_messages
        if handler.limits.overflow is not Overflow.DROP_NEWEST:  # dropped newest messages were never in the queue
            gone += handler.dropped_messages
        if gone >= self._goes_at:
            if waited:
                times.observe(now_s - self._since_s)
            self._goes_at, self._since_s = gone + left, now_s
        return left > 0
