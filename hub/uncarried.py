"""`Uncarried`: counts messages that other hubs want and that do not go on to them from here.

```
route ─▶ links that lead on to hubs that want it, and for each other one of them: a handler that counts
                                                            offer ─▶ end of the read ─▶ Mesh.strand, Mesh.leave_out
```

* **Stranded**: they came by a link, from a hub that took them for going on from here to that one.
* **Unreached**: they have entered here, and nothing leads to that hub.

What counts is a handler like any other, among those of the route: so a route of which nothing is lost, as they nearly
all are, costs nothing more.

Owner: the core. Memory: a handler for each hub for which a route counts, until routes are forgotten. Not here: which
hubs these are (`hub.mesh.graph`), who is told (`hub.mesh.mesh`).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.batch import Batch
from hub.delivery import Role
from hub.handler import Handler
from hub.overflow import QueueLimits

__all__ = ["Uncarried"]

Count = Callable[[bytes, int], object]
"""Takes a hub, and how many messages for it do not go on."""


class Uncarried:
    """The handlers that count.

    Args:
        strand: Counts what is stranded.
        leave_out: Counts what is unreached.
        on_dirty: Called by a handler that is to be flushed.
    """

    __slots__ = ("_handlers", "_leave_out", "_on_dirty", "_strand")

    def __init__(self, strand: Count, leave_out: Count, on_dirty: Callable[[Handler], None]) -> None:
        self._strand, self._leave_out = strand, leave_out
        self._on_dirty = on_dirty
        # Who is told, and hub → what counts for it, so that it is the same one in all routes; until `forget`.
        self._handlers: dict[tuple[Count, bytes], Handler] = {}

    def stranded(self, hub: bytes) -> Handler:
        """Return the handler that counts what is stranded here on its way to this hub."""
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
        """All routes are forgotten, and with them these handlers."""
        self._handlers.clear()


class _Counter:
    """The outlet of such a handler."""

    __slots__ = ("_count", "_hub")

    def __init__(self, count: Count, hub: bytes) -> None:
        self._count = count
        self._hub = hub

    def send(self, batches: list[Batch]) -> None:
        """Count them."""
        self._count(self._hub, sum(batch.messages for batch in batches))

    def send_gap(self, lost_messages: int) -> None:
        """Nothing ever waits for this handler, so nothing is dropped."""

    def close(self, code: int, text: str) -> None:
        """Nobody closes it."""


def _pass_over(_: Handler) -> None:
    """Stand in for whoever is told of drops."""
