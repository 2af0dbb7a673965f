"""`Scheduler` and `Writers`: work that is too long for one turn, and writes that are too many for one turn.

```
add(kind, work) ─▶ a queue for each kind ─▶ run(): the kinds take turns until the steps of this turn are used up
end of a read ─▶ few are to write, or the turn's share is not used up ─▶ they write now
              └▶ many ─▶ the line ── next turns, first come first served ─▶ they write
```

A message with 9,000 subscribers is 9,000 small writes, up to a fifth of a second, so all reads of a turn share a number
of writes. Handlers whose bytes are dear, as each gets them encrypted with its own keys, are counted by cost
(`Handler.write_cost`), also where they are few. Links, the journal and the subscribers of a read that reaches few
never wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Protocol

# Steps of deferred work in one turn, about 5 ms: taking one prefix out of the routing takes 10 to 20 µs
STEPS_PER_TURN = 250

_STEPS_AT_A_TIME = 25  # Steps of one kind of work before the next kind has its turn

# How many write in one turn, about 5 ms: a small write takes 10 to 25 µs, most of it in the kernel
WRITES_PER_TURN: Final = 250

SMALL_WRITE_BYTES: Final = 16 * 1024  # So many bytes more in one write count as another write

FEW: Final = 8  # So many write at the end of each read without being counted

_REFILL_BELOW: Final = WRITES_PER_TURN // 2  # With less left the next turn is requested, which brings a whole share


class Scheduler:
    """All work that is spread over turns. A piece of work is an iterator; each item that it yields ends a step.

    Args:
        wake: Calls the core at the end of this turn of the event loop. It is not called again before `begin`.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._is_requested = False
        self._steps_left = STEPS_PER_TURN
        self.turns = 0  # Each gives whole shares of work
        # Kind → its unfinished work, in order. The kind in front has its turn next.
        self._queues: dict[Hashable, deque[Iterator[object]]] = {}
        # Kinds whose work is being run: that work may add more of any kind.
        self._running: set[Hashable] = set()

    @property
    def is_busy(self) -> bool:
        return bool(self._queues)

    def request(self) -> None:
        """Have the core called once more; asking again before that changes nothing."""
        if not self._is_requested:
            self._is_requested = True
            self._wake()

    def begin(self) -> None:
        self._is_requested = False
        self._steps_left = STEPS_PER_TURN
        self.turns += 1

    def add(self, kind: Hashable, work: Iterator[object], *, at_once: bool = True) -> None:
        """Run some work behind all of its kind: now, as far as this turn has steps for it, and in later turns.

        Args:
            kind: Work of one kind runs in its order.
            work: It stops between two steps at any place, and may find there that it is no longer needed.
            at_once: Whether it may begin within this call.
        """
        queue = self._queues.setdefault(kind, deque())
        queue.append(work)
        try:
            if at_once and len(queue) == 1 and kind not in self._running:
                self._run(kind, self._steps_left)
        finally:
            if self._queues and not self._running:
                self.request()

    def run(self) -> None:
        """Run work until the steps of this turn are used up."""
        try:
            while self._queues and self._steps_left > 0:
                kind = next(iter(self._queues))
                self._run(kind, _STEPS_AT_A_TIME)
                if kind in self._queues:
                    self._queues[kind] = self._queues.pop(kind)  # to the end of the line
        finally:
            if self._queues:
                self.request()

    def _run(self, kind: Hashable, steps: int) -> None:
        queue, left = self._queues[kind], steps
        self._running.add(kind)
        try:
            while queue and left > 0 and self._steps_left > 0:
                for _ in queue[0]:
                    left -= 1
                    self._steps_left -= 1
                    if left <= 0 or self._steps_left <= 0:
                        break
                else:
                    queue.popleft()
        finally:
            self._running.remove(kind)
            if not queue:
                del self._queues[kind]


class WritesLater(Protocol):
    """A handler, or another object that may write at the end of a read."""

    write_cost: int  # As how many bytes each byte counts that it writes

    @property
    def pending_bytes(self) -> int:
        """How much it is going to write, times the cost."""

    @property
    def can_wait(self) -> bool:
        """Whether it may write in a later turn."""

    def flush(self) -> object:
        """Write."""


class Writers:
    """The share of a turn, and the line of handlers that write in a later turn. Each of them is in it once."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        # Below 0 by as much as the last one took beyond the share.
        self._left = WRITES_PER_TURN
        self.late: deque[WritesLater] = deque()
        self.few = FEW
        self.are_alike = True  # no handler is dear
        self.put_off_total = 0

    def take_in_dear(self) -> None:
        """From now on each read looks for dear handlers among its subscribers."""
        self.few = 0
        self.are_alike = False

    def choose(self, many: list[WritesLater]) -> list[WritesLater]:
        """Return those of the handlers that a read has reached that write now; the others stand in the line.

        A read mostly brings the same for all, so the last of them stands for the size of every write.
        """
        if not self.are_alike:
            dear = [one for one in many if one.write_cost > 1]
            many = [one for one in many if one.write_cost == 1]
            return (many if len(many) <= FEW else self._choose(many)) + self._cut(dear)
        return self._choose(many)

    def _choose(self, many: list[WritesLater]) -> list[WritesLater]:
        left = self._left - len(many) * (1 + many[-1].pending_bytes // SMALL_WRITE_BYTES)
        if left < 0:
            return self._cut(many)
        self._set_left(left)
        return many

    def _set_left(self, left: int) -> None:
        self._left = left
        if left < _REFILL_BELOW:
            self._scheduler.request()

    def _cut(self, many: list[WritesLater]) -> list[WritesLater]:
        left = self._left
        chosen = 0
        for one in many:
            if left <= 0:
                break
            left -= 1 + one.pending_bytes // SMALL_WRITE_BYTES
            chosen += 1
        self._set_left(left)
        if chosen == len(many):
            return many
        now, before = many[:chosen], len(self.late)
        for one in many[chosen:]:
            (self.late if one.can_wait else now).append(one)
        self.put_off_total += len(self.late) - before
        return now

    def begin_turn(self) -> list[WritesLater]:
        """Begin with a whole share; return those of the line that write in this turn."""
        late, left = self.late, WRITES_PER_TURN
        due: list[WritesLater] = []
        while late and left > 0:
            one = late.popleft()
            left -= 1 + one.pending_bytes // SMALL_WRITE_BYTES
            due.append(one)
        self._set_left(left)
        return due

    def call_behind(self, act: Callable[[], object]) -> None:
        """Call `act` once all have written that stand in the line now: at the end of a turn."""
        self.late.append(_Behind(act))
        self._scheduler.request()


class _Behind:
    """Stands in the line, and writes nothing."""

    __slots__ = ("flush",)

    pending_bytes = 0
    write_cost = 1
    can_wait = True

    def __init__(self, act: Callable[[], object]) -> None:
        self.flush = act
