"""Listening on TCP and Unix sockets.

Errors of the operating system become one `ListenError` that names the place and what to do.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hub.errors import UsageError
from peers.transport.acceptor import Acceptor
from peers.transport.endpoints import Endpoint, Scheme

BACKLOG = 1024
"""Connections that may wait to be accepted; a thousand clients that reconnect at once are no error."""

UNIX_MODE = 0o600
"""Default permissions of a Unix socket: whoever may write to it may connect, which is its owner."""


class ListenError(UsageError):
    """An address cannot be listened on."""


class Listener:
    """All sockets of one endpoint: a name may stand for several addresses."""

    def __init__(self, acceptors: list[Acceptor]) -> None:
        self._acceptors = acceptors

    def close(self) -> None:
        """Accept nobody any more. Connections that are there stay."""
        for acceptor in self._acceptors:
            acceptor.close()


async def bind(  # noqa: PLR0913 -- three of them have defaults that most callers take
    endpoint: Endpoint,
    make: Callable[[], asyncio.BaseProtocol],
    loop: asyncio.AbstractEventLoop,
    on_shed: Callable[[], None] = lambda: None,
    unix_mode: int = UNIX_MODE,
    *,
    shares_port: bool = False,
) -> tuple[Listener, Endpoint]:
    """Listen on `endpoint`.

    Args:
        endpoint: Where; port 0 picks one.
        make: Called for each connection, returns its protocol.
        loop: The loop to run on.
        on_shed: Called for each connection that is closed because no descriptor is left.
        unix_mode: Permissions of a Unix socket.
        shares_port: Whether other processes of this account may listen on the same port (SO_REUSEPORT): the kernel
            spreads connections over all that do.

    Returns:
        The listener, and the endpoint with the port that was picked.

    Raises:
        ListenError: In use, not permitted, no such address.
    """
    sockets: list[socket.socket] = []
    try:
        if endpoint.scheme is Scheme.UNIX:
            _make_way(endpoint)
            sockets.append(_listen_on_path(endpoint.path, unix_mode))
        else:
            for family, address in await _addresses(endpoint, loop):
                one = _bound(family, address, endpoint.port or _port_of(sockets), shares_port=shares_port)
                sockets.append(one)
                one.listen(BACKLOG)
        acceptors = [Acceptor(one, make, loop, on_shed=on_shed) for one in sockets]
    except (OSError, UnicodeError) as error:  # a name that no resolver takes is a UnicodeError
        for one in sockets:
            one.close()
        raise ListenError(f"cannot listen on {endpoint.location}: {_cause(endpoint, error)}") from error
    port = 0 if endpoint.scheme is Scheme.UNIX else _port_of(sockets)
    return Listener(acceptors), endpoint.with_port(port)


class Reserved:
    """The port of an endpoint, kept for processes of this account that share it; nobody is accepted here."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets

    def close(self) -> None:
        """Let go of the port."""
        for one in self._sockets:
            one.close()


async def reserve(endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> tuple[Reserved, Endpoint]:
    """Keep the port of `endpoint` for several processes, so that it stays theirs while none of them listens.

    Args:
        endpoint: Where, on TCP; port 0 picks a port.
        loop: Looks names up.

    Returns:
        What keeps the port, and the endpoint with the port that was picked.

    Raises:
        ListenError: In use, also by processes that share it among themselves; not permitted; no such address.
    """
    sockets: list[socket.socket] = []
    try:
        for family, address in await _addresses(endpoint, loop):
            if endpoint.port:  # whoever shares a port is let in by the kernel: so look first whether anybody is there
                _bound(family, address, endpoint.port).close()
            sockets.append(_bound(family, address, endpoint.port or _port_of(sockets), shares_port=True))
    except (OSError, UnicodeError) as error:
        for one in sockets:
            one.close()
        raise ListenError(f"cannot listen on {endpoint.location}: {_cause(endpoint, error)}") from error
    return Reserved(sockets), endpoint.with_port(_port_of(sockets))


async def _addresses(endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> list[tuple[int, Any]]:
    """Return family and address of each address that a name stands for."""
    found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, address) for family, _, _, _, address in dict.fromkeys(found)]


def _port_of(sockets: list[socket.socket]) -> int:
    """Return the port of those that listen already, 0 if none does."""
    port: int = sockets[0].getsockname()[1] if sockets else 0
    return port


def _bound(family: int, address: Any, port: int, *, shares_port: bool = False) -> socket.socket:
    """Return a socket that has its address, and does not listen yet."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares_port:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:  # else it would take the port of IPv4 as well, which may have its own listener
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address[0], port, *address[2:]))
    except BaseException:
        bound.close()
        raise
    return bound


def _listen_on_path(path: str, mode: int) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    try:
        os.fchmod(listening.fileno(), mode)  # before it has a name: nobody finds it with other permissions
        listening.bind(path)
        os.chmod(path, mode)  # noqa: PTH101 -- what the process's mask has taken away
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _make_way(endpoint: Endpoint) -> None:
    """Remove a socket that a dead process has left; never one that answers, never a file."""
    path = Path(endpoint.path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"cannot listen on {endpoint.location}: there is a file that is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(endpoint.path)
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ListenError(f"cannot listen on {endpoint.location}: another process listens there")


def _cause(endpoint: Endpoint, error: OSError | UnicodeError) -> str:
    if endpoint.scheme is Scheme.UNIX and isinstance(error, FileNotFoundError):
        return f"there is no folder {Path(endpoint.path).parent}; make it first, writable for the hub"
    text = (error.strerror if isinstance(error, OSError) else "") or str(error)
    if "in use" in text or "in use" in str(error):
        text = f"port {endpoint.port} is in use by another process; choose another one, or 0 to pick a free one"
    if isinstance(error, PermissionError):
        if endpoint.scheme is Scheme.UNIX:
            return f"this account may not write in {Path(endpoint.path).parent}; choose a folder that it may write in"
        return (
            f"this account may not use port {endpoint.port}; choose one above 1023, or give the hub the capability "
            "CAP_NET_BIND_SERVICE"
        )
    return text
