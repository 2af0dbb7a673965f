"""`Reserved`: up to which number clones of a store in memory may be told something.

The hub forgets such a store as it ends, and which numbers clones have seen. Where it starts again it must go on behind
all of them. So numbers are noted elsewhere before they are used, many at once: the next life begins behind those, and
tells of the rest, which nobody has seen, that there is nothing under them.

Owner: whoever serves the store. Invariant: more is noted while there is half of a step left. (Who changes more than
that before the note is on the disk, and is killed then, may leave clones with numbers that come again.) No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

__all__ = ["STEP", "Reserved"]

STEP: Final = 10_000
"""How many numbers are noted at once. A clone of before is told of so many that there is nothing: in about 3 s."""

_NUMBER = Struct(">Q")


class Reserved:
    """Of one store.

    Args:
        noted: What was noted in the life before; empty for none.
        note: Called with what is to be noted.
        step: How many numbers at once.
    """

    __slots__ = ("_note", "_step", "_until", "began")

    def __init__(self, noted: bytes, note: Callable[[bytes], object], step: int = STEP) -> None:
        self.began: int = _NUMBER.unpack(noted)[0] if len(noted) == _NUMBER.size else 0
        """Behind which number this life begins."""
        self._note = note
        self._step = step
        self._until = 0
        self.reach(self.began)

    def reach(self, number: int) -> None:
        """Numbers up to this one are used, or soon will be."""
        if number > self._until - self._step // 2:
            self._until = number + self._step
            self._note(_NUMBER.pack(self._until))
