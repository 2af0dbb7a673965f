"""Streams that are read from the journal, over real sockets: what comes, lost connections, and how they end."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, ClosedError, InvalidTopicError, RejectedError, UsageError
from hub.journal.block import pack, select
from hub.messages.frame import KIND_MESSAGES, encode_frame
from hub.settings.settings import JournalSettings, Settings
from peers.client import MessageStream, RecordedMessage, connect
from peers.client.journal import decoded, recorded_batches
from peers.client.values import decode_batch
from peers.commands.commands import FETCHES_LIMIT
from tests.client.recording import Publishing, Reading
from tests.client.scripted import quick_backoff
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.journal.files import crashed, lose_power, segments
from tests.links.way import Way

StartRecording = Callable[..., Awaitable[Hub]]


@pytest.fixture
def start_recording(start_hub: StartHub, tmp_path: Path, listen_url: str) -> StartRecording:
    async def start(url: Any = listen_url, *, file: str = "journal", **journal: Any) -> Hub:
        recording = JournalSettings(path=str(tmp_path / file), **({"commit_s": 0.001} | journal))
        return await start_hub(url, settings=Settings(journal=recording))

    return start


@pytest.fixture
async def hub(start_recording: StartRecording) -> Hub:
    return await start_recording()


# What comes.


async def test_everything_once_while_somebody_publishes(hub: Hub) -> None:
    source = random.Random(0)  # noqa: S311 -- to be repeated

    async def read(reader: Any, begin: int) -> None:
        size = source.choice([1_000, 20_000, 1_000_000])
        async with reader.subscribe("/n/", from_offset=begin, buffer_bytes=size) as messages:
            reading = Reading(messages, begin)
            publishing.readers.append(reading)
            for goal in (1_000, 2_000):
                await reading.until(goal)
                for _ in range(source.randrange(50)):
                    await asyncio.sleep(0)
            assert (reading.holes, messages.breaks, messages.lost_messages) == (0, 0, 0)
            publishing.readers.remove(reading)

    async with connect(hub.url) as client, connect(hub.url) as reader:
        publishing = Publishing(client)
        await publishing.some(500)
        async with publishing:
            await asyncio.gather(*(read(reader, source.choice([0, 7, 400, 499])) for _ in range(8)))


async def test_from_a_time(hub: Hub) -> None:
    async with connect(hub.url) as client:
        await Publishing(client).some(10)
        times = [record.time_us async for record in client.read()]
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=times[-1])
        expected = times.index(times[-1])
        for time in (at, at.astimezone().replace(tzinfo=None)):
            async with client.subscribe("/n/", from_time=time) as messages:
                assert messages.position == expected
                assert (await anext(messages)).value == expected
        async with client.subscribe("/n/", from_time=datetime(1970, 1, 2, tzinfo=UTC)) as messages:
            await Reading(messages).until(9)


# Lost connections.


async def test_connections_that_are_cut(hub: Hub, listen_url: str) -> None:
    source = random.Random(0)  # noqa: S311 -- to be repeated
    way = await Way(hub.endpoint).start()
    url = f"{listen_url.partition(':')[0]}://127.0.0.1:{way.endpoint.port}"
    cuts = 0

    async def read(reader: Any, begin: int) -> None:
        nonlocal cuts
        size = source.choice([2_000, 50_000, 1_000_000])
        async with reader.subscribe("/n/", from_offset=begin, buffer_bytes=size) as messages:
            reading = Reading(messages, begin)
            publishing.readers.append(reading)
            for goal in range(0, 2_000, 200):
                await reading.until(goal)
                way.cut()
                cuts += 1
            publishing.readers.remove(reading)
            assert (reading.holes, messages.breaks, messages.lost_messages) == (0, 0, 0)

    async with (
        connect(hub.url) as client,
        connect(url, backoff=quick_backoff()) as one,
        connect(url, backoff=quick_backoff()) as other,
    ):
        publishing = Publishing(client)
        await publishing.some(1_000)
        async with publishing:
            readers = [(one, 0), (one, 0), (one, 999), (other, 0), (other, 700), (other, 1_000)]
            await asyncio.gather(*(read(reader, begin) for reader, begin in readers))
    await way.stop()
    assert cuts > 25


async def test_reading_goes_on_after_a_lost_connection(hub: Hub) -> None:
    async with connect(hub.url, backoff=quick_backoff()) as client:
        for number in range(2000):
            await client.publish("/a", [number, "x" * 500])
        await client.publish_confirmed("/end", None)
        found = []
        async for record in client.read("/a", piece_bytes=100_000):
            found.append(record.value[0])
            if len(found) in {200, 900}:
                for connection in list(hub.server.connections):
                    connection.abort()
        assert found == list(range(2000))
        assert client.statistics().connections >= 2


async def _without_power(hub: Hub, tmp_path: Path, written_bytes: int) -> None:
    lost = crashed(tmp_path / "journal", tmp_path / "lost")
    lose_power(lost, written_bytes)
    await hub.stop()
    shutil.rmtree(tmp_path / "journal")
    lost.rename(tmp_path / "journal")


async def _some_that_are_lost(
    client: Any, tmp_path: Path, messages: MessageStream
) -> tuple[int, tuple[int | None, int], tuple[int | None, int]]:
    publishing, reading = Publishing(client), Reading(messages)
    await publishing.some(3)
    await reading.until(2)
    waiting = asyncio.ensure_future(messages.batch())  # it is done with what it has read
    await eventually(lambda: messages.position == 3)
    early = messages.position, messages.epoch
    written_bytes = segments(tmp_path / "journal")[-1].stat().st_size
    await publishing.some(7)
    reading.take([message.value for message in await waiting])
    await reading.until(9)
    waiting = asyncio.ensure_future(messages.batch())
    await eventually(lambda: messages.position == 10)
    waiting.cancel()
    return written_bytes, early, (messages.position, messages.epoch)


async def test_a_power_loss(start_recording: StartRecording, hub: Hub, tmp_path: Path) -> None:
    """Whoever has read what is lost gets all that comes since, of the same offsets, and is told; others are not."""
    cuts: list[range] = []
    async with (
        connect(hub.url, backoff=quick_backoff(), on_cut=cuts.append) as reader,
        reader.subscribe("/n", from_offset=0) as messages,
    ):
        async with connect(hub.url) as client:
            written_bytes, early, late = await _some_that_are_lost(client, tmp_path, messages)
        await _without_power(hub, tmp_path, written_bytes)
        hub = await start_recording(hub.endpoint)
        expected = [(offset, 97 + offset) for offset in range(3, 23)]
        async with connect(hub.url) as client:
            for number in range(100, 120):
                await client.publish_confirmed("/n/new", number)
        assert await _numbered(messages, 1) == expected[:1]
        # The epoch is that of the position, not that of what is read meanwhile.
        assert (messages.position, messages.epoch > late[1]) in {(10, False), (3, True)}
        assert await _numbered(messages, 19) == expected[1:]
        assert (messages.breaks, messages.lost_messages, cuts) == (1, 0, [range(3, 10)])
        waiting = asyncio.ensure_future(messages.batch())
        await eventually(lambda: messages.position == 23)
        assert messages.epoch > late[1]
        waiting.cancel()
        for (position, epoch), breaks in ((early, 0), (late, 1)):
            async with reader.subscribe("/n", from_offset=position, epoch=epoch) as again:
                assert await _numbered(again, 20) == expected
                assert again.breaks == breaks
        async with reader.subscribe("/n", from_offset=late[0]) as plain:
            assert await _numbered(plain, 13) == expected[7:]
            assert plain.breaks == 0


async def test_a_power_loss_and_retention(start_recording: StartRecording, hub: Hub, tmp_path: Path) -> None:
    keeping = {"keep_bytes": 64 * 1024, "compression": "none"}
    async with connect(hub.url, backoff=quick_backoff()) as reader, reader.subscribe("/n", from_offset=0) as messages:
        async with connect(hub.url) as client:
            written_bytes, _, _ = await _some_that_are_lost(client, tmp_path, messages)
        await _without_power(hub, tmp_path, written_bytes)
        meanwhile = await start_recording(**keeping)
        async with connect(meanwhile.url) as client:
            last = await _until_deleted(client, 11)
        await meanwhile.stop()
        await start_recording(hub.endpoint, **keeping)
        message = await anext(messages)
        assert isinstance(message, RecordedMessage)
        assert messages.lost_messages == message.offset - 10 > 0
        while message.offset < last:  # type: ignore[attr-defined]
            message = await anext(messages)


async def _numbered(messages: MessageStream, count: int) -> list[tuple[int, int]]:
    found = [await anext(messages) for _ in range(count)]
    return [(message.offset, message.value) for message in found]  # type: ignore[attr-defined]


async def test_a_hub_with_another_journal(start_recording: StartRecording, hub: Hub) -> None:
    async with connect(hub.url) as client:
        await Publishing(client).some(5_000)
    async with (
        connect(hub.url, backoff=quick_backoff()) as reader,
        reader.subscribe("/n/", from_offset=0, buffer_bytes=10) as messages,
    ):
        await hub.stop()
        await start_recording(hub.endpoint, file="another")
        reading = Reading(messages)
        with pytest.raises(RejectedError, match="another journal") as caught:
            await reading.until(4_999)
        assert caught.value.code == CloseCode.GONE
        assert reading.next > 0


# Where it cannot begin, or not go on.


async def _until_deleted(client: Any, first: int) -> int:
    offset = await client.publish_confirmed("/n", [0, ""])
    while (await client.journal()).first < first:
        offset = await client.publish_confirmed("/n", [offset + 1, "x" * 10_000])
    return int(offset)


async def _read_on(messages: MessageStream) -> None:
    while await messages.batch():
        pass


async def test_bad_arguments(hub: Hub) -> None:
    async with connect(hub.url) as client:
        now = datetime.now(UTC)
        for prefixes, options in (
            (("/n",), {"from_offset": 0, "from_time": now}),
            (("/n",), {"from_offset": -1}),
            (("/n",), {"from_offset": 1, "epoch": -1}),
            (("/n",), {"from_time": now, "epoch": 1}),
            (("/n",), {"epoch": 1}),
            ((), {"from_offset": 0}),
        ):
            with pytest.raises(UsageError):
                client.subscribe(*prefixes, **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidTopicError):
            await client.subscribe("/\0", from_offset=0).open()
        stream = client.subscribe("/n", from_offset=0)
        await stream.open()
        with pytest.raises(UsageError, match="opened once"):
            await stream.open()
        await stream.close()


# Ends.


async def test_many_that_are_closed_while_they_wait(hub: Hub) -> None:
    async with connect(hub.url) as client:
        await client.publish_confirmed("/n", 0)
        for _ in range(2 * FETCHES_LIMIT):
            async with client.subscribe("/n", from_offset=0) as messages:
                assert (await anext(messages)).value == 0
                await asyncio.sleep(0)  # now it waits
        assert hub.journal is not None
        await eventually(lambda: hub.journal.statistics().fetches == 0)  # type: ignore[union-attr]


async def test_closing(hub: Hub) -> None:
    async with connect(hub.url, name="reader") as client:
        await Publishing(client).some(5_000)
        for buffer_bytes in (1, 1_000_000):
            stream = client.subscribe("/n/", from_offset=0, buffer_bytes=buffer_bytes)
            await stream.open()
            await stream.batch()
            assert len(hub.server.connections) == 1
            await stream.close()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        left_open = client.subscribe("/n/", from_offset=0)
        await left_open.open()
        await client.subscribe("/n/", from_offset=0).open()
    await eventually(lambda: not hub.server.connections)
    await _read_on(left_open)
    with pytest.raises(ClosedError):
        await client.subscribe("/n/", from_offset=0).open()


def test_offsets_have_gaps() -> None:
    parts = (b"/a", b"\x01"), (b"/b", b"\x02"), (b"/a", b"\xc1"), (b"/a", b"\x03")  # another topic, and no msgpack
    frames = b"".join(encode_frame(KIND_MESSAGES, body, key=topic) for topic, body in parts)
    (block,) = pack([(100, frames)], 7)
    batches = recorded_batches(select(block, 7, 11, bytes([1, 0])))
    found = [message for batch in batches for message in decoded(batch, lambda *one: decode_batch(*one)[0])]
    assert found == [("/a", 1), ("/a", 3)]
    assert [(one.offset, one.time_us) for one in found if isinstance(one, RecordedMessage)] == [(7, 100), (10, 100)]


async def test_a_bug(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from hub.errors import InternalError
    from peers.client import journal

    def fail(_: bytes) -> list[tuple[bytes, int]]:
        raise ZeroDivisionError

    async with connect(hub.url) as client:
        await client.publish_confirmed("/n", 1)
        monkeypatch.setattr(journal, "recorded_batches", fail)
        async with client.subscribe("/n", from_offset=0) as messages:
            with pytest.raises(InternalError, match="ZeroDivisionError"):
                await anext(messages)
