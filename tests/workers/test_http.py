"""Plain HTTP at workers: whoever publishes at one is heard by streams of all, with the offsets that the core gives."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from peers.client import connect
from peers.transport.endpoints import Scheme
from tests.hubs.raw_http import RawHttp
from tests.hubs.raw_websocket import request
from tests.workers.conftest import StartWorkers


async def workers_shown(unix: str) -> list[str]:
    async with connect(unix) as admin:
        found = await admin.request("$hub/who", None)
    return [str(one["id"] // 10_000_000_000) for one in found if one["name"] == "follower"]


async def test_publishing_and_events(start_workers: StartWorkers, tmp_path: Path) -> None:
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
    for client in streams:
        first = await client.event()
        assert (first.id, first.value["value"]) == (0, 1)
        client.close()
    assert (await publisher.publish("/t?confirm=1", 2)).status == 200
    for _ in range(4):  # wherever the kernel puts it
        client = await RawHttp.connect(endpoint)
        await client.send(request("/v1/events?prefix=/t", "GET", "Last-Event-ID: 0"))
        assert (await client.head())[0] == 200
        second = await client.event()
        assert (second.id, second.value["value"]) == (1, 2)
        client.close()
    publisher.close()
