"""Hubs in the test's own loop that listen for WebSockets, with a clock that the test may put forward."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.settings import Limits, Settings, WebSocketSettings
from peers.connections.connection import Connection
from peers.connections.listener import Listener, bind
from peers.connections.websocket import websocket_connection
from peers.journal.journal import Journal
from peers.node.node import Node
from peers.transport.endpoints import Endpoint
from tests.websocket.raw_client import RawClient


class ShiftedLoop:
    """The running loop, whose clock can be put forward."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ahead_s = 0.0

    def time(self) -> float:
        """The loop's clock, and what it was put forward."""
        return self._loop.time() + self.ahead_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def settings_of(
    *, queue: QueueLimits | None = None, origins: tuple[str, ...] = (), hosts: tuple[str, ...] = (), **limits: Any
) -> Settings:
    """Default settings with other limits, another queue, and listed origins and hosts."""
    return Settings(
        limits=msgspec.structs.replace(Limits(), **limits),
        queue=queue or QueueLimits(),
        websocket=WebSocketSettings(origins=origins, hosts=hosts),
    )


class Hub:
    """One hub with one listener."""

    def __init__(self, settings: Settings, *, loopback: bool) -> None:
        self.node = Node(settings, name="test hub")
        self.node.ready = True
        self.clock = ShiftedLoop()
        self.node.loop = self.clock  # type: ignore[assignment]
        self.connections: list[Connection] = []
        self.journal: Journal | None = None
        if settings.journal.path:
            self.node.journal = self.journal = Journal(self.node.core, settings.journal, settings.limits)
        self.endpoint: Endpoint
        self._loopback = loopback
        self._server: Listener
        self._clients: list[RawClient] = []

    async def listen(self) -> None:
        """Open the listener."""
        make: Any = self._make
        loop = asyncio.get_running_loop()
        self._server, self.endpoint = await bind(Endpoint.parse("ws://127.0.0.1:0"), make, loop)

    def _make(self) -> Connection:
        connection = websocket_connection(self.node, self.node.settings.queue, loopback=self._loopback)
        self.connections.append(connection)
        return connection

    @property
    def url(self) -> str:
        """Where WebSocket clients connect."""
        return f"{self.endpoint.location}/v1/hub"

    async def raw(self, *, receive_bytes: int | None = None) -> RawClient:
        """A client that has connected and said nothing."""
        client = await RawClient.connect(self.endpoint, receive_bytes=receive_bytes)
        self._clients.append(client)
        return client

    async def client(
        self, *prefixes: str, subprotocol: str = "hub.v1.json", receive_bytes: int | None = None, **hello: Any
    ) -> RawClient:
        """A client that has shaken hands, said hello if there is anything to say in it, and subscribed."""
        client = await self.raw(receive_bytes=receive_bytes)
        await client.shake_hands(subprotocol)
        assert (await client.message())["type"] == "welcome"
        if hello:
            await client.say("hello", **hello)
            assert (await client.message())["type"] == "welcome"
        if prefixes:
            await client.say("subscribe", prefixes=list(prefixes), request=1)
            confirmed = await client.message()
            assert (confirmed["type"], confirmed["request"]) == ("confirmed", 1)
        return client

    def shrink_buffers(self) -> None:
        """Let the kernel hold next to nothing for the clients that are connected now, so that they stall at once."""
        for connection in self.node.connections:
            sock = connection._transport.get_extra_info("socket")  # type: ignore[attr-defined]
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, 4096)

    def handler(self, name: str) -> Handler:
        """The handler of the client with that name."""
        (found,) = [handler for handler in self.node.core.handlers.values() if handler.name == name]
        return found

    def later(self, seconds: float) -> None:
        """Put the clock forward, and do what is due then."""
        self.clock.ahead_s += seconds
        self.node.keepalive.tick(self.clock.time())

    async def stop(self) -> None:
        """End everything at once, without a word, as a crash does."""
        self._server.close()
        for client in self._clients:
            client.close()
        for connection in self.connections:
            connection.abort()
        await self.node.wait_released()
        await until(lambda: not len(self.node.keepalive))  # those that were refused, too
        if self.journal is not None:
            await self.journal.stop()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something is the case; the time limit of the test ends it if it never is."""
    while not condition():  # noqa: ASYNC110 -- what is waited for knows of no event
        await asyncio.sleep(0)
