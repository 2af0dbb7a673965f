"""`Clashes`: tells people that another hub has this hub's id, as a process has that was cloned.

Neither of the two gives way, so there are many clashes as long as both are in the mesh: the log has a line a minute.

Owner: the node. Not here: what becomes of the mesh meanwhile, and how many there were (`hub.mesh.mesh`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import structlog

__all__ = ["TOLD_EVERY_S", "Clashes"]

TOLD_EVERY_S: Final = 60.0
"""How often the log says it at most, seconds."""


class Clashes:
    """What was told of them.

    Args:
        hub: The id.
        now_s: Returns the time of a clock that does not go back, seconds.
    """

    __slots__ = ("_hub", "_log", "_now_s", "_told_s")

    def __init__(self, hub: bytes, now_s: Callable[[], float]) -> None:
        self._hub = hub
        self._now_s = now_s
        # When it was logged last.
        self._told_s = -math.inf
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    def tell(self, number: int) -> None:
        """Log that somebody else has made an announcement of that number, if it is time for a line."""
        now_s = self._now_s()
        if now_s - self._told_s >= TOLD_EVERY_S:
            self._told_s = now_s
            self._log.warning(
                "another hub has the id of this one, as a cloned process has: start one of them anew",
                hub=self._hub.hex(),
                number=number,
            )
