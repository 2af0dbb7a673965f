"""The numbered channel of a data store: its timing, its limits, and the end that takes actions in order.

A channel carries numbered actions from a master to all its clones, or from a clone that writes to the master. Numbers
begin at 2: 1 means "nothing was sent yet", 0 "nothing was acknowledged yet".

```
handshake(offset) ─▶ next = offset + 1
action n:  n == next ─▶ taken, with all that waited for it     n > next ─▶ waits     n < next ─▶ a duplicate
tick:      nothing yet ─▶ nack [0]     numbers are missing ─▶ nack [...]     none is missing ─▶ now and then an ack
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from peers.zeek.broker.stores.command import Action, CumulativeAck, Nack

# Options of Broker: `broker.store.tick-interval`, `heartbeat-interval`, `nack-timeout`, `connection-timeout` (50 s).
TICK_S: Final = 0.1
HEARTBEAT_TICKS: Final = 5
NACK_TICKS: Final = 2
SILENT_TICKS: Final = HEARTBEAT_TICKS * 100
FIRST_NUMBER: Final = 1  # before that of the first action
NACK_NUMBERS: Final = 1_000  # that are asked for, or sent again, at once


class ChannelLimits(NamedTuple):
    """Most actions, and bytes of actions, that wait at one end for acknowledgements, or for earlier actions."""

    actions: int = 100_000
    bytes: int = 64 * 1024 * 1024


@dataclass(slots=True)
class ChannelCounters:
    """Irregularities since the start; channels may share one."""

    repeated: int = 0  # Actions that were sent again
    failed: int = 0  # Actions that a consumer lacks, and that are not held any more
    silent: int = 0  # Consumers that were removed after `SILENT_TICKS` of silence
    wrong: int = 0  # Consumers that were removed as they have asked for numbers that were not ascending
    overrun: int = 0  # Actions that came too early and were dropped; they are asked for again
    lost: int = 0  # Actions that are lost for good


class Consumer:
    """The end that takes each number once, in order; an action that is lost for good counts as taken.

    Args:
        take: Called with each action, in order.
        lose: Called with the number of an action that will never come, in its place.
        say: Called with an acknowledgement or a nack for the producer.
        limits: Of early actions.
        counters: Updated.
    """

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
        self.next = 0  # Number that is taken next; 0 before the handshake
        self._last = 0  # End of the stream as far as it is known: all numbers below it were used
        self._early: dict[int, tuple[Action | None, int]] = {}
        """Early actions with their sizes; None for one that will never come."""
        self._early_bytes = 0
        self._ticks = self._idle_ticks = self._next_at_tick = 0

    @property
    def is_attached(self) -> bool:
        return self.next > 0

    @property
    def is_idle(self) -> bool:
        return self.next > 0 and self.next >= self._last

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

    def ask(self) -> None:
        self._say(Nack((0,)))

    def hear(self, number: int, action: Action | None, size_bytes: int = 0) -> None:
        """An action has come; None: this number is lost for good."""
        if self.next and number == self.next:
            self._advance(action)
            self._take_early()
        else:
            self._wait(number, action, size_bytes)

    def hear_end(self, number: int) -> None:
        """The producer has used all numbers up to this one."""
        if self.next:
            self._last = max(self._last, number + 1)

    def stop(self) -> None:
        """Drop early actions: the owner gives up on the producer, perhaps within `take` or `lose`."""
        self._early.clear()
        self._early_bytes = 0

    def tick(self) -> None:
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
            missing = (number for number in range(self.next, self._last) if number not in self._early)
            self._say(Nack(tuple(islice(missing, NACK_NUMBERS))))
        elif self._ticks >= HEARTBEAT_TICKS:
            self._ticks = 0
            self._say(CumulativeAck(self.next - 1))

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
            self._advance(self._drop_early(self.next))

    def _drop_early(self, number: int) -> Action | None:
        action, size_bytes = self._early.pop(number)
        self._early_bytes -= size_bytes
        return action

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
