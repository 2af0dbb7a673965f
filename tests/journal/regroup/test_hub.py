"""A hub whose segments are laid anew while clients publish and read: they notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from peers.client import connect
from peers.journal.regrouping import RegroupStatistics
from tests.client.recording import RecordingHub
from tests.hubs.eventually import eventually
from tests.journal.regroup.made import forms

pytestmark = pytest.mark.usefixtures("uncaught")

KIB = 1024

TOPICS = 4

VALUE = "." * 64 * KIB


@asynccontextmanager
async def ticking(path: Path, **journal: object) -> AsyncIterator[RecordingHub]:
    """A hub whose segments have a little more than a MiB, and whose clock runs."""
    hub = RecordingHub(path, keep_bytes=10 * KIB * KIB, compression="none", **journal)
    await hub.start("tcp://127.0.0.1:0")

    async def tick() -> None:
        while True:
            assert hub.journal is not None
            hub.journal.tick()
            await asyncio.sleep(0.05)

    ticks = asyncio.ensure_future(tick())
    try:
        yield hub
    finally:
        ticks.cancel()
        await asyncio.wait([ticks])
        await hub.stop()


def regrouped(hub: RecordingHub) -> RegroupStatistics | None:
    """What was laid anew."""
    assert hub.journal is not None
    statistics = hub.journal.statistics()
    assert statistics is not None
    return statistics.regroup


async def test_clients_notice_nothing(tmp_path: Path) -> None:
    """What is read beside it, of all topics and of one, is what was published."""
    path = tmp_path / "journal"
    async with ticking(path) as hub, connect(hub.url) as client, connect(hub.url) as reader:
        count = 0

        async def publish() -> None:
            nonlocal count
            for _ in range(4):
                await client.publish_confirmed(f"/n/{count % TOPICS}", [count, VALUE])
                count += 1

        while (statistics := regrouped(hub)) is None or statistics.laid_total < 3:
            if count < 136:  # with more, the oldest would be deleted; a process of low priority may take its time
                await publish()
            if count % 16 == 0:
                offsets = [record.value[0] async for record in reader.read("/n/", start=0)]
                assert offsets == list(range(count))
                some = [record.value[0] async for record in reader.read("/n/2", start=0)]
                assert some == list(range(2, count, TOPICS))
            await asyncio.sleep(0.02)
        assert 1 in forms(path)
        assert statistics.error == ""
        assert [record.offset async for record in reader.read("/n/", start=0)] == list(range(count))


async def test_a_hub_that_is_told_not_to(tmp_path: Path) -> None:
    """It lays nothing anew, and counts nothing."""
    async with ticking(tmp_path / "journal", regroup="off") as hub, connect(hub.url) as client:
        for number in range(40):
            await client.publish_confirmed("/n/1", [number, VALUE])
        assert regrouped(hub) is None
        assert set(forms(tmp_path / "journal")) == {0}


async def test_at_rest_it_is_taken_too(tmp_path: Path) -> None:
    """A segment gets its place though nothing is published any more."""
    path = tmp_path / "journal"
    async with ticking(path) as hub, connect(hub.url) as client:
        for number in range(30):
            await client.publish_confirmed("/n/1", [number, VALUE])
        await eventually(lambda: (regrouped(hub) or RegroupStatistics()).laid_total > 0)
        assert forms(path)[0] == 1
