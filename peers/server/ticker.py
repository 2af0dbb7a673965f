"""`Ticker`: looks at the whole hub once a second, and keeps its state and its figures of the last minutes.

No message costs anything for this: counters of handlers are summed up, `STEP` handlers a turn, and figures are divided
by the time between two looks. 0.5 µs for each connection and second: 5 ms with 10,000 of them. Other processes of the
hub look for themselves, by the same clock (`peers.workers`). Links between processes do not count, as messages that
cross them count at another one; nor do handlers in this process, such as the journal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from hub.handlers.counters import Look
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.statistics.history import STEP_S, Counters, Recent, Ring, Rings, Sample
from hub.statistics.losses import SLOW_TOLD, Loss, Losses, State, droppers_of

if TYPE_CHECKING:
    from peers.server.server import Connected, Server

STEP: Final = 1_000  # Connections that are looked at in a turn: about 0.4 ms


class _Sums:
    def __init__(self, at_s: float) -> None:
        self.at_s = at_s
        self.cpu_s = time.process_time()
        self.look = Look()
        self.read_bytes = 0


class Ticker:
    """Looks at one hub once a second."""

    def __init__(self, source: Server, after_turn: Callable[[Callable[[], object]], object]) -> None:
        self._source = source
        self._after_turn = after_turn
        self.history = Ring()
        self.losses = Losses()
        self.recent = Recent()
        self.topics: Rings[str] = Rings(("in_messages", "in_bytes"))  # Figures of the busiest topics
        self.state = State()  # As of the last look that was over
        self._before: _Sums | None = None  # The sums of the look before; None before the first
        self._waiting: set[int] = set()  # Handlers with queued messages at that look
        self._inner: dict[Connected, int] = {}  # Links between the processes of this hub, with their read bytes
        self._gone_bytes = 0  # Read bytes of those that are over
        self._aside: dict[int, Look] = {}  # Counters of handlers of these links, and of those in this process
        self._gone = Look()  # Counters of those that have left: they stay among the sums of the core
        self._marked = -1  # The number of the step in which `recent` was marked last
        self._looking: Iterator[None] | None = None  # The look that is under way; None between two

    def leave_out(self, link: Connected) -> None:
        """Do not count what crosses a link between processes of this hub."""
        self._inner[link] = 0

    def lose(self, second: int, event: Mapping[str, Any]) -> None:
        """Add the losses of one handler in a second, as an event of `hub.statistics.events`."""
        label = event["name"] or event["address"]
        why = event.get("overflow", "unreadable")
        self.losses.add(Loss(second, event["id"], label, event["lost"], why))

    def beat(self, now_s: float, lag_s: float) -> None:
        """Look at everything, in this turn and the next ones; not while the last look is still under way."""
        if self._looking is None:
            self._looking = self._look(now_s, lag_s)
            self._step()

    def _step(self) -> None:
        if self._looking is None:
            return
        try:
            next(self._looking)
        except StopIteration:
            self._looking = None
        else:
            self._after_turn(self._step)

    def _look(self, now_s: float, lag_s: float) -> Iterator[None]:
        source, sums = self._source, _Sums(now_s)
        look = sums.look
        aside = self._leave_out()
        source.core.counters.add_to(look)
        look.add(self._gone, -1)
        sums.read_bytes = source.received_bytes_before - self._gone_bytes
        handlers = [one for number, one in source.core.handlers.items() if number not in aside]
        connections = [one for one in source.connections if one not in self._inner]
        for some in _parts(connections):
            sums.read_bytes += sum(map(_read_bytes, some))
            yield
        for some in _parts(handlers):
            for handler in some:
                handler.add_to(look)
            yield
        if self._before is not None and now_s > self._before.at_s:
            self.history.add(math.floor(now_s), self._sample(self._before, sums, lag_s, len(handlers)))
        self.state = self._judge(math.floor(now_s), look, len(handlers))
        self._before, self._waiting = sums, look.waiting
        if self._marked != math.floor(now_s) // STEP_S:
            self._marked = math.floor(now_s) // STEP_S
            shown = [one for one in source.core.handlers.values() if one.role is not Role.LOCAL]
            yield from self.recent.mark(now_s, ((one.id, counters_of(one)) for one in shown))
            found = ((one.messages_per_s, one.name, one) for one in source.core.topic_rates)
            yield from self.topics.add(math.floor(now_s) - 1, found, lambda one: (one.messages_per_s, one.bytes_per_s))

    def _leave_out(self) -> Collection[int]:
        """Return the numbers of handlers that do not count, and note their counters."""
        source = self._source
        for link, seen_bytes in list(self._inner.items()):
            if link in source.connections:
                self._inner[link] = link.read_bytes
            else:
                self._gone_bytes += seen_bytes
                del self._inner[link]
        inner = {link.handler.id for link in self._inner if link.handler is not None}
        handlers = source.core.handlers
        for number in [number for number in self._aside if number not in handlers]:
            self._gone.add(self._aside.pop(number))
        for number, handler in handlers.items():
            if handler.role is Role.LOCAL or number in inner:
                self._aside[number] = seen = Look()
                handler.add_to(seen)
        return self._aside.keys()

    def _sample(self, before: _Sums, now: _Sums, lag_s: float, connections: int) -> Sample:
        seconds = now.at_s - before.at_s
        one, other = before.look, now.look

        def rate(first: float, second: float) -> float:
            return max(0.0, (second - first) / seconds)  # an inner link that has gone takes a part of a second with it

        return Sample(
            rate(one.published_messages, other.published_messages),
            rate(before.read_bytes, now.read_bytes),
            rate(one.delivered_messages, other.delivered_messages),
            rate(one.delivered_bytes, other.delivered_bytes),
            rate(one.dropped_messages, other.dropped_messages),
            other.queued_messages,
            other.queued_bytes,
            max(0.0, lag_s),
            rate(before.cpu_s, now.cpu_s),
            self._source.memory.statistics().resident_bytes,
            connections,
        )

    def _judge(self, second: int, look: Look, connections: int) -> State:
        losers = self.losses.minute(second)
        handlers = self._source.core.handlers
        slow = (look.waiting & self._waiting) | {number for number in losers.named if number in handlers}
        by, droppers = droppers_of(losers)
        return State(
            connections,
            look.subscribers,
            len(slow),
            losers.messages,
            by,
            droppers,
            tuple(sorted(slow)[:SLOW_TOLD]),
            tuple(self._troubles()),
        )

    def _troubles(self) -> Iterator[str]:
        source = self._source
        if source.draining:
            yield "the hub is stopping"
        if source.journal.trouble:
            yield source.journal.trouble
        if trouble := source.log_statistics().trouble:
            yield trouble
        if source.memory.is_over:
            yield "memory is short: new connections and subscriptions are rejected"


def counters_of(handler: Handler) -> Counters:
    return (
        handler.published_messages,
        handler.delivered_messages,
        handler.dropped_messages,
        handler.delivered_bytes,
        handler.queued_messages,
        handler.queued_bytes,
    )


_read_bytes: Final = attrgetter("read_bytes")


def _parts(all_of_them: Sequence[Any]) -> Iterator[Collection[Any]]:
    for first in range(0, len(all_of_them), STEP):
        yield all_of_them[first : first + STEP]
