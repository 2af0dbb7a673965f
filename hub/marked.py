"""`Marked`: a batch that can be recognised where it arrives, as a mark goes before it on every link.

Its mark is a part of its origin. Links say the origin in front of what it holds for, and an origin with a mark is
another one than that of all other batches: so whoever hears it knows that it holds for this batch alone, and hubs on
the way pass it on without knowing of marks. Who has asked for it by its mark is told what becomes of the batch
(`peers.journal.far_confirmations`).

Invariant: a part of it, cut off by a full queue or for a far side that takes no large frames, has the same mark and
fewer messages. Owner: whoever publishes it. Cost: an ORIGIN of 36 bytes before it on each link, and one of 28 bytes
behind it; nothing for other batches.
"""

from __future__ import annotations

from hub.batch import Batch
from hub.origin import Origin

__all__ = ["Marked"]


class Marked(Batch):
    """One batch.

    Args:
        frames: Whole MESSAGES frames.
        messages: How many values they hold.
        mark: Which no other batch of this hub has, 1 to 2⁶⁴ - 1.
    """

    __slots__ = ("_entered", "_mark")

    def __init__(self, frames: bytes, messages: int, mark: int) -> None:
        self._mark = mark
        self._entered: Origin | None = None
        super().__init__(frames, messages)

    @property
    def origin(self) -> Origin | None:
        """Where it has entered the mesh, with its mark."""
        return self._entered

    @origin.setter
    def origin(self, origin: Origin | None) -> None:
        self._entered = None if origin is None else origin._replace(mark=self._mark)
