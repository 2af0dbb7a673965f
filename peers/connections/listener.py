"""Listening on TCP and Unix sockets, and accepting connections a few at a time.

```
readable ─▶ accept, at most ACCEPTS_PER_TURN ─▶ transport and protocol
        └─ no descriptor is left ─▶ the spare one is given up, a waiting connection is accepted and closed
```

asyncio accepts all connections that wait, which may be a thousand in one turn; when no descriptor is left, it logs a
traceback for each and leaves them in the queue. Errors of the operating system become one `ListenError`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hub.errors import UsageError
from peers.transport.endpoints import Endpoint, Scheme

BACKLOG = 1024  # connections that may wait to be accepted; a thousand clients that reconnect at once are no error
UNIX_MODE = 0o600  # default permissions of a Unix socket: only its owner may connect


class ListenError(UsageError):
    """An address cannot be listened on."""


class Listener:
    """All sockets of one endpoint: a name may stand for several addresses."""

    def __init__(self, sockets: Sequence[Acceptor | socket.socket]) -> None:
        self._sockets = sockets

    def close(self) -> None:
        """Accept no connections any more. Those that there are stay."""
        for one in self._sockets:
            one.close()


async def bind(  # noqa: PLR0913 -- three of them have defaults that most callers take
    endpoint: Endpoint,
    make: Callable[[], asyncio.BaseProtocol],
    loop: asyncio.AbstractEventLoop,
    on_shed: Callable[[], None] = lambda: None,
    unix_mode: int = UNIX_MODE,
    *,
    shares_port: bool = False,
) -> tuple[Listener, Endpoint]:
    """Listen on `endpoint`; port 0 picks one. Return the listener, and the endpoint with its port.

    Args:
        endpoint: The address.
        make: Called for each connection, returns its protocol.
        loop: The loop to run on.
        on_shed: Called for each connection that is closed because no descriptor is left.
        unix_mode: Permissions of a Unix socket.
        shares_port: Whether other processes of this account may listen on the same port (SO_REUSEPORT): the kernel
            spreads connections over all of them.

    Raises:
        ListenError: In use, not permitted, no such address.
    """
    sockets: list[socket.socket] = []
    with _errors(endpoint, sockets):
        if endpoint.scheme is Scheme.UNIX:
            _make_way(endpoint)
            sockets.append(_listen_on_path(endpoint.path, unix_mode))
        else:
            for family, address in await _addresses(endpoint, loop):
                one = _bound(family, address, endpoint.port or _port_of(sockets), shares_port=shares_port)
                sockets.append(one)
                one.listen(BACKLOG)
        acceptors = [Acceptor(one, make, loop, on_shed=on_shed) for one in sockets]
    port = 0 if endpoint.scheme is Scheme.UNIX else _port_of(sockets)
    return Listener(acceptors), endpoint.with_port(port)


async def reserve(endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> tuple[Listener, Endpoint]:
    """Keep the port of a TCP endpoint for several processes, so that it stays theirs while none of them listens.

    Raises:
        ListenError: In use, also by processes that share it among themselves; not permitted; no such address.
    """
    sockets: list[socket.socket] = []
    with _errors(endpoint, sockets):
        for family, address in await _addresses(endpoint, loop):
            if endpoint.port:  # the kernel admits all that share a port: so check first whether it is in use
                _bound(family, address, endpoint.port).close()
            sockets.append(_bound(family, address, endpoint.port or _port_of(sockets), shares_port=True))
    return Listener(sockets), endpoint.with_port(_port_of(sockets))


@contextmanager
def _errors(endpoint: Endpoint, sockets: list[socket.socket]) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeError) as error:  # a name that no resolver takes is a UnicodeError
        for one in sockets:
            one.close()
        raise ListenError(f"cannot listen on {endpoint.location}: {_cause(endpoint, error)}") from error


async def _addresses(endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> list[tuple[int, Any]]:
    found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, address) for family, _, _, _, address in dict.fromkeys(found)]


def _port_of(sockets: list[socket.socket]) -> int:
    port: int = sockets[0].getsockname()[1] if sockets else 0
    return port


def _bound(family: int, address: Any, port: int, *, shares_port: bool = False) -> socket.socket:
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
        os.fchmod(listening.fileno(), mode)  # before it has a name, so that it never has other permissions
        listening.bind(path)
        os.chmod(path, mode)  # noqa: PTH101 -- what the process's mask has taken away
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _make_way(endpoint: Endpoint) -> None:
    """Remove the socket of a dead process; never one that answers, never a file."""
    path = Path(endpoint.path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"cannot listen on {endpoint.location}: there is a file that is not a socket")
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


ACCEPTS_PER_TURN = 16  # most connections of one listener in one turn: less than a millisecond
_PAUSE_S = 0.1  # pause after a connection could neither be accepted nor closed, seconds

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_GONE_ALREADY = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM})  # they concern one connection


class Acceptor:
    """One listening socket, which it closes in the end; see `bind`."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        loop: asyncio.AbstractEventLoop,
        *,
        on_shed: Callable[[], None] = lambda: None,
    ) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._make = make
        self._loop = loop
        self._on_shed = on_shed
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        """A descriptor that `_shed` gives up in order to accept and close a connection; -1 until it is opened again."""
        self._opening: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        self._closed = False
        loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Accept no connections any more.

        Those that were accepted in this moment stay: uvloop would close their sockets without `connection_lost`.
        """
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._listening)
        self._listening.close()
        if self._resuming is not None:
            self._resuming.cancel()
        if self._spare >= 0:
            os.close(self._spare)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _GONE_ALREADY:
                    continue
                if error.errno not in _NO_DESCRIPTORS or not self._shed():
                    self._pause()
                    return
            else:
                self._take_in(connection)

    def _take_in(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:  # asyncio does so only for sockets that name their protocol
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._open(connection), name="accept")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except (asyncio.CancelledError, OSError):  # the loop ends, or the far side is gone already
            connection.close()

    def _shed(self) -> bool:
        if self._spare < 0:
            return False
        os.close(self._spare)
        self._spare = -1
        try:
            connection, _ = self._listening.accept()
            connection.close()
            self._on_shed()
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # another thread has taken the descriptor
            return False
        return True

    def _pause(self) -> None:
        """Accept nothing for a moment, instead of being woken again and again."""
        self._loop.remove_reader(self._listening)
        self._resuming = self._loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._resuming = None
        if self._spare < 0:
            try:
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._resuming = self._loop.call_later(_PAUSE_S, self._resume)
                return
        self._loop.add_reader(self._listening, self._accept)
