"""`Services`: the services by which a client answers the requests of others.

```
Service.open ─▶ SERVE ─▶ hub ─▶ confirmed          hub ─ REQUEST ─▶ the service with the longest prefix that matches
                                                   hub ◀─ REPLY ─── Replies ◀── end of the read, end of the turn
```

Owner: one client, in its event loop. Invariants: each request that comes is answered once, unless its connection is
lost before; a prefix is served by one service of a client; a connection that is made anew is asked for all of them
again.

Not here: calling functions (`peers.client.service`), asking others (`peers.client.requests`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hub.errors import HubError, PeerError, RejectedError, UsageError
from hub.request_frame import FLAG_NAMED, Request
from hub.topics import printable
from peers.client.connection import Connection
from peers.client.conversation import SERVICES, Numbers
from peers.client.service import Answering, Asking, Replies, Service
from peers.client.values import read_values
from peers.wire.control import Notice
from peers.wire.hello import Hello

__all__ = ["Services"]

_TARGETS_LIMIT = 65_536
"""Most topics whose service is remembered."""

_NOBODY = "this client no longer serves that"


class _Change(NamedTuple):
    """A change that the hub was asked for and has not answered."""

    answer: asyncio.Future[HubError | None]
    service: Service
    serve: bool
    again: bool
    """Whether it was granted before, over an earlier connection."""


class Services:
    """The answering side of one client.

    Args:
        on_waiting: Called when `waiting` may have changed.
    """

    def __init__(self, on_waiting: Callable[[], None]) -> None:
        self._on_waiting = on_waiting
        self._loop = asyncio.get_running_loop()
        # The connection that is open; None from `disconnected` until the next one.
        self._connection: Connection | None = None
        # Answers that were not sent yet; a new object for each connection.
        self._replies = Replies()
        # Prefix → the service that answers; from `open` until the hub has let go.
        self._services: dict[str, Service] = {}
        # Services that the hub has confirmed and that were not given up.
        self._held: dict[Service, None] = {}
        # Topic → prefix and service that answer it, as remembered; emptied when a service comes or goes.
        self._targets: dict[bytes, tuple[str, Service | None]] = {}
        # Number of a request to the hub → the change that it asks for; it goes with the answer or the connection.
        self._changes: dict[int, _Change] = {}
        self._numbers = Numbers(SERVICES)
        # True from the first answer outside of a read until the flush at the end of the turn.
        self._flush_due = False
        # Why nothing is served any more; None until `finish`.
        self._ended: HubError | None = None
        # How many requests came since the beginning.
        self.requests = 0

    @property
    def waiting(self) -> bool:
        """Whether an answer of the hub's is awaited: then the connection must be read."""
        return bool(self._changes)

    # For the client's users.

    def make(
        self, prefixes: Sequence[str] | str, answering: Answering, concurrency: int, close_timeout_s: float
    ) -> Service:
        """Make a service, which is to be opened."""
        several = (prefixes,) if isinstance(prefixes, str) else tuple(prefixes)
        return Service(self, several, answering, concurrency, close_timeout_s)

    # For services.

    async def open(self, service: Service) -> None:
        """Serve; see `Service.open`. Cancellation: takes it back."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        for prefix in service.prefixes:
            if prefix in self._services:
                raise UsageError(f"this client serves {printable(prefix)} already; others can, over other connections")
        self._services.update(dict.fromkeys(service.prefixes, service))
        self._targets.clear()
        answer = self._ask(service, serve=True)
        try:
            await asyncio.wait([answer])
        except BaseException:
            self._ask(service, serve=False)
            self._let_go(service)
            raise
        error = answer.result()
        if error is not None:
            self._let_go(service)
            raise error.with_traceback(None)

    async def close(self, service: Service) -> None:
        """Serve no longer, and wait until the hub sends nothing more; see `Service.close`."""
        if service not in self._held:
            return
        del self._held[service]
        try:
            if self._connection is not None:
                await asyncio.wait([self._ask(service, serve=False)])
        finally:
            self._let_go(service)

    def flush_soon(self) -> None:
        """Send what was answered at the end of this turn of the loop."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush_now)

    # For the client.

    def receive(self, request: Request) -> None:
        """Have requests answered."""
        topic, service = self._targets.get(request.target) or self._find(request.target)
        values = read_values(request.flags & ~FLAG_NAMED, request.values)
        self.requests += len(values)
        if service is None:
            self._replies.fail(request.first, len(values), _NOBODY)
        else:
            service.receive(Asking(topic, request.first, values), self._replies)

    def flush(self) -> None:
        """Put what was answered into frames; the caller writes them."""
        connection, replies = self._connection, self._replies
        if replies and connection is not None:
            for reply in replies.take():
                connection.conversation.reply(reply)

    def answer(self, notice: Notice) -> PeerError | None:
        """Take the hub's answer about a service.

        Returns:
            An error if it refuses what it had granted over an earlier connection.
        """
        change = self._changes.pop(notice.request, None)
        if change is None:
            return None
        error = RejectedError(notice.code, notice.text) if notice.kind == "error" else None
        if change.serve and error is None and self._services.get(change.service.prefixes[0]) is change.service:
            self._held[change.service] = None
        if not change.answer.done():
            change.answer.set_result(error)
        self._on_waiting()
        return error if change.again else None

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Ask a new connection for everything."""
        self._connection = connection
        self._replies.frame_limit_bytes = hello.frame
        for number, change in self._changes.items():
            self._send(number, change)
        for service in self._held:
            self._ask(service, serve=True, again=True)

    def disconnected(self, *, again: bool) -> None:  # noqa: ARG002 -- as all parts
        """Settle what was asked over the connection, which is lost."""
        self._connection = None
        limit = self._replies.frame_limit_bytes
        self._replies = Replies()  # what still runs answers into the old one
        self._replies.frame_limit_bytes = limit
        for number, change in list(self._changes.items()):
            if not change.serve or change.again:
                del self._changes[number]
                if not change.answer.done():
                    change.answer.set_result(None)
        for service in self._all():
            service.disconnected()

    def finish(self, ended: HubError) -> None:
        """End what runs, and tell those who wait: nothing comes any more."""
        self._ended = ended
        self._connection = None
        for change in self._changes.values():
            if not change.answer.done():
                change.answer.set_result(self._ended)
        self._changes.clear()
        for service in self._all():
            service.cancel()

    # Inside.

    def _all(self) -> list[Service]:
        return list(dict.fromkeys(self._services.values()))

    def _find(self, target: bytes) -> tuple[str, Service | None]:
        """Find, and remember, who answers under a topic: the longest prefix wins, as in the hub."""
        topic = target.decode("utf-8", "replace")
        found = max((prefix for prefix in self._services if topic.startswith(prefix)), key=len, default=None)
        if len(self._targets) >= _TARGETS_LIMIT:
            self._targets.clear()
        place = self._targets[target] = (topic, None if found is None else self._services[found])
        return place

    def _let_go(self, service: Service) -> None:
        for prefix in service.prefixes:
            if self._services.get(prefix) is service:
                del self._services[prefix]
        self._held.pop(service, None)
        self._targets.clear()
        for number, change in list(self._changes.items()):
            if change.service is service and change.serve:
                del self._changes[number]

    def _ask(self, service: Service, *, serve: bool, again: bool = False) -> asyncio.Future[HubError | None]:
        number = self._numbers.next()
        change = _Change(self._loop.create_future(), service, serve, again)
        if serve or self._connection is not None:
            self._changes[number] = change
            self._send(number, change)
        return change.answer

    def _send(self, number: int, change: _Change) -> None:
        connection = self._connection
        if connection is not None:
            say: Callable[[list[str], int], None]
            say = connection.conversation.serve if change.serve else connection.conversation.unserve
            say(list(change.service.prefixes), number)
            connection.write_outgoing()
            self._on_waiting()

    def _flush_now(self) -> None:
        self._flush_due = False
        self.flush()
        if self._connection is not None:
            self._connection.write_outgoing()
