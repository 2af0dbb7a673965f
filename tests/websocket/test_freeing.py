"""A connection that is over is freed at once, as over TCP."""

from __future__ import annotations

from tests.garbage import left_for_the_collector
from tests.tcp.hubs import settle, wait_until
from tests.websocket.hubs import Hub


async def come_and_go(hub: Hub) -> None:
    """A client subscribes, and leaves without a word."""
    client = await hub.client("/a")
    client.close()
    await wait_until(lambda: not hub.node.connections)
    hub.connections.clear()
    await settle()


async def test_clients(hub: Hub) -> None:
    """No connection, conversation or handler waits for the garbage collector."""
    await come_and_go(hub)
    with left_for_the_collector() as left:
        await come_and_go(hub)
    assert left == []
