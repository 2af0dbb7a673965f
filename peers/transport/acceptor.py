"""`Acceptor`: a listening socket whose connections are accepted a few at a time.

```
readable ─▶ accept, at most ACCEPTS_PER_TURN ─▶ transport and protocol
        └─ no descriptor is left ─▶ the spare one is given up, and whoever waits is accepted and closed at once
```

asyncio itself accepts all connections that wait, which may be a thousand in one turn. When no descriptor is left, it
logs a traceback for each connection and leaves them in the queue, so that those who dialled learn nothing. uvloop does
the same without the tracebacks.

Owner: the event loop. Invariant: a descriptor is kept, so that whoever cannot be served is told so by the end of its
connection. Not here: TLS, which is a matter of the protocol that is made (`peers.transport.tls_transport`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

__all__ = ["ACCEPTS_PER_TURN", "Acceptor"]

ACCEPTS_PER_TURN = 16
"""Most connections that one listener accepts in one turn: less than a millisecond of work."""

_PAUSE_S = 0.1
"""How long nobody is accepted after a connection could neither be accepted nor closed, seconds."""

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_GONE_ALREADY = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM})
"""Errors of `accept` that concern one connection only; the next one can be accepted at once."""


class Acceptor:
    """One listening socket.

    Args:
        listening: A socket that is bound and listens; the acceptor owns it from now on, and closes it.
        make: Called for each connection; returns its protocol.
        loop: The loop to run on.
        on_shed: Called for each connection that was closed because no descriptor was left.
    """

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
        """The spare descriptor. `_shed` gives it up in order to accept and close a connection; it is -1 from then until
        it can be opened again."""
        self._opening: set[asyncio.Task[None]] = set()
        """One task for each connection that was accepted and has no protocol yet; the end of a task removes it."""
        self._resuming: asyncio.TimerHandle | None = None
        """The timer that ends a pause; set by `_pause`, None while connections are accepted."""
        self._closed = False
        """Becomes True with `close`, and stays so."""
        loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Accept nobody any more. Connections that are there stay, and those that were accepted in this moment.

        uvloop would close the socket of one of these without telling its protocol, which was told of it already.
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
        """Accept and close one connection that waits; return whether that was possible."""
        if self._spare < 0:
            return False
        os.close(self._spare)
        self._spare = -1
        try:
            connection, _ = self._listening.accept()
            connection.close()
            self._on_shed()
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # somebody else has taken the descriptor
            return False
        return True

    def _pause(self) -> None:
        """Accept nobody for a moment, instead of being woken again and again for nothing."""
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
