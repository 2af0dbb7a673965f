"""`Turn` and `Writers`: how much work that can wait is done in one turn, and who writes in it.

```
end of a read ─▶ few are to write ────────────────────────────────▶ they write
              └▶ many ─▶ something is left of the turn's share? ──▶ they write
                                             └─ no ─▶ the line ── next turn, first come first served ─▶ they write
```

A message with 9,000 subscribers is 9,000 small writes, up to a fifth of a second, so all reads of a turn share a number
of writes; the other handlers write in the next turns, in their order. Handlers whose bytes are dear, as each gets them
encrypted with its own keys, are counted by cost (`Handler.write_cost`), also where they are few. Links and the journal
never wait, since others stand behind them, nor do the subscribers of a read that reaches few.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

STEPS_PER_TURN = 250
"""Steps of other work in one turn, about 5 ms: taking one prefix out of the routing takes 10 to 20 µs."""

WRITES_PER_TURN: Final = 250
"""How many write in one turn, about 5 ms: a small write takes 10 to 25 µs, most of it in the kernel."""

SMALL_WRITE_BYTES: Final = 16 * 1024  # So many bytes more in one write count as another write

FEW: Final = 8  # So many write at the end of each read without being counted

_REFILL_BELOW: Final = WRITES_PER_TURN // 2  # With less left the next turn is requested, which brings a whole share


class Turn:
    """The next turn, and what is left of the share of this one.

    Args:
        wake: Calls the core at the end of this turn of the event loop. It is not called again before `begin`.
    """

    __slots__ = ("_is_requested", "_steps_left", "_wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._is_requested = False
        self._steps_left = STEPS_PER_TURN

    def request(self) -> None:
        """Have the core called once more; asking again before that changes nothing."""
        if not self._is_requested:
            self._is_requested = True
            self._wake()

    def begin(self) -> None:
        """Begin with a whole share: the shell has called the core."""
        self._is_requested = False
        self._steps_left = STEPS_PER_TURN

    def step(self, cost: int = 1) -> bool:
        """Take one step that costs as much as some ordinary ones; return False, and request a turn, if none is left."""
        if self._steps_left <= 0:
            self.request()
            return False
        self._steps_left -= cost
        return True

    def spend(self, steps: int) -> None:
        """Take steps that were done already."""
        self._steps_left -= steps


class WritesLater(Protocol):
    """What may write at the end of a read: a handler."""

    write_cost: int  # As how many bytes one counts that it writes

    @property
    def pending_bytes(self) -> int:
        """How much it is going to write, times the cost."""

    @property
    def can_wait(self) -> bool:
        """Whether it may write in a later turn."""

    def flush(self) -> object:
        """Write."""


class Writers:
    """The share of a turn, and the line of those who wait for a later one. Each of them is in it once."""

    __slots__ = ("_left", "_turn", "are_alike", "few", "late", "put_off_total")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        # What is left of this turn's share; below 0 by as much as the last one took beyond.
        self._left = WRITES_PER_TURN
        self.late: deque[WritesLater] = deque()
        self.few = FEW
        self.are_alike = True  # no handler is dear
        self.put_off_total = 0

    def take_in_dear(self) -> None:
        """From now on each read looks for dear ones among its subscribers."""
        self.few = 0
        self.are_alike = False

    def choose(self, many: list[WritesLater]) -> list[WritesLater]:
        """Return who of the handlers that a read has reached write now; the others stand in the line.

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
            self._turn.request()

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
        """Begin with a whole share; return who of the line write in this turn."""
        late, left = self.late, WRITES_PER_TURN
        due: list[WritesLater] = []
        while late and left > 0:
            one = late.popleft()
            left -= 1 + one.pending_bytes // SMALL_WRITE_BYTES
            due.append(one)
        self._set_left(left)
        return due

    def call_behind(self, act: Callable[[], object]) -> None:
        """Call `act` once all have written who stand in the line now: at the end of a turn."""
        self.late.append(_Behind(act))
        self._turn.request()


class _Behind:
    """Stands in the line, and writes nothing."""

    __slots__ = ("flush",)

    pending_bytes = 0
    write_cost = 1
    can_wait = True

    def __init__(self, act: Callable[[], object]) -> None:
        self.flush = act
