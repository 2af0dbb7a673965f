"""A far side that is gone, while this side has not read that yet: closing is as quiet as ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from hub.settings.settings import Settings
from peers.client import connect
from peers.transport.endpoints import Endpoint
from peers.wire.hello import ID_BYTES, Hello
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_websocket import RawWebSocket


async def test_the_hub_of_a_client_is_gone() -> None:
    """The client says CLOSE to nobody, and is closed."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        connecting = asyncio.ensure_future(connect(f"tcp://127.0.0.1:{server.getsockname()[1]}").__aenter__())
        far, _ = await loop.sock_accept(server)
    await loop.sock_recv(far, 1024)
    await loop.sock_sendall(far, Hello(protocol=1, role="hub", id=bytes(ID_BYTES)).encode())
    client = await connecting
    far.close()
    await client.close()
    assert client.ended


async def tcp_client(endpoint: Endpoint) -> Callable[[], None]:
    """Greet a hub; return what closes the socket."""
    client = await RawClient.connect(endpoint)
    await client.greet()
    return client.close


async def websocket_client(endpoint: Endpoint) -> Callable[[], None]:
    """The same over a WebSocket."""
    client = await RawWebSocket.connect(endpoint)
    await client.shake_hands()
    await client.say("hello")
    await client.message()
    return client.close


@pytest.mark.parametrize(("url", "make"), [("tcp://127.0.0.1:0", tcp_client), ("ws://127.0.0.1:0", websocket_client)])
async def test_a_client_of_a_hub_is_gone(url: str, make: Callable[[Endpoint], Awaitable[Callable[[], None]]]) -> None:
    """The hub that stops lets go of it, and gets on to those behind it."""
    hub = Hub(Settings())
    await hub.listen(Endpoint.parse(url))
    close = await make(hub.endpoint)
    (connection,) = hub.node.connections
    close()
    connection.drain()
    await hub.node.wait_released()
    await hub.stop()
