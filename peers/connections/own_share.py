"""`OwnShare`: what one connection may ask for in one turn of the event loop, and what of it waits for a later one.

```
work ─▶ something is left, of this share and of that of all? ─▶ done now, and taken from both
                                          └─ no ─▶ not read on, in the line ─▶ take_turn ─▶ work
after the turn: the share is full again
```

Purpose: no far side makes a turn long for the others, however much it sends at once, and in however many reads of a
turn.

Owner: one `Connection`. Invariants: what waits is acted on in the order in which it came, an event that was asked for
already first; whoever waits is in one line, once, and is not read meanwhile.

Cost: an addition and a comparison for what is taken; a run that comes alone in its read costs nothing of the share of
all. Not here: the share of all connections together, and the lines (`peers.node.common_share`); what an event costs
(`peers.connections.conversation`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from peers.connections.ended import OVER
from peers.connections.reading import KEPT_OUT, PUT_OFF, UNACTED
from peers.node.common_share import CommonShare

if TYPE_CHECKING:
    from peers.connections.connection import Connection

__all__ = ["BYTES_PER_EVENT", "REFILL_BELOW", "RUNS_PER_EVENT", "TURN_EVENTS", "OwnShare"]

TURN_EVENTS = 500
"""What one connection may ask for in one turn: runs of messages, other frames, and prefixes in them. A prefix costs
about 15 µs and a new topic as much, so that one client does not block a turn for more than some 10 ms. What is left
waits for the next turn. All connections together have a share, too: see `peers.node.common_share`."""

RUNS_PER_EVENT = 4
"""Runs behind one another cost less than a frame each: about 0.5 µs."""

BYTES_PER_EVENT = 4096
"""Bytes that are as much of a share as one event, so that a turn brings at most 2 MB of one connection. A loop may read
a ready socket many times before it goes on to the next one: libuv reads up to 32 times, 256 KB each."""

_COPIES_PER_EVENT = 2
"""A large read that goes to many is copied into the socket of each: so many copies of `BYTES_PER_EVENT` are as much of
a share as one event. 256 KiB for 100 subscribers take about 50 ms, and are more than a turn's share."""

REFILL_BELOW = TURN_EVENTS // 2
"""A share that falls below this is filled up after the turn. Above it no callback is worth its while."""


class OwnShare:
    """Of one connection. See `peers.node.common_share.Waiting`."""

    __slots__ = ("_held", "_refill_is_due", "connection", "left")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """Whose it is; `OVER` once that is over."""
        self.left = TURN_EVENTS
        """What is left of this turn's share, however often the loop reads in it. Full again after the turn."""
        self._refill_is_due = False
        """Whether the share will be filled up once this turn is over."""
        self._held: Any = None
        """The event that comes first in the next turn, if it was asked for already; None otherwise."""

    # What is taken of it.

    def work_at_much(self, cost: int) -> None:
        """Act on a large read, and take what it is copied for others from the shares, too.

        Args:
            cost: What reading it costs of a share.
        """
        connection = self.connection
        core, events = connection.node.core, connection.node.events
        self.left = self.left - cost if events.left > 0 else 0
        if connection.unread_for & UNACTED:
            return
        if connection.ending.is_lingering:  # what comes is thrown away: once a turn, not as often as the loop reads
            connection.stop_reading(PUT_OFF)
            connection.node.after_turn(partial(self.take_turn, TURN_EVENTS))
            return
        offered = core.offered  # the handlers that write something once this is worked at
        put_off = core.writers.put_off_total
        connection.work()
        copies = cost * (len(offered) - 1) // _COPIES_PER_EVENT
        if copies > 0:
            self.left -= copies
            events.spend(copies)
            if connection.unread_for & UNACTED:
                return
            if core.writers.put_off_total != put_off:  # read on when those have written for whom this was
                connection.stop_reading(PUT_OFF)
                core.writers.call_behind(partial(connection.node.after_turn, partial(self.take_turn, TURN_EVENTS)))
            else:
                self._refill_later()

    def do(self, event: Any, left: int) -> int:
        """Do what an event asks for, or hold it while nothing is left of what all may ask for in a turn.

        Args:
            event: No run and no stretch.
            left: What is left of this share, of which `work` has taken what came before.

        Returns:
            What is left of it then.
        """
        connection = self.connection
        node = connection.node
        # As `_common` and `CommonShare.spend`, without two calls for each event.
        common = node.changes if type(event) in connection.conversation.changes else node.events
        if common.left <= 0 and not connection.session.closed:
            self._held = event
            return self.use_up(left)
        cost = connection.conversation.act(event)
        common.left -= cost
        if common.left < common.refill_below:
            common.refill()
        self.left -= cost  # so that `work` does not take it from the share of all once more
        return self.use_up(left - cost) if connection.unread_for & KEPT_OUT else left - cost

    def _common(self, event: Any) -> CommonShare:
        """Return the share of all connections that an event is taken from."""
        connection = self.connection
        return connection.node.changes if type(event) in connection.conversation.changes else connection.node.events

    def use_up(self, left: int) -> int:
        """All connections together have used up what they may: the rest is for a later turn. Return what is left: 0."""
        self.connection.node.events.spend(self.left - left)
        self.left = 0
        return 0

    # When there is more.

    def end(self) -> None:
        """Much of this turn's share is used up, or all: the next turn brings a new one."""
        connection = self.connection
        if self.left <= 0 and (connection.ending.is_last or not connection.session.closed):
            if not connection.unread_for & KEPT_OUT:
                connection.stop_reading(PUT_OFF)
                self._common(self._held).wait(self)
        else:
            self._refill_later()

    def _refill_later(self) -> None:
        if not self._refill_is_due:
            self._refill_is_due = True
            self.connection.node.after_turn(self._refill)

    def _refill(self) -> None:
        self._refill_is_due = False
        self.left = TURN_EVENTS

    def take_turn(self, events: int) -> None:
        """A turn later: the rest of what was more than a turn's share."""
        connection = self.connection
        if connection is OVER:  # this side has ended it meanwhile
            return
        connection.unread_for &= ~PUT_OFF
        self.left = events
        try:
            if self._held is not None:
                self._do_held()
            if connection.has_joined or not connection.is_lost:  # who has gone before its turn is not taken in any more
                connection.work()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            connection.fail(error)
        if not connection.unread_for & PUT_OFF:
            connection.node.read_times.go_on(connection)
        if connection.is_given_back and not connection.unread_for & UNACTED:
            connection.conclude()
        connection.read_on()

    def _do_held(self) -> None:
        """Do what was put off. Whoever has gone changes nothing any more, nor does whoever this side has ended."""
        connection = self.connection
        event, self._held = self._held, None
        if connection.session.closed or (connection.is_lost and type(event) in connection.conversation.changes):
            return
        core = connection.node.core
        core.write_is_due = True  # a read begins, and `end_read` ends it
        if core.late:
            connection.catch_up()
        try:
            self.left = self.do(event, self.left)
        finally:
            core.end_read()
