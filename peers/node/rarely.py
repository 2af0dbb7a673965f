"""`Rarely`: whether it is time to tell people once more what may happen all the time.

Owner: whoever tells. Not here: how often it happens, which counters say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

__all__ = ["TOLD_EVERY_S", "Rarely"]

TOLD_EVERY_S: Final = 60.0
"""How often the log says the same at most, seconds."""


class Rarely:
    """One thing that is told.

    Args:
        now_s: Returns the time of a clock that does not go back, seconds.
    """

    __slots__ = ("_now_s", "_told_s")

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        # When it was told last.
        self._told_s = -math.inf

    def is_due(self) -> bool:
        """Return whether it is to be told now; then it is told."""
        now_s = self._now_s()
        if now_s - self._told_s < TOLD_EVERY_S:
            return False
        self._told_s = now_s
        return True
