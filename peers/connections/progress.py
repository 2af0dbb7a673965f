"""`Progress`: whether a frame that has begun gets on, so that nobody holds memory by one byte every few seconds.

Each byte is a sign of life, so a far side that sends the rest of a frame very slowly is never silent. It is cut when,
for `limits.frame_s`, no frame was completed and the one that has begun grew by less than `limits.frame_bytes_per_s`.

A message may come in several frames, with others between them (WebSocket). Then the whole message is what must get on.

Plain rules; the clock and what is held are arguments. Owner: one connection, which asks at each look for signs of life.
"""

from __future__ import annotations

import math

from hub.settings.limits import Limits

__all__ = ["Progress"]


class Progress:
    """The frame that one far side is sending."""

    __slots__ = ("_at_first_bytes", "_since_s", "_unfinished")

    def __init__(self) -> None:
        self._since_s = math.inf  # when the frame that is incomplete now was first seen; infinity while there is none
        self._at_first_bytes = 0  # what was held of it then
        self._unfinished = 0  # the number of the message that it belongs to; 0 if it is a message by itself

    def forget(self) -> None:
        """This side did not read: what is held now is looked at as something new."""
        self._since_s = math.inf

    def go_on(self, unfinished: int) -> None:
        """A frame was completed, so that what is held now is something new, unless it belongs to the same message."""
        if not unfinished or unfinished != self._unfinished:
            self.forget()

    def is_stuck(self, now_s: float, held_bytes: int, limits: Limits, unfinished: int = 0) -> bool:
        """Look at what is held.

        Args:
            now_s: The time.
            held_bytes: Of a frame, or of a message of several frames, that is not complete.
            limits: How long it may be incomplete before its speed counts, and what it must grow by then.
            unfinished: The number of that message; 0 if it is one frame.
        """
        if not held_bytes:
            self.forget()
        elif self._since_s == math.inf:
            self._since_s, self._at_first_bytes, self._unfinished = now_s, held_bytes, unfinished
        else:
            for_s = now_s - self._since_s
            return for_s >= limits.frame_s and held_bytes - self._at_first_bytes < limits.frame_bytes_per_s * for_s
        return False
