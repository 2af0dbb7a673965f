"""`Dialler`: keep a link to one peer hub, forever.

Connect, wait until the link is lost, wait for a while with jitter, and again. A restart of either side heals by
itself. What goes wrong is logged once per different reason, not once per attempt.

Owner of the state: its task, made by the daemon.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol, cast

from hub.errors import CloseCode
from hub.handler import Handler
from hub.overflow import QueueLimits
from peers.backoff import Backoff
from peers.endpoints import Endpoint, Scheme
from peers.node import Node
from peers.tcp.connection import Connection

__all__ = ["CONNECT_TIMEOUT_S", "Dialled", "Dialler"]

CONNECT_TIMEOUT_S = 5.0

_REFUSALS = (f"({int(CloseCode.THAT_IS_YOURSELF)})", f"({int(CloseCode.ALREADY_CONNECTED)})")


class Dialled(Protocol):
    """A connection as a dialler sees it; also what asyncio calls a protocol."""

    handler: Handler | None
    """Set once the far side is taken in."""
    reason: str
    """Why it is over, ending in the code in parentheses where there is one."""
    lost: asyncio.Future[None] | None
    """Set by the dialler; done when it is over."""

    def abort(self) -> None:
        """End it now."""

    def abandon(self) -> None:
        """The dialler has given up, perhaps in the moment in which the connection was made."""


class Dialler:
    """Keeps one link up.

    Args:
        node: Of the hub.
        endpoint: Where the peer is.
        queue: Queue of its handler.
        backoff: How long to wait between attempts.
    """

    __slots__ = ("_backoff", "_endpoint", "_last_reason", "_node", "_queue", "attempts")

    def __init__(self, node: Node, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None) -> None:
        self._node = node
        self._endpoint = endpoint
        self._queue = queue
        self._backoff = backoff or Backoff()
        self._last_reason = ""
        self.attempts = 0

    async def run(self) -> None:
        """Dial until cancelled."""
        while True:
            self.attempts += 1
            reason, was_linked = await self._attempt()
            if not was_linked:
                self._failed(reason)
            if reason != self._last_reason:
                self._node.log.warning("no link to peer", peer=self._endpoint.location, reason=reason)
                self._last_reason = reason
            if reason.endswith(_REFUSALS):
                self._backoff.hold()
            await asyncio.sleep(self._backoff.next_s())

    async def _attempt(self) -> tuple[str, bool]:
        """Connect once and stay until the link is lost; return why it is not up, and whether it was."""
        connection = self._make()
        lost = connection.lost = self._node.loop.create_future()  # before it is made: it may be lost at once
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._connect(connection)
        except TimeoutError:
            connection.abandon()
            return f"no connection within {CONNECT_TIMEOUT_S:g} s", False
        except OSError as error:
            return error.strerror or str(error), False
        except UnicodeError as error:  # a name that no resolver takes
            return str(error), False
        except asyncio.CancelledError:
            connection.abandon()
            raise
        try:
            await lost
        finally:
            if not self._node.draining:  # then the daemon lets it write out what is queued
                connection.abort()
        was_linked = connection.handler is not None
        if was_linked:
            self._backoff.reset()
            self._last_reason = ""
        return connection.reason, was_linked

    def _make(self) -> Dialled:
        """Make the connection of one attempt."""
        return Connection(self._node, self._queue, dialled=True, address=self._endpoint.location)

    def _tls(self) -> ssl.SSLContext | None:
        """The context for TLS, None without."""
        return None

    def _failed(self, reason: str) -> None:
        """An attempt has not led to a link; for those who tell somebody."""

    async def _connect(self, connection: Dialled) -> None:
        loop = self._node.loop
        endpoint = self._endpoint
        protocol = cast("asyncio.Protocol", connection)
        if endpoint.scheme is Scheme.UNIX:
            await loop.create_unix_connection(lambda: protocol, endpoint.path)
        else:
            await loop.create_connection(lambda: protocol, endpoint.host, endpoint.port, ssl=self._tls())
