"""A hub in the test's own loop, wired as the daemon wires it, with a clock that the test may put forward."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from hub.handlers.handler import Handler
from hub.mesh.announcement import Interest
from hub.settings.settings import Settings
from peers.connections.connection import Connection
from peers.connections.dialler import Dialler, HubDialler
from peers.connections.listener import Listener, bind
from peers.connections.tcp import tcp_connection
from peers.connections.unix import unix_connection
from peers.connections.websocket import websocket_connection
from peers.journal.journal import Journal
from peers.server.server import Server
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.timing import Backoff
from peers.transport.tls_transport import TlsTransport
from tests.hubs.clock import ShiftedLoop
from tests.hubs.eventually import eventually
from tests.hubs.mesh_peer import PEER_ID, MeshPeer
from tests.hubs.raw_client import RawClient, SecuredClient
from tests.hubs.raw_socket import RawSocket
from tests.hubs.raw_websocket import RawWebSocket

__all__ = ["LOOPBACK", "Hub"]
LOOPBACK = "tcp://127.0.0.1:0"
AnyClient = TypeVar("AnyClient", bound=RawSocket)


class Hub:
    """One hub, with a listener for each `listen`; with a journal, if its settings name one."""

    def __init__(self, settings: Settings, name: str = "hub", hub_id: bytes = b"", *, loopback: bool = True) -> None:
        self.server = Server(settings, name=name, hub_id=hub_id)
        self.server.ready = True
        self.clock = ShiftedLoop()
        self.server.loop = self.clock  # type: ignore[assignment]
        self.connections: list[Connection] = []
        self.endpoints: list[Endpoint] = []
        self.journal: Journal | None = None
        if settings.journal.path:
            self.server.journal = self.journal = Journal(self.server.core, settings.journal, settings.limits)
        self.server.stores.open(settings.stores)
        self._loopback = loopback
        self._listeners: list[Listener] = []
        self._clients: list[RawSocket] = []
        self._diallers: list[asyncio.Task[None]] = []

    # Listening.

    async def listen(self, url: str | Endpoint = LOOPBACK) -> Endpoint:
        wanted = url if isinstance(url, Endpoint) else Endpoint.parse(url)
        listener, endpoint = await bind(wanted, self._maker(wanted), asyncio.get_running_loop())
        self._listeners.append(listener)
        self.endpoints.append(endpoint)
        return endpoint

    async def listen_secured(self, context: ssl.SSLContext) -> Endpoint:
        plain = Endpoint.parse(LOOPBACK)
        failures: list[tuple[str, str]] = []

        def make() -> asyncio.BaseProtocol:
            return TlsTransport(context, self._maker(plain), self.server.handshakes, lambda *of: failures.append(of))

        listener, endpoint = await bind(plain, make, asyncio.get_running_loop())
        self._listeners.append(listener)
        return endpoint

    async def secured_client(
        self, endpoint: Endpoint, *prefixes: str, receive_bytes: int, **hello: Any
    ) -> SecuredClient:
        client = await self._dialled_in(SecuredClient, endpoint, receive_bytes)
        await client.greet(**hello)
        await client.subscribe(*prefixes)
        return client

    def _maker(self, endpoint: Endpoint) -> Callable[[], Connection]:
        def make() -> Connection:
            queue = endpoint.queue.applied_to(self.server.settings.queue)
            if endpoint.scheme is Scheme.WS:
                connection = websocket_connection(self.server, queue, loopback=self._loopback)
            else:
                make = unix_connection if endpoint.scheme is Scheme.UNIX else tcp_connection
                connection = make(self.server, queue, cost=endpoint.cost)
            return self._kept(connection)

        return make

    def _kept(self, connection: Connection) -> Connection:
        connection.lost = asyncio.get_running_loop().create_future()
        self.connections.append(connection)
        return connection

    @property
    def endpoint(self) -> Endpoint:
        return self.endpoints[0]

    @property
    def url(self) -> str:
        return self.endpoint.location

    # Raw clients, which are closed with the hub.

    async def raw(self, endpoint: Endpoint | None = None, *, receive_bytes: int | None = None) -> RawClient:
        return await self._dialled_in(RawClient, endpoint, receive_bytes)

    async def client(
        self, *prefixes: str, endpoint: Endpoint | None = None, receive_bytes: int | None = None, **hello: Any
    ) -> RawClient:
        client = await self.raw(endpoint, receive_bytes=receive_bytes)
        await client.greet(**hello)
        if prefixes:
            await client.subscribe(*prefixes)
        return client

    async def peer(
        self,
        *interests: Interest,
        endpoint: Endpoint | None = None,
        receive_bytes: int | None = None,
        **hello: Any,
    ) -> MeshPeer:
        peer = await self._dialled_in(MeshPeer, endpoint, receive_bytes)
        await peer.link(*interests, **hello)
        hub_id = hello.get("id", PEER_ID)
        await eventually(
            lambda: hub_id in self.server.core.mesh.graph.reached and not self.server.core.scheduler.is_busy
        )
        return peer

    async def raw_websocket(
        self, endpoint: Endpoint | None = None, *, receive_bytes: int | None = None
    ) -> RawWebSocket:
        return await self._dialled_in(RawWebSocket, endpoint, receive_bytes)

    async def websocket(
        self, *prefixes: str, subprotocol: str = "hub.v1.json", receive_bytes: int | None = None, **hello: Any
    ) -> RawWebSocket:
        client = await self.raw_websocket(receive_bytes=receive_bytes)
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

    async def _dialled_in(
        self, kind: type[AnyClient], endpoint: Endpoint | None, receive_bytes: int | None
    ) -> AnyClient:
        client = await kind.connect(endpoint or self.endpoint, receive_bytes=receive_bytes)
        self._clients.append(client)
        return client

    # Other hubs.

    def dial(self, other: Hub, *, backoff: Backoff | None = None, cost: int | None = None) -> Dialler:
        endpoint = replace(other.endpoint, cost=cost)
        return self._dialling(
            HubDialler(self.server, endpoint, self.server.settings.queue, backoff or Backoff(base_s=0.001, cap_s=0.005))
        )

    def _dialling(self, dialler: Dialler) -> Dialler:
        self._diallers.append(asyncio.ensure_future(dialler.run()))
        return dialler

    async def stop_dialling(self) -> None:
        for task in self._diallers:
            task.cancel()
        await asyncio.gather(*self._diallers, return_exceptions=True)

    # What a test looks at, and does.

    def handler(self, name: str) -> Handler:
        (found,) = [handler for handler in self.server.core.handlers.values() if handler.name == name]
        return found

    def prefixes(self, name: str) -> dict[str, int]:
        handlers = self.server.core.handlers.values()
        return {
            prefix: count for handler in handlers if handler.name == name for prefix, count in handler.prefixes.items()
        }

    def wanted_by(self, other: Hub) -> set[str]:
        return set(self.server.core.remote_hubs.wanted_by(other.server.id))

    def later(self, seconds: float) -> None:
        self.clock.ahead_s += seconds
        self.server.keepalive.tick(self.clock.time())
        self.server.expire()

    def shrink_buffers(self) -> None:
        for connection in self.server.connections:
            sock = connection.transport.get_extra_info("socket")  # type: ignore[attr-defined]
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, 4096)

    # Ending.

    async def stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()

    async def crash(self) -> None:
        aborted = set(self.server.connections)
        for connection in aborted:
            connection.abort()
        # Not until there is none: whoever comes back at once is connected again.
        await eventually(lambda: aborted.isdisjoint(self.server.connections))

    async def drain(self) -> None:
        await self.stop_listening()
        self.server.draining = True
        for connection in list(self.server.connections):
            connection.drain()
        await self.server.wait_released()

    async def stop(self) -> None:
        await self.stop_dialling()
        await self.stop_listening()
        for connection in self.connections:  # those that were accepted just now come in meanwhile
            await eventually(lambda connection=connection: connection.address != "")  # type: ignore[misc]
            assert connection.lost is not None
            if not connection.lost.done():  # asyncio's transports may raise, once they have told that they are lost
                connection.abort()
            await connection.lost
        for client in self._clients:
            client.close()
        await self.crash()
        await self.server.stores.stop()
        if self.journal is not None:
            await self.journal.stop()
