"""`MeshClock`: has the mesh look at what has come once a turn, and at what is due when it is due.

Owner: the node. Invariant: after something has come, `check` is called once, at the end of the turn; and when it said.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from hub.handler import Handler
from hub.mesh.mesh import Mesh


class MeshClock:
    """The time of one mesh.

    Args:
        loop: Has the clock.
        later: Calls a function after this turn of the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, later: Callable[[Callable[[], object]], object]) -> None:
        self._loop = loop
        self._later = later
        self._mesh: Mesh[Handler] | None = None
        self._is_asked = False
        """Whether `_check` will be called after this turn; true from `ask` on, false when it is."""
        self._timer: asyncio.TimerHandle | None = None
        """The timer for what is due next; None while nothing is."""

    def watch(self, mesh: Mesh[Handler]) -> None:
        """Look after this mesh."""
        self._mesh = mesh

    def ask(self) -> None:
        """Something has come: check once this turn is over."""
        if not self._is_asked:
            self._is_asked = True
            self._later(self._check)

    def _check(self) -> None:
        self._is_asked = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._mesh is not None:
            due_s = self._mesh.check(self._loop.time())
            if due_s < math.inf:
                self._timer = self._loop.call_at(due_s, self._check)
