"""When each message of a replay is due: at full speed, so many a second, or as it was recorded.

Arrays in, arrays out: seconds since the replay began, ascending. Knows no clock. Owner: one replay.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_PAUSE_S", "FullSpeed", "Pace", "Rate", "Recorded", "Times"]

MAX_PAUSE_S = 60.0
"""Default of the longest single pause: a night without traffic need not be sat through."""

_US = 1_000_000

Times = npt.NDArray[np.int64]
"""µs since 1970."""

Due = npt.NDArray[np.float64]


class Pace(Protocol):
    """A rule."""

    def due_s(self, times_us: Times) -> Due:
        """Return when the next messages are due.

        Args:
            times_us: When they were recorded.
        """


class FullSpeed:
    """As fast as the hub takes them."""

    def due_s(self, times_us: Times) -> Due:
        """Return 0 for all."""
        return np.zeros(len(times_us))


class Rate:
    """So many a second, evenly.

    Args:
        messages_per_s: Above 0.
    """

    def __init__(self, messages_per_s: float) -> None:
        self._messages_per_s = messages_per_s
        self._before = 0

    def due_s(self, times_us: Times) -> Due:
        """Return times that do not depend on those of the recording."""
        numbers = np.arange(self._before, self._before + len(times_us))
        self._before += len(times_us)
        return numbers / self._messages_per_s


class Recorded:
    """With the pauses of the recording, divided by a factor.

    A hub's clock may have been set back: messages that seem older than what came before follow without a pause.

    Args:
        speed: By how much faster than recorded, above 0.
        max_pause_s: Longest single pause, seconds as they pass here.
    """

    def __init__(self, speed: float = 1.0, max_pause_s: float = MAX_PAUSE_S) -> None:
        self._speed = speed
        self._max_pause_s = max_pause_s
        self._latest_us: int | None = None
        self._due_s = 0.0

    def due_s(self, times_us: Times) -> Due:
        """Return times with those pauses; the first message of all is due at once."""
        if not len(times_us):
            return np.zeros(0)
        first = int(times_us[0]) if self._latest_us is None else self._latest_us
        latest = np.maximum.accumulate(np.concatenate([[first], times_us]))
        pauses = np.minimum(np.diff(latest) / _US / self._speed, self._max_pause_s)
        due = self._due_s + np.cumsum(pauses)
        self._latest_us, self._due_s = int(latest[-1]), float(due[-1])
        return due
