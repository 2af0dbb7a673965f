"""Time limits of a connection, without a clock: a frame that does not grow, a far side that does not read the end.

Each byte is a sign of life, so a far side that sends the rest of a frame very slowly is never silent. `Progress` cuts
it when, for `limits.frame_s`, no frame was completed and the one that has begun grew by less than
`limits.frame_bytes_per_s`. A message may come in several frames, with others between them (WebSocket): then the whole
message must grow.

After the last word of this side, `Lingering` waits 2 s for a far side that has read all of it, up to `limits.linger_s`
for one that still reads, and `limits.linger_unread_s` for one that does not.
"""

from __future__ import annotations

import math

from hub.settings.sections import Limits

__all__ = ["LINGER_S", "Lingering", "Progress"]

LINGER_S = 2.0
"""Between two checks, seconds; and how long a far side that has everything may take to close."""


class Lingering:
    """One end.

    Args:
        now_s: When it was said, of a monotonic clock.
        unread_bytes: What the far side has not taken yet, the last frame with it.
        limits: How long it may take to read that, or something of it.
    """

    __slots__ = ("_limit_s", "_read_s", "_unread_bytes", "_unread_s")

    def __init__(self, now_s: float, unread_bytes: int, limits: Limits) -> None:
        self._limit_s = now_s + limits.linger_s
        self._unread_s = limits.linger_unread_s
        self._read_s = now_s  # when the far side was last seen to have read
        self._unread_bytes = unread_bytes  # at the last look

    def check(self, now_s: float, unread_bytes: int) -> float:
        """Return when to look again, infinity if the connection is to be closed now."""
        if unread_bytes < self._unread_bytes:
            self._read_s = now_s
            self._unread_bytes = unread_bytes
        if not unread_bytes or now_s >= min(self._limit_s, self._read_s + self._unread_s):
            return math.inf
        return now_s + LINGER_S


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
