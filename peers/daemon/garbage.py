"""Garbage collection that does not stop the hub.

Python's collector walks over everything that is alive to find what is not. With 9,000 idle clients that is 225,000
objects, and everybody else waits for 20 to 120 ms. So once a second what has survived is frozen: it is not walked over
any more, and each collection is as large as what one second has brought.

What is frozen is still freed when nothing refers to it. Only cycles stay, and no connection that was closed is in one:
whatever refers to it lets go of it (`peers.connections.connection`). In case that there is
one all the same, everything is walked over once after `CLOSED_LEAST` connections were closed, and where memory is
short: a pause of 20 to 60 ms with some thousands of connections.

Owner: the process, as the collector is: not for hubs inside other programs. Not here: what keeps the collector out
while something large is made (`peers.node.undisturbed`).
"""

from __future__ import annotations

import gc

__all__ = ["CLOSED_LEAST", "GarbageWatch"]

CLOSED_LEAST = 50_000
"""Fewer closed connections are not worth a walk: thousands may leave in a second, and nothing of them is found."""

_YOUNG = 1
"""The younger two of the collector's three generations."""


class GarbageWatch:
    """Decides each second whether to freeze what has survived, and whether to walk over everything."""

    def __init__(self) -> None:
        self._closed_before = 0
        """How many connections had been closed when everything was walked over last."""
        gc.collect()
        gc.freeze()

    def tick(self, open_connections: int, closed_connections: int, *, is_memory_short: bool = False) -> None:
        """Freeze what has survived; once a second.

        Args:
            open_connections: How many there are.
            closed_connections: How many were closed since the start.
            is_memory_short: Then nothing closed is left behind, however little it is.
        """
        if not gc.isenabled():
            return
        closed = closed_connections - self._closed_before
        if closed > max(CLOSED_LEAST, open_connections // 2) or (closed and is_memory_short):
            self._closed_before = closed_connections
            gc.unfreeze()
            gc.collect()
        else:
            gc.collect(_YOUNG)
        gc.freeze()
