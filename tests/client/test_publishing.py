"""Publishing with the asyncio client, over each transport, to a real hub."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hub.batch import Batch
from hub.delivery import Role
from hub.errors import BusyError, CloseCode, ClosedError, InvalidTopicError, RejectedError
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.settings.settings import Settings
from peers.client import Client, InvalidValueError, connect
from peers.client.values import decode_batch
from tests.client.told import Told
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of


class Recorder:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.count = 0

    def send(self, batches: list[Batch]) -> None:
        self.batches += batches
        self.count += sum(batch.messages for batch in batches)

    async def wait_messages(self, count: int) -> None:
        await eventually(lambda: self.count >= count)

    def send_gap(self, lost_messages: int) -> None:
        raise AssertionError(lost_messages)

    def close(self, code: int, text: str) -> None:
        raise AssertionError(code, text)

    def frames(self) -> list[tuple[str, int]]:
        return [(frame.key.decode(), frame.messages) for batch in self.batches for frame in batch.parts()]

    def messages(self) -> list[tuple[str, Any]]:
        return [tuple(message) for batch in self.batches for message in decode_batch(batch)[0]]


def record(hub: Hub) -> Recorder:
    recorder = Recorder()
    handler = Handler(recorder, role=Role.LOCAL, limits=QueueLimits())
    hub.node.core.attach(handler)
    hub.node.core.subscribe(handler, ["/"])
    return recorder


async def test_awaited_publishing(hub: Hub) -> None:
    recorder = record(hub)
    async with connect(hub.url, buffer_bytes=64 * 1024) as client:
        for number in range(2000):
            await client.publish("/a", [number, bytes(500)])
        await client.drain()
        await recorder.wait_messages(2000)
        assert client.statistics().published_messages == 2000
    assert [value[0] for _, value in recorder.messages()] == list(range(2000))


def fill(client: Client) -> None:
    while True:
        client.publish_nowait("/a", bytes(1000))


async def test_full_buffer(start_hub: StartHub) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url, buffer_bytes=10_000) as client:
        await hub.stop()
        await told.disconnected.get()
        with pytest.raises(BusyError, match="the limit is 10000"):
            fill(client)
        taken = client.statistics()
        assert 0 < taken.buffered_bytes <= 10_000
        assert taken.published_messages == 9
        waiting = asyncio.ensure_future(client.publish("/a", bytes(1000)))
        await asyncio.sleep(0)
        assert not waiting.done()
        hub = await start_hub(hub.endpoint)
        recorder = record(hub)
        await waiting
        await client.drain()
        await recorder.wait_messages(10)


async def test_refused_at_once(client: Client) -> None:
    for topic in ("", "/a\n", "x" * 1025, "$hub/overflow"):
        with pytest.raises(InvalidTopicError):
            client.publish_nowait(topic, 1)
    for value in (object(), 2**64, "\ud800", {"a": 1j}):
        with pytest.raises(InvalidValueError):
            await client.publish("/a", value)
    assert client.statistics().published_messages == 0


async def test_too_large_for_the_hub(start_hub: StartHub, listen_url: str) -> None:
    """What the hub would end the connection for is refused by the call; the limit is the connected hub's own."""
    hub = await start_hub(listen_url, settings=settings_of(frame_bytes=16 * 1024))
    recorder = record(hub)
    async with connect(hub.url) as client:
        with pytest.raises(RejectedError, match="the hub takes at most") as caught:
            client.publish_nowait("/a", bytes(16 * 1024))
        assert caught.value.code == CloseCode.TOO_BIG
        for _ in range(100):
            client.publish_nowait("/a", bytes(1000))
        await client.drain()
        await recorder.wait_messages(100)
    assert all(len(frame.body) <= 16 * 1024 for batch in recorder.batches for frame in batch.parts())


async def test_a_smaller_hub_comes_back(start_hub: StartHub) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url) as client:
        await hub.stop()
        await told.disconnected.get()
        for size in (10, 100_000, 20):
            client.publish_nowait("/a", bytes(size))
        hub = await start_hub(hub.endpoint, settings=settings_of(frame_bytes=16 * 1024))
        recorder = record(hub)
        error = await told.rejected.get()
        await recorder.wait_messages(2)
        assert error.code == CloseCode.TOO_BIG
        assert client.statistics().rejected_messages == 1
    assert [len(value) for _, value in recorder.messages()] == [10, 20]


async def test_closing_sends_first(hub: Hub) -> None:
    recorder = record(hub)
    # A machine with much else to do needs longer than the 5 s of the default to read all of that.
    async with connect(hub.url, close_timeout_s=120) as client, client.subscribe("/"):
        for number in range(20_000):
            client.publish_nowait(f"/{number % 3}", number)
    await recorder.wait_messages(20_000)
    assert [value for _, value in recorder.messages()] == list(range(20_000))


async def test_after_close(hub: Hub) -> None:
    client = await connect(hub.url)
    await client.close()
    await client.close()
    with pytest.raises(ClosedError):
        client.publish_nowait("/a", 1)
    with pytest.raises(ClosedError):
        await client.publish("/a", 1)
    with pytest.raises(ClosedError):
        await client.drain()
    with pytest.raises(ClosedError):
        await client.subscribe("/").open()
    assert client.ended


async def test_unsent_is_counted(start_hub: StartHub, caplog: pytest.LogCaptureFixture) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url) as client:
        await hub.stop()
        await told.disconnected.get()
        client.publish_nowait("/a", 1)
        client.publish_nowait("/a", 2)
    assert client.statistics().unsent_messages == 2
    assert "2 messages were published and never sent" in caplog.text


async def test_closing_does_not_wait_forever(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings())
    client: Client = await connect(hub.url, close_timeout_s=0.01, buffer_bytes=64 * 1024 * 1024)
    (connection,) = hub.node.connections
    connection.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(400):
        client.publish_nowait("/a", bytes(100_000))
    await client.close()
    assert client.statistics().unsent_messages > 0


async def test_publishing_lets_others_run(hub: Hub) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with connect(hub.url, buffer_bytes=64 * 1024 * 1024) as client:
        counting = asyncio.ensure_future(count_turns())
        for number in range(50_000):
            await client.publish("/a", [number, b"x" * 100])
        assert turns >= 20
        counting.cancel()
