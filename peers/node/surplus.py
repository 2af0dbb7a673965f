"""`Surplus`: tells people that another hub of the mesh wants more than is kept of it here.

That hub is sent everything. It may be told again with each announcement: the log has a line a minute.

Owner: the node. Not here: how much is kept (`hub.mesh.knowledge`), how much was left out so far
(`hub_mesh_prefixes_left_out_total`).
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from peers.node.rarely import Rarely

__all__ = ["Surplus"]


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
