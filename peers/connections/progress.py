"""`Progress`: whether a frame that has begun gets on, so that nobody holds memory by one byte every few seconds.

Each byte is a sign of life, so a far side that sends the rest of a frame very slowly is never silent. It is cut when,
for `FRAME_S`, no frame was completed and the one that has begun grew by less than `SLOWEST_BYTES_PER_S`.

Plain rules; the clock and what is held are arguments. Owner: one connection, which asks at each look for signs of life.
"""

from __future__ import annotations

import math

__all__ = ["FRAME_S", "SLOWEST_BYTES_PER_S", "Progress"]

FRAME_S = 60.0
"""How long a frame may be incomplete before its speed counts, seconds."""

SLOWEST_BYTES_PER_S = 1024
"""What a frame must grow by then. Modems were faster."""


class Progress:
    """The frame that one far side is sending."""

    __slots__ = ("_at_first_bytes", "_since_s")

    def __init__(self) -> None:
        self._since_s = math.inf  # when the frame that is incomplete now was first seen; infinity while there is none
        self._at_first_bytes = 0  # what was held of it then

    def forget(self) -> None:
        """This side did not read, or a frame was completed: what is held now is looked at as something new."""
        self._since_s = math.inf

    def is_stuck(self, now_s: float, held_bytes: int) -> bool:
        """Look at what is held of an incomplete frame; no frame was completed since the last look."""
        if not held_bytes:
            self.forget()
        elif self._since_s == math.inf:
            self._since_s, self._at_first_bytes = now_s, held_bytes
        else:
            for_s = now_s - self._since_s
            return for_s >= FRAME_S and held_bytes - self._at_first_bytes < SLOWEST_BYTES_PER_S * for_s
        return False
