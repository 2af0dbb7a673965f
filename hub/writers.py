"""`Writers`: who of many writes in this turn, and who stands in a line for a later one.

```
end of a read ─▶ few are to write ────────────────────────────────▶ they write
              └▶ many ─▶ something is left of the turn's share? ──▶ they write
                                             └─ no ─▶ the line ── next turn, first come first served ─▶ they write
```

A message that 9,000 want is 9,000 small writes: up to a fifth of a second, and whoever wants something else of the hub
would wait for all of them. So all reads of a turn together let so many write, and the rest write in the next turns, in
their order. Nothing is lost by that, and nothing overtakes: what comes meanwhile for a handler in the line is written
with what it has, and if that is much, at once (`hub.handler`).

Some are dear: a byte for them costs more than to be copied, as each gets it encrypted with keys of its own. They are
counted by what they cost (`Handler.write_cost`), also where they are few: a dozen of them can take longer than
thousands of others.

Clients stand in the line, and who is dear. Links and the journal never do, since others stand behind them, nor does
anybody else whose read has reached few: so a quiet pair does not notice a crowd.

Owner: the core. Invariants: whoever is in the line is in it once, and hears of no other read's end meanwhile; whoever
has brought much for those in the line can be told when they have written (`call_behind`).

Cost: a comparison for a read that reaches few, some 200 ns for one that reaches more; where not all can write, 100 ns
for each of them, of the 10 to 25 µs of the write.

Not here: what is written (`hub.handler`), who may be read (`peers.connections.connection`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from hub.turn import Turn

__all__ = ["FEW", "SMALL_WRITE_BYTES", "WRITES_PER_TURN", "Writers", "WritesLater"]

WRITES_PER_TURN: Final = 250
"""How many write in one turn: about 5 ms, as a small write takes 10 to 25 µs, most of it in the kernel."""

SMALL_WRITE_BYTES: Final = 16 * 1024
"""So many bytes more in one write are as much of the share as another write."""

FEW: Final = 8
"""So many write at the end of each read, and are not counted: no more work than the loop has with reads at all.
Counting them would cost each read."""

_REFILL_BELOW: Final = WRITES_PER_TURN // 2
"""With less than that left the next turn is asked for, which brings a whole share; above it, that is not worth it."""


class WritesLater(Protocol):
    """What may write at the end of a read, as far as the line must know it."""

    write_cost: int
    """As how many bytes one counts that it writes."""

    @property
    def pending_bytes(self) -> int:
        """How much it is going to write; more, if it is dear."""

    @property
    def can_wait(self) -> bool:
        """Whether it may do so in a later turn."""

    def flush(self) -> object:
        """Write."""


class Writers:
    """The share of a turn, and the line.

    Args:
        turn: Is asked for another turn.
    """

    __slots__ = ("_left", "_turn", "are_alike", "few", "late", "put_off_total")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._left = WRITES_PER_TURN
        """What is left of this turn's share; 0 or less once it is used up, by as much as the last one took beyond."""
        self.late: deque[WritesLater] = deque()
        """The line: those who were to write in a turn that is over."""
        self.few = FEW
        """So many are not counted."""
        self.are_alike = True
        """Whether nobody is dear."""
        self.put_off_total = 0
        """How often somebody had to wait for a later turn."""

    def take_in_dear(self) -> None:
        """Somebody who is dear may write from now on: it is looked at each read for who of its readers is."""
        self.few = 0
        self.are_alike = False

    def choose(self, many: list[WritesLater]) -> list[WritesLater]:
        """Return who of those whom a read has reached write now; the rest stand in the line from now on.

        What a read brings is mostly the same for all, so the last of them is asked how much he is going to write.
        """
        if not self.are_alike:
            dear = [one for one in many if one.write_cost > 1]
            many = [one for one in many if one.write_cost == 1]
            return (many if len(many) <= FEW else self._choose(many)) + self._cut(dear)
        return self._choose(many)

    def _choose(self, many: list[WritesLater]) -> list[WritesLater]:
        """See `choose`, for those who are no dearer than others."""
        left = self._left - len(many) * (1 + many[-1].pending_bytes // SMALL_WRITE_BYTES)
        if left >= 0:
            self._left = left
            if left < _REFILL_BELOW:
                self._turn.request()
            return many
        return self._cut(many)

    def _cut(self, many: list[WritesLater]) -> list[WritesLater]:
        """Return those for whom something is left, one by one."""
        left = self._left
        chosen = 0
        for one in many:
            if left <= 0:
                break
            left -= 1 + one.pending_bytes // SMALL_WRITE_BYTES
            chosen += 1
        self._left = left
        if left < _REFILL_BELOW:
            self._turn.request()
        if chosen == len(many):
            return many
        now, before = many[:chosen], len(self.late)
        for one in many[chosen:]:
            (self.late if one.can_wait else now).append(one)
        self.put_off_total += len(self.late) - before
        return now

    def begin_turn(self) -> list[WritesLater]:
        """Begin with a whole share again; return who of the line write in this turn."""
        late, left = self.late, WRITES_PER_TURN
        due: list[WritesLater] = []
        while late and left > 0:
            one = late.popleft()
            left -= 1 + one.pending_bytes // SMALL_WRITE_BYTES
            due.append(one)
        self._left = left
        if left < _REFILL_BELOW:
            self._turn.request()
        return due

    def call_behind(self, act: Callable[[], object]) -> None:
        """Call `act` once all have written who stand in the line now: at the end of a turn."""
        self.late.append(_Behind(act))
        self._turn.request()


class _Behind:
    """Stands in the line, and writes nothing."""

    __slots__ = ("_act",)

    pending_bytes = 0
    write_cost = 1
    can_wait = True

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def flush(self) -> None:
        """Say that its turn has come."""
        self._act()
