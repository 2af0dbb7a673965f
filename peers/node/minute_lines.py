"""`MinuteLines`: at most one log line a minute for each key, with the number of events since the last line."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

KEYS_LIMIT: Final = 1_000  # More hosts than fail at the same time in any cluster; a key costs about 200 bytes

MINUTE_S: Final = 60.0


class MinuteLines:
    """Decides which events are logged; of too many keys the one that was logged first makes room."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        # When the last line was written, and how many events there were since.
        self._keys: dict[Hashable, tuple[float, int]] = {}

    def add(self, key: Hashable, now_s: float) -> int:
        """Count one event; return how many events its line stands for, 0 for no line now."""
        logged_s, events = self._keys.get(key, (-MINUTE_S, 0))
        if now_s - logged_s < MINUTE_S:
            self._keys[key] = (logged_s, events + 1)
            return 0
        self._keys.pop(key, None)
        if len(self._keys) >= KEYS_LIMIT:
            del self._keys[next(iter(self._keys))]
        self._keys[key] = (now_s, 0)
        return events + 1
