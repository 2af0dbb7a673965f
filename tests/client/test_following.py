"""History, then live: each message once and in order, wherever the seam falls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hub.errors import GoneError, RejectedError, UsageError
from peers.backoff import Backoff
from peers.client import Client, MessageStream, connect
from peers.client.following import FollowingStream
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.wire.hello import QueueWish

QUICK = Backoff(base_s=0.001, cap_s=0.01)

ROOMY = QueueWish(messages=1_000_000, bytes=256 * 1024 * 1024)
"""So that streams that are live lose nothing, however slowly they are read."""


async def start(path: Path, **journal: object) -> Daemon:
    """A hub with a journal."""
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "journal": {"path": str(path), **journal}}, {})
    daemon = Daemon(loaded, "test hub")
    await daemon.start()
    return daemon


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Daemon]:
    """A hub that records everything."""
    daemon = await start(tmp_path / "journal.db")
    yield daemon
    await daemon.stop()


@pytest.fixture
async def client(hub: Daemon) -> AsyncIterator[Client]:
    """A client of it."""
    url = hub.endpoints[0].location
    async with connect(url, backoff=QUICK, queue=ROOMY) as connected:
        yield connected


async def publish_until(client: Client, stop: asyncio.Event, first: int = 0) -> int:
    """Publish numbers, without a pause, until told to stop; return how many there were."""
    number = first
    while not stop.is_set():
        for _ in range(50):
            client.publish_nowait(f"/n/{number % 3}", number)
            number += 1
        await asyncio.sleep(0)
        await client.drain()
    await client.publish_confirmed("/n/end", number)
    return number


async def numbers(stream: MessageStream) -> list[int]:
    """Read to the end mark; return the numbers before it."""
    found = []
    async for message in stream:
        if message.topic == "/n/end":
            return found
        found.append(message.value)
    return found


async def test_history_then_live(client: Client) -> None:
    """What was published before, and what is published then, arrives once and in order."""
    for number in range(10):
        await client.publish("/a", number)
    await client.publish_confirmed("/b", "other")
    async with client.subscribe("/a", from_offset=4) as messages:
        found = [(await anext(messages)).value for _ in range(6)]
        await client.publish("/a", 10)
        found.append((await anext(messages)).value)
    assert found == list(range(4, 11))


@pytest.mark.parametrize("buffer_bytes", [1, 100_000])
async def test_the_seam_under_load(client: Client, buffer_bytes: int) -> None:
    """Streams that begin while a publisher never pauses miss nothing and get nothing twice, with any buffer."""
    stop = asyncio.Event()
    publishing = asyncio.create_task(publish_until(client, stop))
    streams = []
    for turn in range(8):
        await asyncio.sleep(0.01 * (turn % 3))
        stream = client.subscribe("/n/", from_offset=0, buffer_bytes=buffer_bytes)
        await stream.open()
        streams.append((stream, asyncio.create_task(numbers(stream))))
    stop.set()
    count = await publishing
    for stream, reading in streams:
        assert await reading == list(range(count))
        assert stream.lost_messages == stream.breaks == 0
        await stream.close()


async def test_connections_lost_before_the_stream_is_live(hub: Daemon, client: Client) -> None:
    """What is lost on the way to the seam is read from the journal: nothing is missing, nothing is told."""
    stop = asyncio.Event()
    publishing = asyncio.create_task(publish_until(client, stop))
    stream = client.subscribe("/n/", from_offset=0, buffer_bytes=1)
    assert isinstance(stream, FollowingStream)
    await stream.open()
    publisher = max(hub.node.core.handlers.values(), key=lambda handler: handler.published_messages)
    found = []
    for _ in range(20):
        found += [message.value for message in await stream.batch()]
        for connection in list(hub.node.connections):
            if connection is not publisher.outlet and not stream.live:
                connection.abort()
    stop.set()
    count = await publishing
    rest = asyncio.create_task(numbers(stream))
    assert found + await rest == list(range(count))
    assert stream.breaks == 0
    await stream.close()


async def test_from_a_time(client: Client) -> None:
    """The first record that is not older than the time is the first message."""
    await client.publish_confirmed("/a", "before")
    between = datetime.now(UTC)
    await client.publish_confirmed("/a", "after")
    async with client.subscribe("/a", from_time=between) as messages:
        assert (await anext(messages)).value == "after"


async def test_a_place_that_is_not_there(client: Client) -> None:
    """Opening says so, and what there is instead."""
    await client.publish_confirmed("/a", 1)
    with pytest.raises(GoneError, match="offset 7 is behind the end") as refused:
        await client.subscribe("/a", from_offset=7).open()
    assert refused.value.first == 0


async def test_without_a_journal() -> None:
    """A hub that records nothing refuses."""
    loaded = load({"listen": ["tcp://127.0.0.1:0"]}, {})
    daemon = Daemon(loaded, "test hub")
    await daemon.start()
    async with connect(daemon.endpoints[0].location) as client:
        with pytest.raises(RejectedError, match="has no journal"):
            await client.subscribe("/a", from_offset=0).open()
    await daemon.stop()


async def test_use(client: Client) -> None:
    """Two places are one too many, and a stream is opened once."""
    with pytest.raises(UsageError, match="exclude"):
        client.subscribe("/a", from_offset=0, from_time=datetime.now(UTC))
    stream = client.subscribe("/a", from_offset=0)
    await stream.open()
    with pytest.raises(UsageError, match="opened once"):
        await stream.open()
    await stream.close()
    assert await stream.batch() == []
