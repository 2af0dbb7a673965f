"""`Pacing`: when one connection is not read on because its user publishes faster than he may.

```
read, acted on ─▶ spend ─▶ Rate of the user ─▶ seconds to wait ─▶ not read on ─ timer ─▶ still to wait? ─ no ─▶ on_over
```

A rate belongs to a user: what one connection of his has read makes all wait that read next. TCP holds the sender back;
nothing is dropped. Bytes are counted as they are read, messages as they are routed: what a turn's share has put off
counts with what is read next.

Owner: one connection, from when its user is known. Invariant: the timer is there exactly while the connection is held.
Cost: two tests for each read of a user without a rate, 2 µs for each of one with a rate.

Not here: how fast a user may be (`hub.quotas.limits`), what else is in the way of reading
(`peers.connections.connection`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hub.handler import Handler
from hub.quotas.limits import Rate

__all__ = ["Pacing"]

_LEAST_S = 0.001
"""Waiting for less is not worth a timer."""


class Pacing:
    """How one connection keeps the rate of its user.

    Args:
        rate: Of the user.
        handler: Of the connection.
        loop: Its clock and its timers.
        on_over: Called when the connection may read on.
    """

    __slots__ = (
        "_changes",
        "_counted_messages",
        "_handler",
        "_has_left",
        "_loop",
        "_on_over",
        "_since_s",
        "_timer",
        "rate",
    )

    def __init__(
        self, rate: Rate, handler: Handler, loop: asyncio.AbstractEventLoop, on_over: Callable[[], object]
    ) -> None:
        self.rate = rate
        self._handler = handler
        self._loop = loop
        self._on_over = on_over
        # How many of the messages that the handler has published were counted, as of these limits: while there was none
        # nobody has counted.
        self._counted_messages = handler.published_messages
        self._changes = rate.changes
        # The end of waiting; None while the connection may read.
        self._timer: asyncio.TimerHandle | None = None
        # Since when it waits.
        self._since_s = 0.0
        # Whether the connection is over: it waits no more, and what is read is thrown away.
        self._has_left = False

    def spend(self, size_bytes: int) -> bool:
        """Count what was read; return whether the connection has to wait from now on.

        To be called only while the rate is limited.
        """
        rate = self.rate
        published = self._handler.published_messages
        if rate.changes != self._changes:
            self._changes = rate.changes
            self._counted_messages = published
        now_s = self._loop.time()
        wait_s = rate.spend(published - self._counted_messages, 0 if self._has_left else size_bytes, now_s)
        self._counted_messages = published
        if wait_s < _LEAST_S or self._timer is not None or self._has_left:
            return False
        self._since_s = now_s
        self._wait(wait_s)
        return True

    def _wait(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Read on, unless others of the user have read meanwhile."""
        wait_s = self.rate.wait_s(self._loop.time())
        if wait_s >= _LEAST_S:
            self._wait(wait_s)
            return
        self.end()
        self._on_over()

    def leave(self) -> None:
        """Wait no more: the connection is over. What was put off of it is still counted."""
        self.end()
        self._has_left = True

    def end(self) -> None:
        """Wait no longer. It does no harm if nothing waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.rate.held_back(self._loop.time() - self._since_s)
