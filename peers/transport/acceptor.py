"""`Acceptor`: a listening socket whose connections are accepted a few at a time.

asyncio accepts all waiting connections in one turn, which may be a thousand. Without a free descriptor it logs a
traceback for each one and leaves it in the queue; uvloop leaves it, too. The acceptor keeps a spare descriptor, with
which it accepts and closes such connections, so that clients get an answer.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

ACCEPTS_PER_TURN = 16
"""Most connections of one listener in one turn: less than a millisecond."""

_PAUSE_S = 0.1
"""Pause after a connection could neither be accepted nor closed, seconds."""

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_GONE_ALREADY = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM})
"""Errors of `accept` that concern one connection only."""


class Acceptor:
    """One listening socket.

    Args:
        listening: A bound and listening socket, owned by the acceptor from now on.
        make: Returns the protocol of a new connection.
        on_shed: Called for each connection that was closed for want of a descriptor.
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
        """The spare descriptor; -1 while it is in use."""
        self._opening: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        self._closed = False
        loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Stop accepting. Connections stay, also those accepted in this moment.

        uvloop would close the socket of such a connection without a word to its protocol.
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
        """Accept and close one connection; return whether that was possible."""
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
        """Stop accepting for a moment, instead of being woken again and again."""
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
