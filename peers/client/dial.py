"""Making a connection to a hub; every failure becomes one error that says what to do."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from hub.errors import ConnectionLostError
from peers.client.connection import Connection
from peers.client.conversation import ABNORMAL, Conversation, Introduction
from peers.client.endings import Ending
from peers.client.routes import LocalRoutes
from peers.client.sharing_connection import SharingConnection
from peers.client.websocket import PATH, WebSocketConversation
from peers.client.wire import WireConversation
from peers.endpoints import Endpoint, Scheme
from peers.shm import memory
from peers.shm.transport import UnixTransport
from peers.wire.hello import Hello

__all__ = ["converse", "dial", "shares"]


def converse(endpoint: Endpoint, introduction: Introduction, routes: LocalRoutes) -> Conversation:
    """Make the conversation that an endpoint speaks."""
    if endpoint.scheme is not Scheme.WS:
        return WireConversation(introduction, routes)
    url = endpoint.location if endpoint.path else endpoint.location + PATH
    return WebSocketConversation(url, introduction, routes)


def shares(endpoint: Endpoint, *, wanted: bool) -> bool:
    """Whether memory may be shared with a hub at that endpoint."""
    return wanted and endpoint.scheme is Scheme.UNIX and memory.AVAILABLE


async def dial(endpoint: Endpoint, make: Callable[[], Connection], timeout_s: float) -> tuple[Connection, Hello]:
    """Connect and wait until the hub has answered.

    Args:
        endpoint: Where.
        make: Makes the protocol.
        timeout_s: For the connection and for the answer, each.

    Returns:
        The connection and what the hub says of itself.

    Raises:
        ConnectionLostError: No connection; another attempt may succeed.
        RejectedError, ProtocolError: The hub refuses, or there is no hub; another attempt will not succeed.
    """
    try:
        async with asyncio.timeout(timeout_s):
            connection = await _connect(endpoint, make)
    except TimeoutError:
        raise ConnectionLostError(ABNORMAL, f"no connection to {endpoint.location} within {timeout_s:g} s") from None
    except OSError as error:
        raise ConnectionLostError(ABNORMAL, _advice(endpoint, error)) from error
    try:
        await asyncio.wait([connection.opened], timeout=timeout_s)
    except asyncio.CancelledError:
        connection.abort()
        raise
    if not connection.opened.done():
        connection.abort()
        raise ConnectionLostError(
            ABNORMAL,
            f"something listens on {endpoint.location}, but does not answer as a hub within {timeout_s:g} s; "
            f"is the port right? a hub's TCP port is reached with tcp://, its WebSocket port with ws://",
        )
    opened = connection.opened.result()
    if isinstance(opened, Ending):
        connection.abort()
        raise opened._replace(text=f"{endpoint.location}: {opened.text}").error()
    return connection, opened


async def _connect(endpoint: Endpoint, make: Callable[[], Connection]) -> Connection:
    loop = asyncio.get_running_loop()
    if endpoint.scheme is not Scheme.UNIX:
        _, connection = await loop.create_connection(make, endpoint.host, endpoint.port)
        return connection
    connection = make()
    if isinstance(connection, SharingConnection):
        await _connect_sharing(endpoint, connection, loop)
    else:
        await loop.create_unix_connection(lambda: connection, endpoint.path)
    return connection


async def _connect_sharing(endpoint: Endpoint, connection: SharingConnection, loop: asyncio.AbstractEventLoop) -> None:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, endpoint.path)
        transport = UnixTransport(loop, sock, connection)
    except BaseException:
        sock.close()
        raise
    connection.connection_made(transport)
    transport.start()


def _advice(endpoint: Endpoint, error: OSError) -> str:
    place = endpoint.location
    start = "is the hub running? start it with `hub run`"
    if isinstance(error, socket.gaierror):
        return f"{place}: the host name {endpoint.host!r} is not known ({error.strerror})"
    if error.errno == errno.ECONNREFUSED:
        return f"nothing listens on {place}: {start}"
    if error.errno == errno.ENOENT:
        return f"there is no socket {endpoint.path}: {start} --listen {place}"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"{place}: no permission to connect; the socket's owner and mode decide who may"
    return f"cannot connect to {place}: {error}; {start}"
