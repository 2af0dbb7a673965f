"""A connection that is over is freed at once, as over TCP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connections.websocket.zeek.clients import ZeekClient
from tests.garbage import leaves_nothing
from tests.hubs.eventually import eventually, settle
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import request

HELD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("claim", {"name": "clock", "labels": ["a"], "queue": True, "request": 1}),
    ("rule", {"rules": [{"labels": ["l"], "prefix": "/a"}], "request": 2}),
    ("serve", {"prefixes": ["/s"], "request": 3}),
    ("request", {"request": 4, "topic": "/s", "value": 1, "timeout_ms": 60_000}),
    ("request", {"request": 5, "topic": "/nobody", "value": 1}),
    ("publish", {"topic": "/a", "value": 1, "labels": ["l"]}),
)


async def come_and_go(hub: Hub, subprotocol: str = "hub.v1.json") -> None:
    holding = [await hub.websocket("/a", subprotocol=subprotocol) for _ in range(2)]
    for client in holding:
        for kind, fields in HELD:
            await client.say(kind, **fields)
        await client.barrier()
    asking, silent = await hub.raw_websocket(), await hub.raw_websocket()
    await asking.send(request("/metrics"))
    assert (await asking.response()).status == 200
    zeek = await ZeekClient.subscribed(hub, "/a")
    await zeek.publish("/a", 1)
    await zeek.settle()
    for client in (*holding, asking, silent, zeek.raw):
        client.close()
    await eventually(lambda: not hub.node.connections)
    hub.connections.clear()
    await settle()


@pytest.mark.parametrize("subprotocol", ["hub.v1.json", "hub.v1.msgpack"])
async def test_clients(hub: Hub, subprotocol: str) -> None:
    await leaves_nothing(lambda: come_and_go(hub, subprotocol))
