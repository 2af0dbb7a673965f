"""`Clashes`: tells people that another hub has this hub's id, as a process has that was cloned.

Neither of the two gives way, so there are many clashes as long as both are in the mesh: the log has a line a minute.

Owner: the node. Not here: what becomes of the mesh meanwhile, and how many there were (`hub.mesh.mesh`).
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from peers.node.rarely import Rarely

__all__ = ["Clashes"]


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
