"""`Drops`: which handlers lost messages, and how many of these were told already.

`$hub/overflow` and `$hub/unreadable` say how many messages a handler has lost since they last said so. A handler counts
what it loses; here stands what was told of that.

Owner: the core. Invariants: each lost message is told once; nothing stands here of a handler that has left, beside what
is still to be told of it.

Cost: a dict entry for each handler that has lost something. Not here: when there is a report (`peers.daemon`).
"""

from __future__ import annotations

from typing import NamedTuple

from hub.events import Event, overflow, unreadable
from hub.handler import Handler

__all__ = ["Drops"]


class _Told(NamedTuple):
    """What was told of a handler so far."""

    dropped_messages: int = 0
    """How many were lost in all, for either reason."""
    unreadable_messages: int = 0
    """How many of these had no form in what the far side reads."""


class Drops:
    """The losses of all handlers."""

    __slots__ = ("_dropping", "_told")

    def __init__(self) -> None:
        # Handlers that have lost something since the last report.
        self._dropping: dict[Handler, None] = {}
        # Handler → what was told of it; from the first report on it until it has left.
        self._told: dict[Handler, _Told] = {}

    def note(self, handler: Handler) -> None:
        """Take note that a handler has lost messages."""
        self._dropping[handler] = None

    def forget(self, handler: Handler) -> None:
        """Take note that a handler has left. What it has lost since the last report is still told."""
        if handler not in self._dropping:
            self._told.pop(handler, None)

    def report(self) -> list[Event]:
        """Return what there is to tell since the last report.

        Returns:
            An event for each handler whose queue was full, and one for each whose far side could not read what came.
        """
        dropping, self._dropping = self._dropping, {}
        events = []
        for handler in dropping:
            before, now = self._told.get(handler, _Told()), _Told(handler.dropped_messages, handler.unreadable_messages)
            unread = now.unreadable_messages - before.unreadable_messages
            lost = now.dropped_messages - before.dropped_messages - unread
            if handler.closed:
                self._told.pop(handler, None)
            else:
                self._told[handler] = now
            if lost:
                events.append(overflow(handler, lost))
            if unread:
                events.append(unreadable(handler, unread))
        return events
