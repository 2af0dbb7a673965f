"""`Backoff`: how long to wait before the next attempt, with full jitter.

Full jitter (a uniform draw between nothing and the bound) spreads the return of many clients over the whole window:
after a restart of the hub they do not all come back in the same moment. See Marc Brooker, "Exponential Backoff And
Jitter", AWS Architecture Blog, 2015.
"""

from __future__ import annotations

import random

__all__ = ["Backoff"]


class Backoff:
    """The bound doubles with each failure, up to a cap.

    Args:
        base_s: First bound, seconds.
        cap_s: Largest bound, seconds.
    """

    __slots__ = ("_base_s", "_bound_s", "_cap_s", "_random")

    def __init__(self, base_s: float = 0.1, cap_s: float = 30.0, source: random.Random | None = None) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self._bound_s = base_s
        self._random = source or random.Random()  # noqa: S311 -- spread, not secrecy

    def next_s(self) -> float:
        """Return how long to wait now, seconds."""
        wait_s = self._random.uniform(0, self._bound_s)
        self._bound_s = min(self._cap_s, self._bound_s * 2)
        return wait_s

    def hold(self) -> None:
        """Go to the cap at once: the far side has refused for a reason that will not pass soon."""
        self._bound_s = self._cap_s

    def reset(self) -> None:
        """Begin anew: an attempt has succeeded."""
        self._bound_s = self._base_s
