"""A connection that is over is freed at once: thousands that come and go leave nothing to collect."""

from __future__ import annotations

from pathlib import Path

from tests.garbage import left_for_the_collector
from tests.tcp.conftest import StartHub
from tests.tcp.hubs import Hub, settle, wait_until


async def come_and_go(hub: Hub) -> None:
    """A client does what it may, and leaves without a word; another one says nothing."""
    reader, publisher, stranger = await hub.client("/a"), await hub.client(), await hub.raw()
    await publisher.publish("/a", 1)
    await reader.values(1)
    await publisher.publish("/a", 2)
    for client in (reader, publisher, stranger):
        client.close()
    await wait_until(lambda: not hub.node.connections)
    hub.connections.clear()
    await settle()


async def test_clients_over_tcp(hub: Hub) -> None:
    """No connection, conversation, session or handler waits for the garbage collector."""
    await come_and_go(hub)
    with left_for_the_collector() as left:
        await come_and_go(hub)
    assert left == []


async def test_clients_over_unix_sockets(start_hub: StartHub, tmp_path: Path) -> None:
    """As over TCP."""
    hub = await start_hub(f"unix://{tmp_path}/hub.sock")
    await come_and_go(hub)
    with left_for_the_collector() as left:
        await come_and_go(hub)
    assert left == []
