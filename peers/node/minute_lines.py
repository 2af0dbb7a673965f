"""`MinuteLines`: at most one log line a minute for each key, with the number of events since the last line.

Owner: `Node`. Bound: `KEYS_LIMIT` keys; the one that was logged first makes room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Final

import structlog

KEYS_LIMIT: Final = 1_000
"""More hosts than fail at the same time in any cluster; a key costs about 200 bytes."""

_MINUTE_S: Final = 60.0


class MinuteLines:
    """Decides which events are logged."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        # When the last line was written, and how many events there were since.
        self._keys: dict[Hashable, tuple[float, int]] = {}

    def add(self, key: Hashable, now_s: float) -> int:
        """Count one event; return how many events its line stands for, 0 for no line now.

        Args:
            key: Events of one kind and source.
            now_s: Time of the loop's clock.
        """
        logged_s, events = self._keys.get(key, (-_MINUTE_S, 0))
        if now_s - logged_s < _MINUTE_S:
            self._keys[key] = (logged_s, events + 1)
            return 0
        self._keys.pop(key, None)
        if len(self._keys) >= KEYS_LIMIT:
            del self._keys[next(iter(self._keys))]
        self._keys[key] = (now_s, 0)
        return events + 1


# Whether it is time to tell people once more what may happen all the time.


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


# Tells people that another hub has this hub's id, as a process has that was cloned.


class Clashes:
    """What was told of them.

    Args:
        hub: The id.
        now_s: Returns the time of a clock that does not go back, seconds.
    """

    __slots__ = ("_hub", "_log", "_rarely")

    def __init__(self, hub: bytes, now_s: Callable[[], float]) -> None:
        self._hub = hub
        self._rarely = Rarely(now_s)
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    def tell(self, number: int) -> None:
        """Log that somebody else has made an announcement of that number, if it is time for a line."""
        if self._rarely.is_due():
            self._log.warning(
                "another hub has the id of this one, as a cloned process has: start one of them anew",
                hub=self._hub.hex(),
                number=number,
            )


# Tells people that another hub of the mesh wants more than is kept of it here.


class Surplus:
    """What was told of it.

    Args:
        now_s: Returns the time of a clock that does not go back, seconds.
    """

    __slots__ = ("_log", "_rarely")

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._rarely = Rarely(now_s)
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    def tell(self, hub: bytes, name: str, prefixes: int) -> None:
        """Log that so many prefixes of a hub were left out, if it is time for a line."""
        if self._rarely.is_due():
            self._log.warning(
                "another hub wants more than is kept here, and is sent everything: see limits.prefixes_per_peer"
                " and mesh.prefixes",
                hub=hub.hex(),
                name=name,
                left_out=prefixes,
            )
