"""A bridge to a Zeek that is over is freed at once, as a client's connection is."""

from __future__ import annotations

from tests.connections.bridge.zeeks import Bridged, Zeek, linked, publishing
from tests.connections.websocket.zeek.clients import ZeekClient
from tests.garbage import leaves_nothing
from tests.hubs.eventually import eventually, settle
from tests.hubs.hub import Hub
from tests.websocket.zeek.messages import count


async def bridge_and_part(hub: Hub, zeek: Zeek) -> None:
    reader = await ZeekClient.subscribed(hub, "/zeek/")
    publisher = await hub.websocket()
    async with Bridged(hub, publishing(zeek, "/to/")):
        for _ in range(2):
            connection, _prefixes = await zeek.greet()
            await linked(hub)
            await connection.send(count("/zeek/a", 1).decode())
            assert await reader.text() == count("/zeek/a", 1)
            await publisher.publish("/to/zeek", 1)
            await connection.recv()
            connection.transport.abort()
    reader.raw.close()
    publisher.close()
    await eventually(lambda: not hub.node.connections)
    hub.connections.clear()
    await settle()


async def test_bridges(hub: Hub, zeek: Zeek) -> None:
    await leaves_nothing(lambda: bridge_and_part(hub, zeek))
