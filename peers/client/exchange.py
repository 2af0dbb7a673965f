"""`Exchange`: one client and its hub: makes the connection, keeps it up, and gives each message to its part.

```
 subscriptions, journal, services, names, publishing, requests, renewal
       ▲ events of the hub, each for one part          frames ▼
 Exchange: dial ─▶ Connection ◀─▶ hub; lost ─▶ backoff ─▶ dial again; given up, closed ─▶ finish
```

Owner: one client, in its event loop. Parts get the state of the connection in the order of `_parts`; `finish` comes
once, and nothing after it. Every failure to connect becomes one error that says how to repair it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hub.errors import CloseCode, ClosedError, ConnectionLostError, HubError, InternalError, PeerError, RejectedError
from hub.messages.request_frame import Reply, Request
from peers.client.connection import Connection, Ending, Told
from peers.client.conversation import (
    ABNORMAL,
    JOURNAL,
    NAMES,
    SERVICES,
    TOKENS,
    Conversation,
    Introduction,
    Refusal,
    Unreadable,
)
from peers.client.publications import Publishing
from peers.client.reports import Reports
from peers.client.requests import Requests
from peers.client.routes import LocalRoutes
from peers.client.settings import ClientSettings
from peers.client.stream import Subscriptions
from peers.client.token_source import TokenSource
from peers.client.values import BadMessage
from peers.client.wire import WireConversation
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.timing import Backoff
from peers.transport.tls import TlsError, client_context, explained
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.records import Records

if TYPE_CHECKING:
    from peers.client.journal import JournalAccess
    from peers.client.names import Names
    from peers.client.service import Services
    from peers.client.sharing import Blocks

Make = Callable[[], Connection]

_STABLE_S = 5.0
"""How long a connection must hold before the backoff is reset: a hub that accepts and closes at once is not to be
dialled ten times a second."""

_NO_REASON = "; is the scheme right? a port with TLS is reached with tls:// or wss://, one without with tcp:// or ws://"

_STANDINGS = frozenset({"owned", "queued", "lost"})  # Notices about claims of names that answer no request
_log = logging.getLogger("peers.client")


class Destination(Protocol):
    """A hub and the way to it: a `Remote`, or a hub in this process. May be used again and again."""

    @property
    def location(self) -> str:
        """The address of the hub, for people."""

    @property
    def shares_memory(self) -> bool:
        """Whether memory can be handed over on the way to the hub."""

    def converse(self, introduction: Introduction, routes: LocalRoutes) -> Conversation:
        """Make the protocol state of one connection without shared memory."""

    async def connect(self, make: Make) -> Connection:
        """Make one connection; after an OSError or `ConnectionLostError` another attempt may succeed."""

    def advice(self, error: OSError) -> str:
        """Return one line on how to repair an error of `connect`."""


class Remote:
    """A hub that is reached by its URL.

    Raises:
        InvalidEndpointError: The URL is none of a hub.
        TlsError: A file that TLS needs cannot be used, or is given although the URL is not one of TLS.
    """

    def __init__(self, url: str, settings: ClientSettings) -> None:
        self._endpoint = Endpoint.parse_remote(url)
        self._settings = settings
        # Made before the first connection, so that bad files raise at once.
        self._first_tls: ssl.SSLContext | None = None
        if self._endpoint.scheme.is_secure:
            self._first_tls = self._tls()
        elif settings.ca or settings.certificate or settings.key:
            raise TlsError(f"{url}: ca, certificate and key are for tls:// and wss://; this URL has no TLS")

    @property
    def location(self) -> str:
        return self._endpoint.location

    @property
    def shares_memory(self) -> bool:
        if self._endpoint.scheme is not Scheme.UNIX:
            return False
        from peers.shm import memory  # noqa: PLC0415 -- Unix sockets alone need it

        return memory.AVAILABLE

    def converse(self, introduction: Introduction, routes: LocalRoutes) -> Conversation:
        endpoint = self._endpoint
        if not endpoint.scheme.is_websocket:
            return WireConversation(introduction, routes)
        from peers.client.websocket import PATH, WebSocketConversation  # noqa: PLC0415 -- it is as large as the rest

        url = endpoint.location if endpoint.path else endpoint.location + PATH
        return WebSocketConversation(url, introduction, routes)

    async def connect(self, make: Make) -> Connection:
        loop = asyncio.get_running_loop()
        endpoint = self._endpoint
        if endpoint.scheme is not Scheme.UNIX:
            try:
                tls = self._first_tls or self._tls() if endpoint.scheme.is_secure else None
            except TlsError as error:
                raise ConnectionLostError(ABNORMAL, f"{self.location}: {error}") from error
            self._first_tls = None
            _, connection = await loop.create_connection(make, endpoint.host, endpoint.port, ssl=tls)
            return connection
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, endpoint.path)
            connection = make()
            await connection.adopt(sock)
        except BaseException:
            sock.close()
            raise
        return connection

    def _tls(self) -> ssl.SSLContext:
        """Return a context for one connection: its files may have changed since the last one."""
        settings = self._settings
        return client_context(settings.ca, settings.certificate, settings.key)

    def advice(self, error: OSError) -> str:
        endpoint, place = self._endpoint, self.location
        if reason := explained(error, endpoint.host):
            return f"{place}: {reason}"
        start = "is the hub running? start it with `hub run`"
        if isinstance(error, socket.gaierror):
            return f"{place}: the host name {endpoint.host!r} is not known ({error.strerror})"
        if error.errno == errno.ECONNREFUSED:
            return f"nothing listens on {place}: {start}"
        if error.errno == errno.ENOENT:
            return f"there is no socket {endpoint.path}: start it with `hub run --listen {place}`"
        if error.errno in {errno.EACCES, errno.EPERM}:
            return f"{place}: no permission to connect: see owner and mode of the socket"
        return f"cannot connect to {place}: {error}; {start}"


async def _dial(destination: Destination, make: Make, timeout_s: float) -> tuple[Connection, Hello]:
    """Connect and wait until the hub has answered, `timeout_s` for each. Raises as `connect`."""
    place = destination.location
    try:
        async with asyncio.timeout(timeout_s):
            connection = await destination.connect(make)
    except TimeoutError:
        raise ConnectionLostError(ABNORMAL, f"no connection to {place} within {timeout_s:g} s") from None
    except ConnectionLostError:
        raise
    except OSError as error:
        raise ConnectionLostError(ABNORMAL, destination.advice(error)) from error
    try:
        await asyncio.wait([connection.opened], timeout=timeout_s)
    except asyncio.CancelledError:
        connection.abort()
        raise
    if not connection.opened.done():
        connection.abort()
        raise ConnectionLostError(
            ABNORMAL,
            f"something listens on {place}, but does not answer as a hub within {timeout_s:g} s; "
            f"is the port right? a hub's TCP port is reached with tcp://, its WebSocket port with ws://",
        )
    opened = connection.opened.result()
    if isinstance(opened, Ending):
        connection.abort()
        hint = _NO_REASON if opened.code == ABNORMAL else ""
        raise opened._replace(text=f"{place}: {opened.text}{hint}").error()
    return connection, opened


class ClientStatistics(NamedTuple):
    """Counters of a client since its beginning, and the state of its buffers at one moment."""

    connected: bool
    connections: int  # How often a connection was made
    published_messages: int  # Messages that `publish` and its variants have taken
    buffered_bytes: int  # Size of those that wait to be sent
    unsent_messages: int  # Those that were left over when the client ended
    received_messages: int
    received_bytes: int
    dropped_messages: int  # Messages for this client that the hub has dropped
    rejected_messages: int
    """Publications that the hub rejected, or that are too large for the hub that is connected now."""
    bad_messages: int  # Received messages that were not msgpack, once for each subscription that got them
    prefixes: int  # How many different prefixes are subscribed to
    paused: bool  # Whether a full stream keeps the client from reading
    pending_requests: int  # Requests of this client that have no reply yet
    late_replies: int  # Replies that came after their request was over
    served_requests: int  # Requests that this client's services got


class _Part(Protocol):
    """A part of a client: the state of one kind of command over connections."""

    @property
    def waiting(self) -> bool:
        """Whether the hub owes an answer, for which the connection must be read."""

    def connected(self, connection: Connection, hello: Hello) -> None: ...

    def disconnected(self) -> None:
        """The connection was lost, and is made again."""

    def finish(self, ended: HubError) -> None: ...


class Exchange:
    """One client and its hub."""

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self.settings = settings
        self.reports = Reports(settings)
        self.subscriptions = Subscriptions(self.reports, lambda: any(part.waiting for part in self._parts))
        self.publishing = Publishing(settings.buffer_bytes, self.reports.reject)
        self.requests = Requests(settings.buffer_bytes, self.publishing.write)
        self.tokens = TokenSource(settings.token, settings.connect_timeout_s, self.reports.tell)
        # Publications leave before requests, and both once everything that was subscribed before is asked for again.
        self._parts: list[_Part] = [self.subscriptions, self.publishing, self.requests, self.tokens]
        # Parts that few programs need are made, and their modules loaded, when they are used.
        self._journal: JournalAccess | None = None
        self._services: Services | None = None
        self._names: Names | None = None
        self._blocks: Blocks | None = None
        self.hub: Hello | None = None  # Of the hub that is connected, or was last
        self.connection: Connection | None = None  # The connection that is open and has its HELLO
        self.ended: HubError | None = None  # Why the client does nothing more
        self._destination = destination
        self._connections = 0
        self._backoff = settings.backoff or Backoff()
        self._keeping: asyncio.Task[None] | None = None  # Watches the connection and makes it again

    def __repr__(self) -> str:
        name = self.settings.name or "unnamed"
        state = "closed" if self.ended is not None else "connected" if self.connection is not None else "not connected"
        return f"client {name!r} of {self._destination.location}, {state}"

    @property
    def journal(self) -> JournalAccess:
        if self._journal is None:
            from peers.client.journal import JournalAccess  # noqa: PLC0415

            self._journal = JournalAccess()
            self._add(self._journal)
        return self._journal

    @property
    def services(self) -> Services:
        if self._services is None:
            from peers.client.service import Services  # noqa: PLC0415

            self._services = Services()
            self._add(self._services)
        return self._services

    @property
    def names(self) -> Names:
        if self._names is None:
            from peers.client.names import Names  # noqa: PLC0415

            self._names = Names()
            self._add(self._names)
        return self._names

    @property
    def blocks(self) -> Blocks:
        if self._blocks is None:
            from peers.client.sharing import Blocks  # noqa: PLC0415

            shares = self.settings.shared_memory and self._destination.shares_memory
            self._blocks = Blocks(self.settings, shares=shares)
            if self.ended is not None:
                self._blocks.finish()
        return self._blocks

    def _add(self, part: _Part) -> None:
        self._parts.insert(1, part)
        if self.connection is not None and self.hub is not None:
            part.connected(self.connection, self.hub)
        if self.ended is not None:
            part.finish(self.ended)

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
            served_requests=0 if self._services is None else self._services.requests,
        )

    async def open(self) -> None:
        """Make the first connection; raises as `connect`."""
        connection, hello = await self._dial()
        self._connected(connection, hello)
        self._keeping = asyncio.create_task(self._keep(connection))

    async def _keep(self, connection: Connection) -> None:
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
            if error.code != CloseCode.NOT_RECOGNISED or not self.tokens.is_renewable:
                raise
            _log.warning("%s; trying again with a fresh token", error)
        return await self._attempt()

    async def _attempt(self) -> tuple[Connection, Hello]:
        settings = self.settings
        introduction = Introduction(
            settings.name, await self.tokens.fresh(), settings.queue, settings.narrow, settings.origins
        )
        routes = self.subscriptions.routes

        def make() -> Connection:
            if settings.shared_memory and self._destination.shares_memory:
                return self.blocks.connection(introduction, self)
            return Connection(self._destination.converse(introduction, routes), settings, self)

        return await _dial(self._destination, make, settings.connect_timeout_s)

    def _connected(self, connection: Connection, hello: Hello) -> None:
        self.connection = connection
        self.hub = hello
        self._connections += 1
        for part in self._parts:
            part.connected(connection, hello)
        self.reports.call(self.settings.on_connect, hello)

    def _disconnected(self, ending: Ending, *, again: bool) -> None:
        self.connection = None
        if again:
            for part in self._parts:
                part.disconnected()
        _log.warning("disconnected from %s: %s", self._destination.location, ending)
        self.reports.call(self.settings.on_disconnect, str(ending))

    def finish(self, ended: HubError) -> None:
        """End each part: the client does nothing more."""
        if self.ended is None:
            self.ended = ended
            self.connection = None
            for part in self._parts:
                part.finish(ended)
            if self._blocks is not None:
                self._blocks.finish()

    async def wait_closed(self) -> None:
        """Wait until the client has ended; raise its error, if it has one."""
        if self._keeping is not None:
            await asyncio.wait([self._keeping])
        if self.ended is not None and not isinstance(self.ended, ClosedError):
            raise self.ended.with_traceback(None)

    async def close(self) -> None:
        """Send publications, for at most `close_timeout_s`, then end the connection and all streams."""
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

    # Called by the connection.

    def write(self) -> None:
        """Write buffered frames, as the operating system takes bytes again."""
        self.publishing.write()
        self.requests.write()

    def flush_replies(self) -> None:
        if self._services is not None:
            self._services.flush()

    def receive(self, told: Told) -> None:
        """Give an event to the part that it is for."""
        if isinstance(told, Reply):
            self.requests.receive(told)
        elif isinstance(told, Request):
            self.services.receive(told)
        elif isinstance(told, Refusal):
            self.requests.refuse(told)
        elif isinstance(told, Unreadable):
            reason = "a batch does not hold the number of values it says"
            self.reports.bad(BadMessage("", b"", told.messages, reason))
        elif isinstance(told, Records) or told.request in JOURNAL:
            self.journal.receive(told)
        else:
            self._notice(told)

    def _notice(self, notice: Notice) -> None:
        if notice.kind in _STANDINGS or notice.request in NAMES:
            self.names.receive(notice)
        elif notice.request in TOKENS:
            self.tokens.answer(notice)
        elif notice.kind in {"recorded", "unrecorded"}:
            self.publishing.answer(notice)
        elif notice.kind == "dropped":
            self.subscriptions.put_gap(notice.count)
            self.reports.drop(notice.count)
        elif notice.request:
            part = self.services if notice.request in SERVICES else self.subscriptions
            error = part.answer(notice)
            if error is not None and self.connection is not None:
                text = f"the hub now rejects what it accepted before: {error.text}"
                self.connection.leave(Ending(error.code, text))
        elif notice.kind == "error":
            self.reports.reject(RejectedError(notice.code, notice.text), max(1, notice.count))
