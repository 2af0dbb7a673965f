"""`Telling`: `$hub/statistics`, once a second while somebody subscribes, a message a turn.

Where the hub is several processes, each tells its own subscribers of all of them.

Owner: the daemon. Invariant: one look is told whole before the next one begins. Not here: what is told
(`peers.admin.state`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hub.events import STATISTICS_TOPIC, Event
from hub.requests.hub_services import Later
from peers.admin.state import HANDLERS_PER_STEP, rows, totals
from peers.node.node import Node


class Telling:
    """Tells how the handlers of one node do.

    Args:
        node: Which.
    """

    __slots__ = ("_is_asking", "_node", "_telling")

    def __init__(self, node: Node) -> None:
        self._node = node
        # Set while the messages of one look are told.
        self._telling: Iterator[int] | None = None
        # Whether the other processes of the hub are asked.
        self._is_asking = False

    def tick(self) -> None:
        """Begin, if somebody wants to know, and the last look is over."""
        node = self._node
        if self._telling is not None or self._is_asking or not node.core.own_events.is_wanted(STATISTICS_TOPIC):
            return
        if node.whole is None:
            handlers = list(node.core.handlers.values())
            self._begin(totals(node), len(handlers), lambda first, stop: rows(handlers[first:stop]))
        else:
            self._is_asking = True
            later = node.whole.ask("statistics")
            later.then(lambda: self._take(later))

    def _take(self, later: Later) -> None:
        """The processes of the hub have answered; if they have not, the next second asks again."""
        self._is_asking = False
        if later.error is None:
            found = dict(later.value)
            some = found.pop("some")
            self._begin(found, len(some), lambda first, stop: some[first:stop])

    def _begin(self, head: dict[str, Any], count: int, look: Callable[[int, int], list[Any]]) -> None:
        self._telling = self._messages(head | {"handlers": count}, count, look)
        self._next()

    def _next(self) -> None:
        """Tell of some handlers, and of the next ones in the next turn: thousands take 0.1 s."""
        if self._telling is None:
            return
        if next(self._telling, None) is None:
            self._telling = None
        else:
            self._node.after_turn(self._next)

    def _messages(self, head: dict[str, Any], count: int, look: Callable[[int, int], list[Any]]) -> Iterator[int]:
        """Announce one message in each step."""
        for first in range(0, max(1, count), HANDLERS_PER_STEP):
            if first:
                head.pop("users", None)
                head.pop("links", None)
                head.pop("state", None)
            some = look(first, first + HANDLERS_PER_STEP)
            self._node.core.own_events.announce(Event(STATISTICS_TOPIC, head | {"first": first, "some": some}))
            yield first
