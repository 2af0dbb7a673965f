"""`Exchange`: one client and its hub: the connection, kept up, and the parts that use it.

```
 subscriptions, journal, services, names, publishing, requests, blocks, renewal
       ▲ what the hub says, each to its part          their frames ▼
 Exchange: dial ─▶ Connection ◀─▶ hub; lost ─▶ backoff ─▶ dial again; given up, closed ─▶ finish
```

Owner: one client, in its event loop. Parts learn of the connection's state in the order of `_parts`; `finish` comes
once, and nothing after it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from hub.errors import CloseCode, ClosedError, ConnectionLostError, HubError, InternalError, PeerError, RejectedError
from hub.messages.request_frame import Reply, Request
from peers.client.connection import Connection, Ending, Told
from peers.client.conversation import JOURNAL, SERVICES, TOKENS, Introduction, Refusal, Unreadable
from peers.client.dial import Destination, dial
from peers.client.journal import JournalAccess
from peers.client.names import Names
from peers.client.publications import Publishing
from peers.client.reports import Reports
from peers.client.requests import Requests
from peers.client.service import Services
from peers.client.settings import ClientSettings
from peers.client.sharing import Blocks, SharingConnection
from peers.client.stream import Subscriptions
from peers.client.token_source import TokenRenewal, TokenSource
from peers.client.values import BadMessage
from peers.transport.backoff import Backoff
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.records import Records

_STABLE_S = 5.0
"""How long a connection must hold before the backoff is reset: a hub that accepts and then closes at once is not to be
dialled ten times a second."""

_log = logging.getLogger("peers.client")


class ClientStatistics(NamedTuple):
    """What a client has done, and what waits in it, at one moment. Counts are from its beginning."""

    connected: bool
    connections: int
    """How often a connection was made."""
    published_messages: int
    """Messages that `publish` and its like have taken."""
    buffered_bytes: int
    """How much of these waits to be sent, bytes."""
    unsent_messages: int
    """Messages of these that were left over when the client ended."""
    received_messages: int
    received_bytes: int
    dropped_messages: int
    """Messages for this client that the hub has lost, as it tells."""
    rejected_messages: int
    """Messages published here that the hub refused, or that are too large for the hub that is connected now."""
    bad_messages: int
    """Messages that came and were not msgpack, once for each subscription that got them."""
    prefixes: int
    """How many different prefixes are subscribed to."""
    paused: bool
    """Whether a full stream keeps the client from reading."""
    pending_requests: int
    """Requests that were made here and are not answered yet."""
    late_replies: int
    """Replies that came after their request was over."""
    served_requests: int
    """Requests that were answered here, or are about to be."""


class Exchange:
    """One client and its hub."""

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self.settings = settings
        self.reports = Reports(settings)
        self.subscriptions = Subscriptions(self.reports, self._awaiting)
        regulate = self.subscriptions.regulate
        self.journal = JournalAccess(regulate)
        self.services = Services(regulate)
        self.names = Names(regulate)
        self.publishing = Publishing(settings.buffer_bytes, self.reports.reject, regulate)
        self.requests = Requests(settings.buffer_bytes, self.publishing.write, regulate)
        self.blocks = Blocks(settings, shares=settings.shared_memory and destination.shares_memory)
        self._token = TokenSource(settings.token, settings.connect_timeout_s)
        self.renewal = TokenRenewal(self._token, regulate, self.reports.tell)
        # Publications leave before requests, and both once everything that was subscribed before is asked for again.
        self._parts = (
            self.subscriptions,
            self.journal,
            self.services,
            self.names,
            self.publishing,
            self.requests,
            self.renewal,
        )
        # Of the hub that is connected, or was last.
        self.hub: Hello | None = None
        # The connection that is open and has its HELLO.
        self.connection: Connection | None = None
        # Why the client does nothing more.
        self.ended: HubError | None = None
        self._destination = destination
        self._connections = 0
        self._backoff = settings.backoff or Backoff()
        # Watches the connection and makes it again.
        self._keeping: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        name = self.settings.name or "unnamed"
        state = "closed" if self.ended is not None else "connected" if self.connection is not None else "not connected"
        return f"client {name!r} of {self._destination.location}, {state}"

    def statistics(self) -> ClientStatistics:
        return ClientStatistics(
            connected=self.connection is not None,
            connections=self._connections,
            published_messages=self.publishing.publications.published_messages,
            buffered_bytes=self.publishing.publications.buffered_bytes,
            unsent_messages=self.publishing.unsent_messages,
            received_messages=self.subscriptions.received_messages,
            received_bytes=self.subscriptions.received_bytes,
            dropped_messages=self.reports.dropped_messages,
            rejected_messages=self.reports.rejected_messages,
            bad_messages=self.reports.bad_messages,
            prefixes=self.subscriptions.prefixes,
            paused=self.subscriptions.holding,
            pending_requests=self.requests.pending,
            late_replies=self.requests.late_replies,
            served_requests=self.services.requests,
        )

    async def open(self) -> None:
        """Make the first connection; raises as `connect`."""
        connection, hello = await self._dial()
        self._connected(connection, hello)
        self._keeping = asyncio.create_task(self._keep(connection))

    async def _keep(self, connection: Connection) -> None:
        """Keep connected until it is cancelled, or until trying again makes no sense."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                since_s = loop.time()
                await asyncio.wait([connection.lost])  # to be cancelled without cancelling that
                ending = connection.lost.result()
                again = self.settings.reconnect and not ending.final
                self._disconnected(ending, again=again)
                if not again:
                    self.finish(ending.error())
                    return
                if loop.time() - since_s >= _STABLE_S:
                    self._backoff.reset()
                connection, hello = await self._redial(ending.retry_after_s)
                self._connected(connection, hello)
        except PeerError as error:
            self.finish(error)
        except Exception as error:  # noqa: BLE001 -- waiting callers must get an error in any case
            _log.exception("a bug of the client, please report it")
            self.finish(InternalError(f"a bug of the client, please report it: {error!r}"))

    async def _redial(self, retry_after_s: float | None) -> tuple[Connection, Hello]:
        """Try until there is a connection; the first time after `retry_after_s`, if the hub has asked for that."""
        last = ""
        while True:
            wait_s = self._backoff.next_s() if retry_after_s is None else retry_after_s
            retry_after_s = None
            await asyncio.sleep(wait_s)
            try:
                return await self._dial()
            except ConnectionLostError as error:
                if error.text != last:
                    last = error.text
                    _log.warning("no connection yet: %s", last)

    async def _dial(self) -> tuple[Connection, Hello]:
        """Make a connection; once more, with a fresh token, if the hub does not recognise the first one."""
        try:
            return await self._attempt()
        except RejectedError as error:
            if error.code != CloseCode.NOT_RECOGNISED or not self._token.is_renewable:
                raise
            _log.warning("%s; once more, with a fresh token", error)
        return await self._attempt()

    async def _attempt(self) -> tuple[Connection, Hello]:
        settings = self.settings
        introduction = Introduction(
            settings.name, await self._token.fresh(), settings.queue, settings.narrow, settings.origins
        )
        routes = self.subscriptions.routes

        def make() -> Connection:
            if self.blocks.shares:
                return SharingConnection(self.blocks.converse(introduction, routes), settings, self)
            return Connection(self._destination.converse(introduction, routes), settings, self)

        return await dial(self._destination, make, settings.connect_timeout_s)

    def _connected(self, connection: Connection, hello: Hello) -> None:
        self.connection = connection
        self.hub = hello
        self._connections += 1
        for part in self._parts:
            part.connected(connection, hello)
        self.reports.call(self.settings.on_connect, hello)

    def _disconnected(self, ending: Ending, *, again: bool) -> None:
        self.connection = None
        for part in self._parts:
            part.disconnected(again=again)
        _log.warning("disconnected from %s: %s", self._destination.location, ending)
        self.reports.call(self.settings.on_disconnect, str(ending))

    def finish(self, ended: HubError) -> None:
        """End each part: the client does nothing more."""
        if self.ended is None:
            self.ended = ended
            self.connection = None
            for part in self._parts:
                part.finish(ended)
            self.blocks.finish()

    async def wait_closed(self) -> None:
        """Wait until the client has ended; raise its error, if it has one."""
        if self._keeping is not None:
            await asyncio.wait([self._keeping])
        if self.ended is not None and not isinstance(self.ended, ClosedError):
            raise self.ended.with_traceback(None)

    async def close(self) -> None:
        """Send what was published, for at most `close_timeout_s`, then end the connection and all streams."""
        connection = self.connection
        try:
            if connection is not None:
                await self.publishing.wait_sent(self.settings.close_timeout_s)
        except BaseException:
            if connection is not None:
                connection.abort()
            raise
        finally:
            if self._keeping is not None:
                self._keeping.cancel()
            self.finish(ClosedError("the client is closed"))
        if connection is not None:
            await connection.wait_closed(CloseCode.DONE, "done", self.settings.close_timeout_s)
        if self._keeping is not None:
            await asyncio.wait([self._keeping])

    def write(self) -> None:
        """Write what waits, as the operating system takes bytes again."""
        self.publishing.write()
        self.requests.write()

    def _awaiting(self) -> bool:
        """Return whether the hub owes an answer, for which the connection must be read."""
        return any(part.waiting for part in self._parts)

    def hear(self, told: Told) -> None:
        """Give what the hub says to the part that it is for."""
        if isinstance(told, Reply):
            self.requests.receive(told)
        elif isinstance(told, Request):
            self.services.receive(told)
        elif isinstance(told, Refusal):
            self.requests.refuse(told)
        elif not (isinstance(told, Notice) and self.names.takes(told)):
            self._notice(told)

    def _notice(self, notice: Notice | Records | Unreadable) -> None:
        if isinstance(notice, Unreadable):
            reason = "a batch does not hold the number of values it says"
            self.reports.bad(BadMessage("", b"", notice.messages, reason))
        elif isinstance(notice, Records) or notice.request in JOURNAL:
            self.journal.receive(notice)
        elif notice.request in TOKENS:
            self.renewal.answer(notice)
        elif notice.kind in {"recorded", "unrecorded"}:
            self.publishing.answer(notice)
        elif notice.kind == "dropped":
            self.subscriptions.put_gap(notice.count)
            self.reports.drop(notice.count)
        elif notice.request:
            part = self.services if notice.request in SERVICES else self.subscriptions
            error = part.answer(notice)
            if error is not None and self.connection is not None:
                text = f"the hub now refuses what it had granted before: {error.text}"
                self.connection.leave(Ending(error.code, text))
        elif notice.kind == "error":
            self.reports.reject(RejectedError(notice.code, notice.text), max(1, notice.count))
