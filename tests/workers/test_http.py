"""Plain HTTP at workers: whoever publishes at one is heard by streams of all, and is told what is recorded."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

from peers.client import connect
from peers.transport.endpoints import Scheme
from tests.hubs.raw_http import RawHttp
from tests.hubs.raw_websocket import request
from tests.workers.conftest import StartWorkers


async def workers_shown(unix: str) -> list[str]:
    """Where those who follow are connected: the number of each handler tells its process."""
    async with connect(unix) as admin:
        found = await admin.request("$hub/who", None)
    return [str(one["id"] // 10_000_000_000) for one in found if one["name"] == "follower"]


async def test_publishing_and_events(start_workers: StartWorkers, tmp_path: Path) -> None:
    """Streams of both workers hear it; the answer has the offset that the core has given it."""
    unix = f"unix://{tmp_path}/hub.sock"
    journal = ("--journal", str(tmp_path / "journal"))
    process = await start_workers(*journal, listen=("ws://127.0.0.1:0", unix))
    endpoint = next(one for one in process.endpoints if one.scheme is Scheme.WS)
    streams: list[RawHttp] = []
    while len(Counter(await workers_shown(unix))) < 2:
        client = await RawHttp.connect(endpoint)
        await client.send(request("/v1/events?prefix=/t&name=follower"))
        assert (await client.head())[0] == 200
        streams.append(client)
    publisher = await RawHttp.connect(endpoint)
    answer = await publisher.publish("/t?confirm=1", 1)
    assert (answer.status, json.loads(answer.body)) == (200, {"messages": 1, "offsets": [[0, 1]]})
    for client in streams:  # what is wanted at another worker is known there within a second
        first = asyncio.create_task(client.values(1))
        while not first.done():
            assert (await publisher.publish("/t", 2)).status == 200
            await asyncio.wait([first], timeout=0.02)
        assert first.result()[0] in {1, 2}
        client.close()
    publisher.close()
