"""`Uncarried`: counts messages that other hubs want and that do not go on to them from here.

*Stranded* messages came by a link, and their hub took them for going on from here; *unreached* ones have entered here,
and nothing leads to the hub that wants them. They are counted by handlers among those of the route, so that a route
that loses nothing, as nearly all, costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable

from hub.batch import Batch
from hub.delivery import Role
from hub.handler import Handler
from hub.overflow import QueueLimits

Count = Callable[[bytes, int], object]  # Called with a hub, and how many messages for it do not go on


class Uncarried:
    """The handlers that count."""

    __slots__ = ("_handlers", "_leave_out", "_on_dirty", "_strand")

    def __init__(self, strand: Count, leave_out: Count, on_dirty: Callable[[Handler], None]) -> None:
        self._strand, self._leave_out = strand, leave_out
        self._on_dirty = on_dirty
        # Who is told, and hub → what counts for it, so that it is the same one in all routes; until `forget`.
        self._handlers: dict[tuple[Count, bytes], Handler] = {}

    def stranded(self, hub: bytes) -> Handler:
        return self._handler(self._strand, hub)

    def unreached(self, hub: bytes) -> Handler:
        """Return the handler that counts what has entered here for this hub, to which nothing leads."""
        return self._handler(self._leave_out, hub)

    def _handler(self, count: Count, hub: bytes) -> Handler:
        handler = self._handlers.get((count, hub))
        if handler is None:
            handler = self._handlers[count, hub] = Handler(_Counter(count, hub), role=Role.LINK, limits=QueueLimits())
            handler.attach(0, self._on_dirty, _pass_over)
        return handler

    def forget(self) -> None:
        """Forget these handlers, as all routes are forgotten."""
        self._handlers.clear()


class _Counter:
    __slots__ = ("_count", "_hub")

    def __init__(self, count: Count, hub: bytes) -> None:
        self._count = count
        self._hub = hub

    def send(self, batches: list[Batch]) -> None:
        self._count(self._hub, sum(batch.messages for batch in batches))

    def send_gap(self, lost_messages: int) -> None:
        """Nothing ever waits for this handler, so nothing is dropped."""

    def close(self, code: int, text: str) -> None:
        """Nobody closes it."""


def _pass_over(_: Handler) -> None: ...
