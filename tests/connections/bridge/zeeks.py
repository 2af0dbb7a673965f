"""A pretend Zeek: the websockets library's server, which does what the test tells it; and bridges to it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from hub.limits import QueueLimits
from peers.connections.dialler import Dialler
from peers.connections.zeek_diallers import BridgeDialler
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.timing import Backoff
from peers.websocket.zeek_codec import PATH
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub
from tests.websocket.zeek.messages import ACK


class Zeek:
    def __init__(self) -> None:
        self.connections: asyncio.Queue[ServerConnection] = asyncio.Queue()
        self.port = 0
        self._all: list[ServerConnection] = []
        self._server: Server

    async def start(self) -> None:
        self._server = await serve(
            self._take, "127.0.0.1", self.port, process_request=self._answer, compression=None, ping_interval=None
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def crash(self) -> None:
        for connection in self._all:
            connection.transport.abort()
        await self.stop()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint.parse(f"ws://127.0.0.1:{self.port}")

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path != PATH:
            return connection.respond(HTTPStatus.BAD_REQUEST, f"invalid path; try {PATH}\n")
        return None

    async def _take(self, connection: ServerConnection) -> None:
        self._all.append(connection)
        await self.connections.put(connection)
        await connection.wait_closed()

    async def greet(self) -> tuple[ServerConnection, list[str]]:
        connection = await self.connections.get()
        prefixes = json.loads(await connection.recv())
        await connection.send(ACK)
        return connection, prefixes


class Bridged:
    def __init__(self, hub: Hub, endpoint: Endpoint, queue: QueueLimits | None = None) -> None:
        self.bridge = BridgeDialler(hub.server, endpoint, queue or QueueLimits(), Backoff(0.001, 0.001))
        self._hub = hub

    async def __aenter__(self) -> Dialler:
        self._task = asyncio.ensure_future(self.bridge.run())
        return self.bridge

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def publishing(zeek: Zeek, *prefixes: str) -> Endpoint:
    return replace(zeek.endpoint, scheme=Scheme.ZEEK_WS, publish=prefixes)


async def linked(hub: Hub) -> None:
    await eventually(lambda: any(handler.name.startswith("eeee") for handler in hub.server.core.handlers.values()))
