"""`FarSubscriptions`: what a Broker peer subscribes to, brought into the core bit by bit.

A filter update replaces the whole filter, which may have 100,000 prefixes. Taking a prefix in costs the core about
15 µs, so a change is cut into steps, one a turn of the loop; a later change waits its turn behind an earlier one.

Owner: one connection. Not here: the loop, which is asked for through `later`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from hub.core import Core
from hub.errors import RejectedError
from hub.handler import Handler
from hub.topics import RESERVED

__all__ = ["STEP_PREFIXES", "FarSubscriptions"]

STEP_PREFIXES = 500
"""Prefixes that are taken in or let go in one turn: about 8 ms."""

_COMPARED_PER_STEP = 50
"""Comparing a prefix takes so much less time than taking it in."""

_AT_ONCE_PREFIXES = 10_000
"""A larger filter has taken long enough to read: it is compared in a turn of its own."""


class FarSubscriptions:
    """The subscriptions of one peer.

    Args:
        core: Of the hub.
        handler: Of the peer.
        later: Calls a function after this turn of the loop.
    """

    __slots__ = ("_core", "_due", "_handler", "_later", "_steps", "_targets", "_wanted")

    def __init__(self, core: Core, handler: Handler, later: Callable[[Callable[[], object]], object]) -> None:
        self._core = core
        self._handler = handler
        self._later = later
        self._targets: deque[Sequence[str]] = deque()  # filters that are not compared yet
        self._wanted: dict[str, None] = {}  # what the last one that was compared wants, in its order
        self._steps: deque[tuple[bool, list[str]]] = deque()  # whether to subscribe, and to what
        self._due = False

    def replace(self, prefixes: Sequence[str]) -> None:
        """Subscribe to these and to nothing else. The hub's own topics are left out: they are for this hub only."""
        self._targets.append(prefixes)
        if self._due:
            return
        if len(prefixes) > _AT_ONCE_PREFIXES:
            self._put_off()
        else:
            self._go_on()

    def _put_off(self) -> None:
        self._due = True
        self._later(self._go_on)

    def _go_on(self) -> None:
        """Do a turn's share."""
        self._due = False
        left = STEP_PREFIXES
        while left > 0 and not self._handler.closed and (self._steps or self._targets):
            if self._steps:
                left -= self._step()
            else:
                left -= self._compare() // _COMPARED_PER_STEP
        if (self._steps or self._targets) and not self._handler.closed:
            self._put_off()

    def _step(self) -> int:
        subscribe, prefixes = self._steps.popleft()
        if subscribe:
            try:
                self._core.subscribe(self._handler, prefixes)
            except RejectedError as error:  # Broker knows no refusal of a part
                self._handler.close(error.code, error.text)
        else:
            self._core.unsubscribe(self._handler, prefixes)
        return len(prefixes)

    def _compare(self) -> int:
        """Cut what the next filter changes into steps."""
        wanted = dict.fromkeys(prefix for prefix in self._targets.popleft() if not prefix.startswith(RESERVED))
        # First what is new: what a broader prefix replaces is never without either.
        added = [prefix for prefix in wanted if prefix not in self._wanted]
        removed = [prefix for prefix in self._wanted if prefix not in wanted]
        for subscribe, changed in ((True, added), (False, removed)):
            for first in range(0, len(changed), STEP_PREFIXES):
                self._steps.append((subscribe, changed[first : first + STEP_PREFIXES]))
        compared = len(wanted) + len(self._wanted)
        self._wanted = wanted
        return compared
