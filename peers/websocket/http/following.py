"""`Following`: a stream of what is recorded, from the journal alone: what to read next, and when.

```
the subscription begins at S ─▶ target = S ─▶ read from `position` up to the target ─▶ wait for the bell ─┐
                                                 ▲────── a message has come: target = end of the journal ─┘
```

Purpose: each event has the offset of its record, and whoever comes back with the last one misses nothing and gets
nothing twice. So events are read from the journal, also those that are new: what is delivered to the stream's handler
is only the bell that says so. A reader that is slow has no queue that could overflow; it is as far in the journal as it
has read.

Owner: one stream. Invariants: everything before `position` was told, once; one piece is asked for at a time. No I/O.
"""

from __future__ import annotations

__all__ = ["Following"]


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

    def asked(self) -> None:
        """A piece was asked for."""
        self._is_reading = True

    def reached(self, following: int) -> None:
        """The piece was told: everything before this offset."""
        self._is_reading = False
        self.position = max(self.position, following)

    def failed(self) -> None:
        """There was no piece; it is to be asked for again."""
        self._is_reading = False
