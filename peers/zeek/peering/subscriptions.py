"""`FarSubscriptions`: what a Broker peer subscribes to, brought into the core bit by bit.

A filter update replaces the whole filter, which may have 100,000 prefixes. Taking a prefix in costs the core about
15 µs, so a change is cut into steps, one a turn of the loop; a later change waits its turn behind an earlier one.

Owner: one connection. Not here: the loop, which is asked for through `later`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from hub.core import Core
from hub.handler import Handler
from hub.topics import RESERVED

__all__ = ["STEP_PREFIXES", "FarSubscriptions"]

STEP_PREFIXES = 500
"""Prefixes that are taken in or let go in one turn: about 8 ms."""


class FarSubscriptions:
    """The subscriptions of one peer.

    Args:
        core: Of the hub.
        handler: Of the peer.
        later: Calls a function after this turn of the loop.
    """

    __slots__ = ("_core", "_handler", "_later", "_steps", "_wanted")

    def __init__(self, core: Core, handler: Handler, later: Callable[[Callable[[], object]], object]) -> None:
        self._core = core
        self._handler = handler
        self._later = later
        self._wanted: frozenset[str] = frozenset()
        self._steps: deque[tuple[bool, list[str]]] = deque()  # whether to subscribe, and to what

    def replace(self, prefixes: Iterable[str]) -> None:
        """Subscribe to these and to nothing else. The hub's own topics are left out: they are for this hub only."""
        wanted = frozenset(prefix for prefix in prefixes if not prefix.startswith(RESERVED))
        due = bool(self._steps)
        # First what is new: what a broader prefix replaces is never without either.
        for subscribe, changed in ((True, wanted - self._wanted), (False, self._wanted - wanted)):
            ordered = sorted(changed)
            for first in range(0, len(ordered), STEP_PREFIXES):
                self._steps.append((subscribe, ordered[first : first + STEP_PREFIXES]))
        self._wanted = wanted
        if not due:
            self._step()

    def _step(self) -> None:
        if self._handler.closed or not self._steps:
            return
        subscribe, prefixes = self._steps.popleft()
        if subscribe:
            self._core.subscribe(self._handler, prefixes)
        else:
            self._core.unsubscribe(self._handler, prefixes)
        if self._steps:
            self._later(self._step)
