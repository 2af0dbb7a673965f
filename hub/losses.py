"""`Losses`: who has lost messages in the last minute, and what was lost last.

```
add(second, id, label, messages) ─▶ slots of 5 s: 12 of [id → messages] ─▶ `minute`: sums, and who lost most
                                └─▶ log: the last `KEPT` losses, one for each handler and second ─▶ `last`
```

Owner: whoever is told once a second what was lost (`hub.drops`). No clock: seconds are arguments. Invariants: no loss
is counted twice; what is older than a minute, to a slot, counts no more. Memory: at most `NAMED` handlers a slot, those
beyond are counted together; about 0.5 MB where thousands lose all the time, and next to nothing where nobody does.
Cost: about 1 µs for each handler that has lost something in a second.

Not here: counting (`hub.handler`), telling of it (`hub.events`), who is slow and loses nothing (`hub.state`).
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

__all__ = ["KEPT", "MINUTE_S", "NAMED", "Losers", "Loss", "Losses"]

MINUTE_S: Final = 60

_SLOT_S: Final = 5
_SLOTS: Final = MINUTE_S // _SLOT_S

NAMED: Final = 256
"""How many handlers are told apart in a slot; a sentence names one of them, and a table those that it shows."""

KEPT: Final = 512
"""How many losses are remembered one by one."""


class Loss(NamedTuple):
    """What one handler has lost in one second."""

    second: int
    id: int
    label: str
    """Its name, or its address where it has none."""
    messages: int
    why: str
    """The overflow policy that ruled, or "unreadable"."""


class Losers(NamedTuple):
    """Who has lost messages within the last minute."""

    messages: int
    """How many in all."""
    named: dict[int, int]
    """Id of a handler → how many of them; not all of these handlers are there yet."""
    labels: dict[int, str]
    others: int
    """How many of the messages were lost by handlers that are not told apart."""


class _Slot:
    """What was lost in a few seconds."""

    __slots__ = ("named", "number", "others")

    def __init__(self, number: int) -> None:
        self.number = number
        self.named: dict[int, int] = {}
        self.others = 0


class Losses:
    """The losses of all handlers."""

    __slots__ = ("_labels", "_log", "_slots")

    def __init__(self) -> None:
        # The slots of the last minute in which something was lost, oldest first.
        self._slots: deque[_Slot] = deque()
        # Id → label, of those that stand in a slot.
        self._labels: dict[int, str] = {}
        self._log: deque[Loss] = deque(maxlen=KEPT)

    def add(self, loss: Loss) -> None:
        """Take in what a handler has lost; seconds do not go back."""
        number = loss.second // _SLOT_S
        if not self._slots or self._slots[-1].number < number:
            self._slots.append(_Slot(number))
        slot = self._slots[-1]
        if loss.id in slot.named:
            slot.named[loss.id] += loss.messages
        elif len(slot.named) < NAMED:
            slot.named[loss.id] = loss.messages
            self._labels[loss.id] = loss.label
        else:
            slot.others += loss.messages
        self._log.append(loss)

    def minute(self, second: int) -> Losers:
        """Return who has lost what in the minute before a second; slots that are older are let go."""
        oldest = second // _SLOT_S - _SLOTS + 1
        gone = False
        while self._slots and self._slots[0].number < oldest:
            self._slots.popleft()
            gone = True
        named: dict[int, int] = {}
        others = 0
        for slot in self._slots:
            others += slot.others
            for number, messages in slot.named.items():
                named[number] = named.get(number, 0) + messages
        if gone:
            self._labels = {number: self._labels[number] for number in named}
        return Losers(sum(named.values()) + others, named, dict(self._labels), others)

    def last(self, handler: int | None = None, limit: int = KEPT) -> list[Loss]:
        """Return what was lost last, the newest first: by everybody, or by one handler."""
        found = (loss for loss in reversed(self._log) if handler is None or loss.id == handler)
        return [loss for _, loss in zip(range(limit), found, strict=False)]
