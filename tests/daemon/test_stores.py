"""Stores of a hub that is a process, and is killed again and again: no confirmed change is lost, none is made twice."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from hub.errors import HubError
from peers.client import connect
from tests.daemon.conftest import StartProcess
from tests.hubs.eventually import eventually

LIVES = 4


async def _count(url: str, key: str, counts: dict[str, int]) -> None:
    with contextlib.suppress(HubError):
        async with connect(url) as client:
            store = client.store("s")
            while True:
                counts[key] = await store.increment(key)


async def test_kills_under_load(start_process: StartProcess, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    counts: dict[str, int] = {}
    for _ in range(LIVES):
        hub = await (await start_process("--listen", "tcp://127.0.0.1:0", "--store", f"s={path}")).wait_up()
        url = hub.endpoints[0].location
        async with connect(url) as client:
            for key, confirmed in counts.items():
                found = await client.store("s").get(key)
                assert found in (confirmed, confirmed + 1)
                counts[key] = found
        began = dict(counts)
        tasks = [asyncio.create_task(_count(url, f"counter-{number}", counts)) for number in range(8)]
        await eventually(lambda: len(counts) == 8 and all(counts[key] >= began.get(key, 0) + 20 for key in counts))  # noqa: B023 -- called here
        await hub.kill()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert min(counts.values()) >= 20 * LIVES
