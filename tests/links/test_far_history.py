"""History of another hub's journal: over one link and over several, by name and by id, and what goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.errors import RejectedError
from hub.settings import JournalSettings, Settings
from peers.client import connect
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

Chain = Callable[..., Awaitable[list[Hub]]]


@pytest.fixture
async def chain(start_hub: StartHub, tmp_path: Path) -> Chain:
    """Start hubs in a row, hub-0, hub-1, ...: each dials the next one, and the last one has a journal."""

    async def start(count: int, **journal: Any) -> list[Hub]:
        recording = Settings(journal=JournalSettings(path=str(tmp_path / "journal.db"), commit_s=0.001))
        first = msgspec.structs.replace(Settings(), journal=JournalSettings(**journal))
        rows = [first, *[Settings()] * (count - 2), recording]
        hubs = [await start_hub(name=f"hub-{number}", settings=row) for number, row in enumerate(rows)]
        for near, far in pairwise(hubs):
            near.dial(far)
        await eventually(lambda: all(len(hub.node.core.mesh.graph.reached) == count for hub in hubs))
        return hubs

    return start


async def record(hub: Hub, count: int, topic: str = "/n") -> None:
    """Have a hub record numbers."""
    async with connect(hub.url) as client:
        for number in range(count - 1):
            await client.publish(topic, number)
        await client.publish_confirmed(topic, count - 1)


@pytest.mark.parametrize("count", [2, 4])
async def test_by_name_and_by_id(chain: Chain, count: int) -> None:
    """Over any number of links, the same records as at the hub itself."""
    hubs = await chain(count)
    far = hubs[-1]
    await record(far, 100)
    async with connect(far.url) as client:
        own = [one async for one in client.read("/n")]
        state = await client.journal()
    assert [one.value for one in own] == list(range(100))
    async with connect(hubs[0].url) as client:
        assert [one async for one in client.read("/n", hub=far.node.name)] == own
        assert [one async for one in client.read("/n", hub=far.node.id.hex())] == own
        assert await client.journal(hub=far.node.name) == state
        with pytest.raises(RejectedError, match="this hub has no journal"):
            await client.journal()


async def test_a_hub_without_a_journal_names_one(chain: Chain) -> None:
    """Its clients read that one without naming a hub."""
    hubs = await chain(3, of="hub-2")
    await record(hubs[2], 10)
    async with connect(hubs[0].url) as client:
        assert [one.value async for one in client.read()] == list(range(10))
        async with client.subscribe("/n", from_offset=8) as messages:
            assert [(await anext(messages)).value for _ in range(2)] == [8, 9]
            await eventually(lambda: messages.live)
            await record(hubs[2], 2)
            assert [(await anext(messages)).value for _ in range(2)] == [0, 1]
