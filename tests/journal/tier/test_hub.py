"""A hub with a tier, and its clients: they read what was deleted here, and nobody waits for the tier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hub.errors import GoneError, JournalUnavailableError
from hub.settings.sections import JournalSettings, Limits
from peers.client import connect
from peers.journal.journal import Journal
from peers.journal.tier.place import Place
from peers.journal.tiering import TierStatistics
from tests.client.recording import RecordingHub
from tests.hub.fakes import Turn
from tests.hubs.eventually import eventually
from tests.journal.files import segments

pytestmark = pytest.mark.usefixtures("uncaught")

KIB = 1024


@asynccontextmanager
async def ticking(path: Path, tier: str, **journal: object) -> AsyncIterator[RecordingHub]:
    hub = RecordingHub(path, tier=tier, keep_bytes=64 * KIB, compression="none", **journal)
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


def tier_of(hub: RecordingHub) -> TierStatistics:
    assert hub.journal is not None
    statistics = hub.journal.statistics()
    assert statistics is not None
    assert statistics.tier is not None
    return statistics.tier


async def publish(hub: RecordingHub, first: int, count: int) -> None:
    """Publish numbered messages of 2 KiB, few of them in a commit, which makes a segment at least; and one more."""
    async with connect(hub.url) as client:
        for number in range(first, first + count):
            send = client.publish if number % 8 else client.publish_confirmed
            await send(f"/n/{number % 4}", [number, "." * 2 * KIB])
        await client.publish_confirmed("/n/end", first + count)


def first_here(path: Path) -> int:
    return int(segments(path)[0].stem)


async def test_clients_read_what_is_not_here_any_more(place: Place, tmp_path: Path) -> None:
    """By offset, by time, by topic, and on into what is live; the hub says that it reaches back to the beginning."""
    path = tmp_path / "journal"
    async with ticking(path, place.address) as hub:
        began = datetime.now(UTC)
        await publish(hub, 0, 300)
        await eventually(lambda: tier_of(hub).progress.next > 200)
        await publish(hub, 301, 10)  # a commit deletes what was copied
        assert first_here(path) > 100
        async with connect(hub.url) as client:
            assert (await client.journal()).first == 0
            records = [record async for record in client.read("/n/", start=0)]
            assert [record.offset for record in records] == list(range(312))
            assert [record.value[0] for record in records[:300]] == list(range(300))
            some = [record.offset async for record in client.read("/n/2", start=3, end=100)]
            assert some == list(range(6, 100, 4))
            assert (await anext(aiter(client.read("/n/", start_time=began)))).offset == 0
            async with client.subscribe("/n/", from_offset=0) as messages:
                await client.publish("/n/live", "now")
                seen = 0
                async for message in messages:
                    if message.topic == "/n/live":
                        break
                    seen += 1
                assert seen == 312


async def test_a_tier_that_is_away_holds_nobody_up(tmp_path: Path) -> None:
    """Messages are recorded; what is not copied is kept up to a limit, then deleted, and that is counted and said."""
    path, tier = tmp_path / "journal", tmp_path / "tier"
    tier.mkdir()
    async with ticking(path, str(tier), tier_behind_bytes=256 * KIB) as hub:
        await publish(hub, 0, 60)
        await eventually(lambda: tier_of(hub).progress.next > 40)
        tier.rename(tmp_path / "away")
        await publish(hub, 61, 100)
        await eventually(lambda: tier_of(hub).error != "")
        copied = tier_of(hub).progress.next
        assert first_here(path) <= copied < 161 - 64 // 2  # more than keep_bytes
        await publish(hub, 162, 300)
        assert first_here(path) > copied
        assert sum(file.stat().st_size for file in segments(path)) < 256 * KIB + 32 * KIB
        (tmp_path / "away").rename(tier)
        await eventually(lambda: tier_of(hub).progress.missed > 0 and not tier_of(hub).error)
        async with connect(hub.url) as client:
            with pytest.raises(GoneError) as caught:
                _ = [record async for record in client.read("/n/", start=0)]
            assert caught.value.first is not None
            rest = [record.offset async for record in client.read("/n/", start=caught.value.first)]
            assert rest == list(range(caught.value.first, 463))
            assert caught.value.first == copied + tier_of(hub).progress.missed


@pytest.mark.parametrize("tier", ["gs://bucket/x", "s3://key:secret@bucket"])
async def test_a_tier_that_cannot_be(tmp_path: Path, tier: str) -> None:
    settings = JournalSettings(path=str(tmp_path / "journal"), tier=tier)
    turn = Turn()
    with pytest.raises(JournalUnavailableError, match=r"a folder or s3|keys do not belong"):
        Journal(turn.core, settings, Limits())
    assert not (tmp_path / "journal").exists()
