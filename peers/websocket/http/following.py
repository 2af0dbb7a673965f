"""`Following`: a stream of what is recorded, from the journal alone: what to read next, and when.

```
the subscription begins at S ─▶ target = S ─▶ read from `position` up to the target ─▶ wait for the bell ─┐
                                                 ▲────── a message has come: target = end of the journal ─┘
```

Purpose: each event has the offset of its record, and whoever comes back with the last one misses nothing and gets
nothing twice. So events are read from the journal, also those that are new: what is delivered to the stream's handler
is only the bell that says so. A reader that is slow has no queue that could overflow; it is as far in the journal as it
has read.

Where the journal is that of another hub, nobody here knows where it ends, and what rings may be here before it is
recorded there, or be recorded there although it never came here. So it is looked there for more: soon once something
has rung, and then, as long as nothing is found, less and less often (`Looks`).

Owner: one stream. Invariants: everything before `position` was told, once; one piece is asked for at a time. No I/O.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LEAST_PAUSE_S", "MOST_PAUSE_S", "Following", "Looks"]

LEAST_PAUSE_S: Final = 0.05
"""How long a stream pauses at the end of another hub's journal before it looks for more, seconds: so a hub that records
much else is asked twenty times a second at most, and as often by clients that read there."""

MOST_PAUSE_S: Final = 10.0
"""The longest such pause: after which what did not ring here is found, seconds."""


class Following:
    """How far one stream is.

    Args:
        position: The offset to begin at.
        target: The offset behind what is there already.
    """

    __slots__ = ("_is_reading", "_target", "position")

    def __init__(self, position: int, target: int) -> None:
        self.position = position
        """Everything before this offset was told."""
        self._target = target
        """There is something to be read before this offset."""
        self._is_reading = False

    @property
    def is_due(self) -> bool:
        """Whether a piece is to be asked for."""
        return not self._is_reading and self.position < self._target

    def ring(self, head: int) -> bool:
        """A message has come; the journal ends at this offset now. Return False if it has lost what was promised."""
        if head < self._target:
            return False
        self._target = head
        return True

    def extend(self, head: int) -> None:
        """There may be something to be read before this offset: as told by the other hub, or to be found out there."""
        self._target = max(self._target, head)

    def asked(self) -> None:
        """A piece was asked for."""
        self._is_reading = True

    def reached(self, following: int) -> None:
        """The piece was told: everything before this offset."""
        self._is_reading = False
        self.position = max(self.position, following)

    def cut_back(self, offset: int) -> None:
        """What was told behind this offset is lost: others have its offsets."""
        self.position = self._target = offset

    def failed(self) -> None:
        """There was no piece; it is to be asked for again."""
        self._is_reading = False


class Looks:
    """When to look for more at the end of another hub's journal."""

    __slots__ = ("_number", "_pause_s", "is_soon")

    def __init__(self) -> None:
        self._pause_s = LEAST_PAUSE_S
        self._number = 0
        """Of the look that is planned: no other one is to be had any more."""
        self.is_soon = False
        """Whether it is planned as something has rung."""

    def plan(self) -> tuple[int, float]:
        """Nothing more is there now. Return the number of the next look, and after how long it is due, seconds."""
        self._number += 1
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, MOST_PAUSE_S)
        return self._number, pause_s

    def ring(self) -> tuple[int, float] | None:
        """Something has come that will be recorded. Return the next look, as `plan`; None where that is soon anyway."""
        self._pause_s = LEAST_PAUSE_S
        if self.is_soon:
            return None
        self.is_soon = True
        return self.plan()

    def take(self, number: int) -> bool:
        """A look is due. Return whether it is still the one that is planned."""
        if number != self._number:
            return False
        self.is_soon = False
        return True
