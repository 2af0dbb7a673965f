"""`$hub/state`, `$hub/losses` and `$hub/history` of a hub that listens."""

from __future__ import annotations

import time

from peers.client import connect
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub


async def look(hub: Hub, second: int) -> None:
    hub.node.pulse.beat(float(second), 0.0)
    await eventually(lambda: not hub.node.pulse.is_looking)


async def test_the_state(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client, client.subscribe("/a"):
        await eventually(lambda: any(one.prefixes for one in hub.node.core.handlers.values()))
        await look(hub, 1)
        told = await client.request("$hub/state", None)
        assert told["text"] == "The only subscriber keeps up, nothing was dropped in the last minute."
        assert (told["connections"], told["subscribers"], told["slow"], told["slow_ids"]) == (1, 1, 0, [])


async def test_losses(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        now = int(hub.node.loop.time())
        for second, number in [(now - 2, 4), (now - 1, 5), (now, 4)]:
            event = {"id": number, "name": "", "address": f"a{number}", "lost": 3, "overflow": "drop-oldest"}
            hub.node.pulse.lose(second, event)
        told = await client.request("$hub/losses", None)
        assert [one["label"] for one in told] == ["a4", "a5", "a4"]
        assert {"messages": 3, "why": "drop-oldest", "id": 4}.items() <= told[0].items()
        assert abs(told[0]["at"] - time.time()) < 60
        assert [one["id"] for one in await client.request("$hub/losses", {"id": 4, "limit": 1})] == [4]


async def test_history(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        for second in range(100, 104):
            await look(hub, second)
        minute = await client.request("$hub/history", None)
        assert (minute["step_s"], minute["points"], minute["first"] + 599) == (1, 600, 103)
        assert minute["figures"]["connections"][-4:] == [None, 1, 1, 1]
        assert abs(minute["now_s"] - time.time()) < 60
        assert minute["clock_s"] > 0
        newer = await client.request("$hub/history", {"after": 102})
        assert (newer["first"], newer["figures"]["connections"]) == (103, [1])
