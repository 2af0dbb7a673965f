"""Hubs in the test's own loop, reached over any transport, and what a client told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from hub.errors import PeerError
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.settings import Limits, Settings
from peers.client import BadMessage, Client, Hello, connect
from peers.client.connecting import Connecting
from peers.connections.connection import Connection
from peers.connections.listener import Listener, bind
from peers.connections.tcp import tcp_connection
from peers.connections.unix import unix_connection
from peers.connections.websocket import websocket_connection
from peers.journal.journal import Journal
from peers.node.node import Node
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint, Scheme

PAYLOAD = b"x" * 1000


def quick_backoff() -> Backoff:
    """A backoff for tests: hubs of a test come back at once."""
    return Backoff(base_s=0.001, cap_s=0.01)


def settings_of(*, queue: QueueLimits | None = None, **limits: Any) -> Settings:
    """Default settings with other limits and another queue."""
    return Settings(limits=msgspec.structs.replace(Limits(), **limits), queue=queue or QueueLimits())


class Hub:
    """One hub with one listener."""

    def __init__(self, settings: Settings) -> None:
        self.node = Node(settings, name="test hub")
        self.endpoint: Endpoint
        self.open: list[asyncio.Protocol | asyncio.BufferedProtocol] = []
        self._server: Listener
        self._journal: Journal | None = None
        if settings.journal.path:
            self.node.journal = self._journal = Journal(self.node.core, settings.journal, settings.limits)

    async def listen(self, endpoint: Endpoint) -> None:
        """Open the listener."""
        make: Any = self._make_websocket if endpoint.scheme is Scheme.WS else self._make
        self.endpoint = endpoint
        self._server, self.endpoint = await bind(endpoint, make, asyncio.get_running_loop())

    def _make(self) -> Connection:
        make = unix_connection if self.endpoint.scheme is Scheme.UNIX else tcp_connection
        return make(self.node, self.node.settings.queue)

    def _make_websocket(self) -> Connection:
        return websocket_connection(self.node, self.node.settings.queue, loopback=True)

    @property
    def url(self) -> str:
        """Where clients find it."""
        return self.endpoint.location

    def handler(self, name: str) -> Handler:
        """The handler of the client with that name."""
        (found,) = [handler for handler in self.node.core.handlers.values() if handler.name == name]
        return found

    def prefixes(self, name: str) -> dict[str, int]:
        """What the client with that name has subscribed to, and how often; nothing while it is not connected."""
        handlers = self.node.core.handlers.values()
        return {
            prefix: count for handler in handlers if handler.name == name for prefix, count in handler.prefixes.items()
        }

    async def crash(self) -> None:
        """Lose all connections without a word, and go on listening."""
        for connection in list(self.node.connections):
            connection.abort()
        await self.node.wait_released()

    async def stop(self) -> None:
        """End everything without a word, as a crash does."""
        self._server.close()
        await self.crash()
        if self._journal is not None:
            await self._journal.stop()

    async def drain(self) -> None:
        """Stop as on SIGTERM."""
        self._server.close()
        self.node.draining = True
        for connection in list(self.node.connections):
            connection.drain()
        await self.node.wait_released()


class Told:
    """What a client has told through its functions, to be waited for."""

    def __init__(self) -> None:
        self.connected: asyncio.Queue[Hello] = asyncio.Queue()
        self.disconnected: asyncio.Queue[str] = asyncio.Queue()
        self.dropped: asyncio.Queue[int] = asyncio.Queue()
        self.rejected: asyncio.Queue[PeerError] = asyncio.Queue()
        self.bad: asyncio.Queue[BadMessage] = asyncio.Queue()

    def connect(self, url: str, **options: Any) -> Connecting:
        """Connect a client that tells here."""
        defaults = {
            "backoff": quick_backoff(),
            "on_connect": self.connected.put_nowait,
            "on_disconnect": self.disconnected.put_nowait,
            "on_dropped": self.dropped.put_nowait,
            "on_rejected": self.rejected.put_nowait,
            "on_bad_message": self.bad.put_nowait,
        }
        return connect(url, **(defaults | options))  # type: ignore[arg-type]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something is the case; the time limit of the test ends it if it never is."""
    while not condition():  # noqa: ASYNC110 -- of anything, also of what tells nobody when it changes
        await asyncio.sleep(0)


async def flood(client: Client, topic: str, numbers: range) -> None:
    """Publish numbered messages of a kilobyte and wait until the hub has read them."""
    for number in numbers:
        await client.publish(topic, [number, PAYLOAD])
    await client.drain()
