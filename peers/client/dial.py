"""Making a connection to a hub; every failure becomes one error that says what to do.

```
Destination ─ connect(make) ─▶ socket and Connection ─▶ the hub's HELLO ─▶ (Connection, Hello), or one error
```
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from hub.errors import ConnectionLostError
from peers.client.connection import Connection, Ending
from peers.client.conversation import ABNORMAL, Conversation, Introduction
from peers.client.routes import LocalRoutes
from peers.client.settings import ClientSettings
from peers.client.sharing import SharingConnection
from peers.client.wire import WireConversation
from peers.shm import memory
from peers.shm.transport import UnixTransport
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.tls import TlsError, client_context, explained
from peers.wire.hello import Hello

Make = Callable[[], Connection]

_NO_REASON = "; is the scheme right? a port with TLS is reached with tls:// or wss://, one without with tcp:// or ws://"


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
        """Return one line on what to do about an error of `connect`."""


class Remote:
    """A hub that is reached by its URL.

    Raises:
        InvalidEndpointError: The URL is none of a hub.
        TlsError: A file that TLS needs cannot be used, or is given although the URL is not one of TLS.
    """

    def __init__(self, url: str, settings: ClientSettings) -> None:
        self._endpoint = Endpoint.parse_remote(url)
        self._settings = settings
        self._first_tls: ssl.SSLContext | None = None
        """Made before the first connection, so that bad files raise at once."""
        if self._endpoint.scheme.is_secure:
            self._first_tls = self._tls()
        elif settings.ca or settings.certificate or settings.key:
            raise TlsError(f"{url}: ca, certificate and key are for tls:// and wss://; this URL has no TLS")

    @property
    def location(self) -> str:
        return self._endpoint.location

    @property
    def shares_memory(self) -> bool:
        return self._endpoint.scheme is Scheme.UNIX and memory.AVAILABLE

    def converse(self, introduction: Introduction, routes: LocalRoutes) -> Conversation:
        endpoint = self._endpoint
        if not endpoint.scheme.is_websocket:
            return WireConversation(introduction, routes)
        # A third of all that a client imports, for those alone who need it.
        from peers.client.websocket import PATH, WebSocketConversation  # noqa: PLC0415

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
        except BaseException:
            sock.close()
            raise
        return await adopt(sock, make)

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
            return f"{place}: no permission to connect; the socket's owner and mode decide who may"
        return f"cannot connect to {place}: {error}; {start}"


async def adopt(sock: socket.socket, make: Make) -> Connection:
    """Make a connection of a connected Unix socket, which it owns from now on."""
    loop = asyncio.get_running_loop()
    connection = make()
    try:
        if isinstance(connection, SharingConnection):
            transport = UnixTransport(loop, sock, connection)
        else:
            await loop.create_unix_connection(lambda: connection, sock=sock)
            return connection
    except BaseException:
        sock.close()
        raise
    connection.connection_made(transport)
    transport.start()
    return connection


async def dial(destination: Destination, make: Make, timeout_s: float) -> tuple[Connection, Hello]:
    """Connect and wait until the hub has answered, `timeout_s` for each.

    Raises:
        ConnectionLostError: No connection; another attempt may succeed.
        RejectedError, ProtocolError: The hub refuses, or there is no hub; another attempt will not succeed.
    """
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
