"""`Draining`: a hub that is taken out of service: its clients are moved off a few at a time, and then it stops.

```
$hub/drain ─▶ nobody is admitted, /readyz says 503
           ─▶ every 20 ms: some clients more, each once its requests are answered (2 s at most) and its queue has run
              out: CLOSE 1001 "the hub stops; retry after N s"
           ─▶ all have gone, or `drain.time_s` is over ─▶ the hub stops, as SIGTERM stops it
```

Clients that are closed at once come back at once. So they are closed over a time, each with a time to wait, drawn
between 0 and `drain.retry_after_s`. Links stay until the end: messages of remaining clients go on. SIGTERM stops the
hub in the middle of it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from peers.server.audit import By
from peers.server.server import HUB_STOPS, Server, connection_of
from peers.wire.reasons import with_retry

# Time between groups of clients: two at the default rate, and 200 at the largest one, which takes 10 ms of a turn
_GROUP_S: Final = 0.02
_ANSWERED_S: Final = 2.0  # How long a client is kept, from its turn on, for pending requests of it or to it


class Draining:
    """The end of a hub, at leisure."""

    def __init__(
        self,
        server: Server,
        stop: Callable[[], object],
        settle: Callable[[], Awaitable[None]],
        random_source: random.Random | None = None,
    ) -> None:
        self._server = server
        self._stop = stop
        self._settle = settle
        self._random = random_source or random.Random()  # noqa: S311 -- spread, not secrecy
        self._task: asyncio.Task[None] | None = None  # Runs from `begin` on
        # Number of a client with pending requests at its turn → until when it is kept
        self._answered_until_s: dict[int, float] = {}

    def answer(self, handler: By | None, value: Any) -> dict[str, Any]:  # noqa: ARG002 -- whatever is asked with
        """Answer a request to `$hub/drain`: begin, and return the `outlook`."""
        self.begin(handler)
        return self.outlook()

    def outlook(self) -> dict[str, Any]:
        """Return how many clients there are and how long it takes, about."""
        clients = len(self._clients())
        return {"clients": clients, "seconds": round(clients / self._server.settings.drain.clients_per_s, 1)}

    def begin(self, by: By | None) -> None:
        """Begin to move clients off, if that has not begun."""
        if self._task is not None:
            return
        server = self._server
        server.draining = True
        clients = self._clients()
        server.audit.did(by, "drain", clients=len(clients))
        server.log.info("draining", clients=len(clients), per_s=server.settings.drain.clients_per_s)
        self._task = server.loop.create_task(self._run(clients), name="drain")

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _has_clients(self) -> bool:
        return any(True for _ in self._those_left())

    def _clients(self) -> deque[Handler]:
        """Return the clients: those that do not subscribe first, so that what they publish still finds its readers."""
        return deque(sorted(self._those_left(), key=lambda one: bool(one.prefixes)))

    def _those_left(self) -> Iterator[Handler]:
        return (one for one in self._server.core.handlers.values() if one.role is Role.CLIENT and not one.closed)

    async def _run(self, clients: deque[Handler]) -> None:
        loop, settings = self._server.loop, self._server.settings.drain
        until_s = loop.time() + settings.time_s
        due = 0.0
        while loop.time() < until_s and (clients or self._has_clients()):
            due += settings.clients_per_s * _GROUP_S
            if clients and due >= 1:
                await self._settle()
            for _ in range(min(int(due), len(clients))):
                due -= 1
                handler = clients.popleft()
                if self._is_awaited(handler):
                    clients.append(handler)
                else:
                    self._move(handler, settings.retry_after_s)
            await asyncio.sleep(_GROUP_S)
        self._stop()

    def _is_awaited(self, handler: Handler) -> bool:
        if not self._server.core.requests.has_pending(handler):
            return False
        now_s = self._server.loop.time()
        return now_s < self._answered_until_s.setdefault(handler.id, now_s + _ANSWERED_S)

    def _move(self, handler: Handler, retry_after_s: float) -> None:
        if handler.closed or handler.id not in self._server.core.handlers:
            return
        self._server.drained_clients += 1
        connection = connection_of(handler)
        text = with_retry(HUB_STOPS, self._random.uniform(0.0, retry_after_s))
        connection.drain(text)
