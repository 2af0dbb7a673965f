"""The numbered channel of a data store: its rhythm, its limits, and the end that takes actions in order.

A channel carries numbered actions from one producer to its consumers: from a master to all its clones, and from each
clone that writes to the master. Numbers begin at 2: 1 stands for "nothing was sent yet", 0 for "nothing was
acknowledged yet".

```
handshake(offset) ─▶ next = offset + 1
action n:  n == next ─▶ taken, with all that waited for it     n > next ─▶ waits     n < next ─▶ came twice
tick:      nothing yet ─▶ nack [0]     something is missing ─▶ nack [...]     all is well ─▶ now and then an ack
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from peers.zeek.broker.stores.command import Action, CumulativeAck, Nack

TICK_S: Final = 0.1
"""How long a tick is, seconds; as `broker.store.tick-interval`."""

HEARTBEAT_TICKS: Final = 5
"""How often both ends give a sign of life, ticks; as `broker.store.heartbeat-interval`."""

NACK_TICKS: Final = 2
"""How long something may be missing before it is asked for again, ticks; as `broker.store.nack-timeout`."""

SILENT_TICKS: Final = HEARTBEAT_TICKS * 100
"""How long a consumer may say nothing before it is removed, ticks; as `broker.store.connection-timeout`: 50 s."""

FIRST_NUMBER: Final = 1
"""The number before that of the first action."""

NACK_NUMBERS: Final = 1_000
"""Most numbers that are asked for, or sent again, at once: what is still missing then is asked for two ticks later."""


class ChannelLimits(NamedTuple):
    """How much one end of a channel holds."""

    actions: int = 100_000
    """Most actions that wait for acknowledgements, or for those before them."""
    bytes: int = 64 * 1024 * 1024
    """Most bytes of these."""


@dataclass(slots=True)
class ChannelCounters:
    """What was not as it should be, since the start; channels may share one."""

    repeated: int = 0
    """Actions that were sent again."""
    failed: int = 0
    """Actions that were asked for again, and are not held any more."""
    silent: int = 0
    """Consumers that were removed since they said nothing for `SILENT_TICKS`."""
    wrong: int = 0
    """Consumers that were removed since they asked for numbers that were not ascending."""
    overrun: int = 0
    """Actions that came too early and found no room; they are asked for again."""
    lost: int = 0
    """Actions that a consumer has learned to be lost for good."""


class Consumer:
    """The end that takes each number once, in order; an action that is lost for good counts as taken.

    Args:
        take: Called with each action, in order.
        lose: Called with the number of an action that will never come, in its place.
        say: Called with an acknowledgement or a nack for the producer.
        limits: Of what waits for earlier actions.
        counters: Raised here.
    """

    __slots__ = (
        "_counters",
        "_early",
        "_early_bytes",
        "_idle_ticks",
        "_last",
        "_limits",
        "_lose",
        "_next_at_tick",
        "_say",
        "_take",
        "_ticks",
        "next",
    )

    def __init__(
        self,
        take: Callable[[Action], object],
        lose: Callable[[int], object],
        say: Callable[[CumulativeAck | Nack], object],
        limits: ChannelLimits,
        counters: ChannelCounters,
    ) -> None:
        self._take = take
        self._lose = lose
        self._say = say
        self._limits = limits
        self._counters = counters
        self.next = 0
        """The number that is taken next; 0 before the handshake."""
        self._last = 0
        """The end of the stream as far as it is known: all numbers below it were used."""
        self._early: dict[int, tuple[Action | None, int]] = {}
        """Actions that wait for those before them, with their sizes; None for one that will never come."""
        self._early_bytes = 0
        self._ticks = self._idle_ticks = self._next_at_tick = 0

    @property
    def is_attached(self) -> bool:
        """Whether the handshake has come."""
        return self.next > 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is missing, as far as that is known."""
        return self.next > 0 and self.next >= self._last

    def ask(self) -> None:
        """Ask for the handshake."""
        self._say(Nack((0,)))

    def attach(self, offset: int) -> None:
        """The handshake has come; another one changes nothing."""
        if self.next:
            return
        self.next = self._next_at_tick = offset + 1
        for number in [number for number in self._early if number <= offset]:
            self._drop_early(number)
        self._last = max((self.next, *self._early))
        self._idle_ticks = self._ticks = 0
        self._take_early()
        self._say(CumulativeAck(self.next - 1))

    def hear(self, number: int, action: Action, size_bytes: int) -> None:
        """An action has come."""
        if self.next and number == self.next:
            self._advance(action)
            self._take_early()
        else:
            self._wait(number, action, size_bytes)

    def hear_lost(self, number: int) -> None:
        """The producer does not have this number any more."""
        if self.next and number == self.next:
            self._advance(None)
            self._take_early()
        else:
            self._wait(number, None, 0)

    def hear_end(self, number: int) -> None:
        """The producer has used all numbers up to this one."""
        if self.next:
            self._last = max(self._last, number + 1)

    def stop(self) -> None:
        """Take nothing more of what has come: the owner gives up on the producer, perhaps amid a call to it."""
        self._early.clear()
        self._early_bytes = 0

    def tick(self) -> None:
        """Let a tick pass."""
        if not self.next:
            self._idle_ticks += 1
            if self._idle_ticks >= NACK_TICKS:
                self._idle_ticks = 0
                self.ask()
            return
        self._ticks += 1
        self._idle_ticks = 0 if self.next > self._next_at_tick else self._idle_ticks + 1
        self._next_at_tick = self.next
        if self.next < self._last and self._idle_ticks >= NACK_TICKS:
            self._idle_ticks = 0
            self._say(Nack(self._missing()))
        elif self._ticks >= HEARTBEAT_TICKS:
            self._ticks = 0
            self._say(CumulativeAck(self.next - 1))

    def _missing(self) -> tuple[int, ...]:
        numbers = range(self.next, self._last)
        return tuple(islice((number for number in numbers if number not in self._early), NACK_NUMBERS))

    def _advance(self, action: Action | None) -> None:
        number = self.next
        self.next += 1
        if action is None:
            self._counters.lost += 1
            self._lose(number)
        else:
            self._take(action)

    def _take_early(self) -> None:
        while self.next in self._early:
            action, _ = self._early[self.next]
            self._drop_early(self.next)
            self._advance(action)

    def _drop_early(self, number: int) -> None:
        _, size_bytes = self._early.pop(number)
        self._early_bytes -= size_bytes

    def _wait(self, number: int, action: Action | None, size_bytes: int) -> None:
        if number < self.next or number in self._early:
            return
        if self.next:
            self._last = max(self._last, number)
        if len(self._early) >= self._limits.actions or self._early_bytes + size_bytes > self._limits.bytes:
            self._counters.overrun += 1
            return
        self._early[number] = (action, size_bytes)
        self._early_bytes += size_bytes
