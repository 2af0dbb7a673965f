"""`Pace`: a few at once, and one a second in the long run.

What a hub says of itself goes to every other hub. A change after a quiet time is told at once, so that somebody who
subscribes need not wait; of many changes behind one another, those of a second are told together.

Owner: `hub.mesh.mesh`, one for what is wanted, one for links. No clock: times are arguments, seconds.
"""

from __future__ import annotations

__all__ = ["Pace"]


class Pace:
    """How often something may be said.

    Args:
        burst: How many times at once, after a quiet time.
        every_s: How often in the long run.
    """

    __slots__ = ("_burst", "_every_s", "_full_s")

    def __init__(self, burst: int, every_s: float) -> None:
        self._burst = burst
        self._every_s = every_s
        # When all of the burst may be used again; each use puts it off.
        self._full_s = 0.0

    def ready_s(self, now_s: float) -> float:
        """Return when it may be said next: now, or later."""
        return max(now_s, self._full_s - (self._burst - 1) * self._every_s)

    def use(self, now_s: float) -> None:
        """Take note that it is said now."""
        self._full_s = max(self._full_s, now_s) + self._every_s
