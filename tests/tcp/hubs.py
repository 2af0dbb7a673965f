"""Hubs in the test's own loop: a node that listens, with a clock that the test may put forward."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.settings import Limits, Settings
from peers.connections.connection import Connection
from peers.connections.dialler import Dialler, hub_dialler
from peers.connections.listener import Listener, bind
from peers.connections.tcp import tcp_connection
from peers.connections.unix import unix_connection
from peers.node.node import Node
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint, Scheme
from tests.tcp.raw_client import RawClient

LOOPBACK = "tcp://127.0.0.1:0"


class ShiftedLoop:
    """The running loop, whose clock can be put forward."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ahead_s = 0.0

    def time(self) -> float:
        """The loop's clock, and what it was put forward."""
        return self._loop.time() + self.ahead_s

    def call_at(self, when_s: float, act: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        """As the loop's, by this clock."""
        return self._loop.call_at(when_s - self.ahead_s, act, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def settings_of(*, queue: QueueLimits | None = None, **limits: Any) -> Settings:
    """Default settings with other limits and another queue."""
    return Settings(limits=msgspec.structs.replace(Limits(), **limits), queue=queue or QueueLimits())


class Hub:
    """One hub with one listener."""

    def __init__(self, settings: Settings, name: str, hub_id: bytes) -> None:
        self.node = Node(settings, name=name, hub_id=hub_id)
        self.clock = ShiftedLoop()
        self.node.loop = self.clock  # type: ignore[assignment]
        self.connections: list[Connection] = []
        self.endpoint: Endpoint
        self._server: Listener
        self._clients: list[RawClient] = []
        self._diallers: list[asyncio.Task[None]] = []

    async def listen(self, url: str = LOOPBACK) -> None:
        """Open the listener."""
        self.endpoint = Endpoint.parse(url)
        self._server, self.endpoint = await bind(self.endpoint, self._make, asyncio.get_running_loop())

    def _make(self) -> Connection:
        make = unix_connection if self.endpoint.scheme is Scheme.UNIX else tcp_connection
        connection = make(self.node, self.endpoint.queue.applied_to(self.node.settings.queue))
        connection.lost = asyncio.get_running_loop().create_future()
        self.connections.append(connection)
        return connection

    def dial(self, other: Hub, *, backoff: Backoff | None = None) -> Dialler:
        """Link to another hub, again and again."""
        dialler = hub_dialler(
            self.node, other.endpoint, self.node.settings.queue, backoff or Backoff(base_s=0.001, cap_s=0.005)
        )
        self._diallers.append(asyncio.ensure_future(dialler.run()))
        return dialler

    async def raw(self, *, receive_bytes: int | None = None) -> RawClient:
        """A client that has connected and said nothing."""
        client = await RawClient.connect(self.endpoint, receive_bytes=receive_bytes)
        self._clients.append(client)
        return client

    async def client(self, *prefixes: str, receive_bytes: int | None = None, **hello: Any) -> RawClient:
        """A client that has said HELLO and subscribed."""
        client = await self.raw(receive_bytes=receive_bytes)
        await client.greet(**hello)
        if prefixes:
            await client.subscribe(*prefixes)
        return client

    def handler(self, name: str) -> Handler:
        """The handler of the client, or the link, with that name."""
        (found,) = [handler for handler in self.node.core.handlers.values() if handler.name == name]
        return found

    def later(self, seconds: float) -> None:
        """Put the clock forward, and do what is due then."""
        self.clock.ahead_s += seconds
        self.node.keepalive.tick(self.clock.time())
        self.node.expire()

    async def stop_dialling(self) -> None:
        """Hang up on other hubs, for good."""
        for task in self._diallers:
            task.cancel()
        await asyncio.gather(*self._diallers, return_exceptions=True)

    async def stop_listening(self) -> None:
        """Close the listener; connections stay."""
        self._server.close()

    async def stop(self) -> None:
        """End everything at once, without a word, as a crash does."""
        await self.stop_dialling()
        self._server.close()
        for connection in self.connections:  # those that were accepted just now come in meanwhile
            await wait_until(lambda connection=connection: connection.address != "")  # type: ignore[misc]
            connection.abort()
            assert connection.lost is not None
            await connection.lost
        for client in self._clients:
            client.close()
        await self.node.wait_released()


async def settle() -> None:
    """Let the loop go round often enough for sockets of this process to bring what they hold."""
    for _ in range(20):
        await asyncio.sleep(0)


async def wait_until(condition: Callable[[], bool]) -> None:
    """Let the loop go round until something has happened; the test's own time limit is the only one."""
    while not condition():  # noqa: ASYNC110 -- what is waited for has no event
        await asyncio.sleep(0)
