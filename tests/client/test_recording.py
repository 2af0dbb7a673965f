"""What programs have of a journal: consumers, at least once, and writers, once, over lost connections and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hub.errors import (
    ClosedError,
    ConnectionLostError,
    InvalidTopicError,
    RejectedError,
    RequestFailedError,
    UsageError,
)
from peers.client import Client, ConsumerStream, connect
from peers.client.blocking import connect as connect_blocking
from peers.client.journal import Committed
from peers.client.writer import Writer
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.timing import Backoff
from peers.wire.records import Commit, Stage
from tests.hubs.eventually import eventually

FAST = Backoff(base_s=0.001, cap_s=0.01)


class Place:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._listen = f"unix://{path}/hub.sock"
        self.daemon: Daemon

    async def start(self) -> None:
        loaded = load(
            {"listen": [self._listen], "journal": {"path": str(self._path / "journal"), "topics": ["/a"]}}, {}
        )
        self.daemon = Daemon(loaded, "test hub")
        await self.daemon.start()

    async def stop(self) -> None:
        await self.daemon.stop(asyncio.get_running_loop().time())

    @property
    def url(self) -> str:
        return self._listen

    def cut(self) -> None:
        for connection in list(self.daemon.server.connections):
            connection.abort()

    def stands(self) -> Any:
        statistics = self.daemon.server.journal.statistics()
        assert statistics is not None
        (one,) = statistics.consumers.each
        return one


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    await place.start()
    yield place
    await place.stop()


async def values(stream: ConsumerStream, count: int, *, acknowledged: bool = True) -> list[Any]:
    found = []
    while len(found) < count:
        message = await stream.receive()
        found.append(message.value)
        if acknowledged:
            await message.ack()
    return found


async def fill(client: Client, *numbers: int, topic: str = "/a") -> None:
    await asyncio.gather(*(client.publish_confirmed(topic, number) for number in numbers))


async def test_a_new_one_begins_at_a_time(place: Place) -> None:
    async with connect(place.url) as client:
        for number in range(4):
            await client.publish_confirmed("/a", number)
        times = [datetime.fromtimestamp(record.time_us / 1e6, UTC) async for record in client.read("/a")]
        first = client.consume("c", "/a", from_time=times[2])
        second = client.consume("c", "/a", from_time=times[2])  # both would make it, and one does
        await asyncio.gather(first.open(), second.open())
        await second.close()
        assert await values(first, 2) == [2, 3]
        await first.close()
        async with client.consume("all", "/", from_time=datetime(1970, 1, 1, tzinfo=UTC)) as stream:
            assert await values(stream, 4) == [0, 1, 2, 3]
        async with client.consume("late", "/", from_time=times[3] + timedelta(seconds=1000)) as stream:
            await client.publish_confirmed("/a", 4)
            assert await values(stream, 1) == [4]
        with pytest.raises(UsageError, match="from_offset, which is 0 or more, or from_time"):
            client.consume("d", "/", from_offset=0, from_time=times[0])


async def test_over_lost_connections_and_a_restart(place: Place) -> None:
    async with connect(place.url, backoff=FAST) as client, connect(place.url, backoff=FAST) as publisher:
        stream = client.consume("c", "/a", from_offset=0)  # it opens itself
        await fill(publisher, *range(10))
        got = await values(stream, 5)
        place.cut()
        await eventually(lambda: place.stands().members == 1)
        got += await values(stream, 3)
        await place.stop()
        await place.start()
        while got[-1] != 9:
            got += await values(stream, 1)
        assert sorted(set(got)) == list(range(10))
        first = [got.index(number) for number in range(10)]
        assert first == sorted(first)
        await stream.close()
        assert place.stands().held == 0


async def test_a_consumer_that_is_removed_ends_its_streams(place: Place) -> None:
    async with connect(place.url) as client:
        stream = client.consume("c", "/a")
        await stream.open()
        assert await client.remove_consumer("c")
        with pytest.raises(RequestFailedError, match=r"was removed|there is no consumer"):
            await stream.receive()
        assert not await client.remove_consumer("c")
        await stream.close()
        with pytest.raises(RequestFailedError, match="there is no consumer"):
            await client.consume("c").open()


async def test_values_that_cannot_be_read_are_told_and_passed_over(place: Place) -> None:
    bad: list[Any] = []
    async with connect(place.url, on_bad_message=bad.append) as client:
        await fill(client, 0)
        client.publish_packed_nowait("/a", b"\xa2\xff\xff")  # text that is no UTF-8
        await fill(client, 1)
        async with client.consume("c", "/a", from_offset=1) as stream:
            assert await values(stream, 1) == [1]
        assert [each.topic for each in bad] == ["/a"]
        assert place.stands().position == 3


async def test_refused(place: Place, tmp_path: Path) -> None:
    async with connect(place.url) as client:
        with pytest.raises(UsageError):
            client.consume("c", redeliver_s=1.0)
    daemon = Daemon(load({"listen": [f"unix://{tmp_path}/other.sock"]}, {}), "other")
    await daemon.start()
    async with connect(daemon.endpoints[0].location) as client:
        with pytest.raises(RejectedError, match="keeps no consumers"):
            await client.consume("c", "/a").open()
    await daemon.stop(asyncio.get_running_loop().time())


async def test_for_threads(place: Place) -> None:
    def work() -> list[Any]:
        with connect_blocking(place.url) as client:
            for number in range(10):
                client.publish_confirmed("/a", number)
            found = []
            with client.consume("c", "/a", from_offset=0) as stream:
                assert stream.name == "c"
                for message in stream:
                    found.append((message.offset, message.topic, message.value, message.deliveries))
                    message.ack()
                    if message.value == 4:
                        break
                    if message.value == 3:
                        again = stream.receive(timeout_s=10)
                        again.in_progress()
                        again.nak(delay_s=0.01)
                while len(found) < 9:
                    batch = stream.batch(timeout_s=10)
                    found += [(each.offset, each.topic, each.value, each.deliveries) for each in batch]
                    stream.ack_up_to(batch[-1])
            assert stream.ended
            assert stream.late_acks == 0
            assert client.remove_consumer("c")
            return found

    found = await asyncio.to_thread(work)
    assert found == [(number, "/a", number, 1 if number < 4 else 2) for number in range(10)]


async def recorded(client: Client) -> list[Any]:
    return [record.value async for record in client.read()]


async def test_connections_that_are_lost(place: Place) -> None:
    async with connect(place.url, backoff=FAST) as client:
        writer = client.writer("")
        offsets: list[int | None] = []
        for number in range(0, 60, 3):
            publishing = [asyncio.ensure_future(writer.publish("/a", number + each)) for each in range(3)]
            for _ in range(number):  # so that it is cut at other places each time
                await asyncio.sleep(0)
            place.cut()
            offsets += await asyncio.gather(*publishing)
        assert offsets == list(range(60))
        assert await recorded(client) == list(range(60))


async def test_a_program_that_begins_anew(place: Place) -> None:
    async with connect(place.url) as client:
        writer = client.writer("w")
        await writer.publish("/a", 1, sequence=1)
        await asyncio.gather(*(writer.publish("/a", number, sequence=number) for number in (2, 3, 4)))
        again = client.writer("w")
        numbers = range(3, 8)
        offsets = await asyncio.gather(*(again.publish("/a", number, sequence=number) for number in numbers))
        assert offsets == [None, 3, 4, 5, 6]
        assert await recorded(client) == list(range(1, 8))


async def test_what_a_writer_is_refused(place: Place) -> None:
    async with connect(place.url) as client:
        writer = client.writer("w")
        with pytest.raises(InvalidTopicError):
            await writer.publish("$hub/x", 1)
        with pytest.raises(UsageError):
            client.writer("x" * 200)
        with pytest.raises(RejectedError, match="accepts"):
            await writer.publish("/a", bytes(17 << 20))
        assert await writer.publish("/a", 1, sequence=5) == 0
        with pytest.raises(UsageError, match="above 5"):
            await writer.publish("/a", 1, sequence=5)
        with pytest.raises(RejectedError, match="not recorded here"):
            await writer.publish("/b", 1, sequence=6)
        assert await writer.publish("/a", 2, sequence=6) == 1


class _Failing:
    def __init__(self) -> None:
        self.batches: list[int] = []
        self._fails = True

    async def stage(self, stage: Stage) -> None:
        """Take it."""

    async def commit(self, commit: Commit) -> Committed:
        self.batches.append(commit.batch)
        if len(self.batches) > 1 and self._fails:
            self._fails = False
            raise RejectedError(4012, "not recorded: the disk is full")
        return Committed(0, 1, again=False)


async def test_after_a_failure_each_message_is_asked_for_alone() -> None:
    """What waited behind a failure fails, too; and what is published again may be there, so it is no batch of many."""
    journal = _Failing()
    access: Any = journal
    writer = Writer(access, "w", lambda: None, lambda: False)
    assert await writer.publish("/a", 1, sequence=1) == 0
    results = await asyncio.gather(
        *(writer.publish("/a", number, sequence=number) for number in (2, 3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [RejectedError, RejectedError]
    await asyncio.gather(*(writer.publish("/a", number, sequence=number) for number in (2, 3, 4)))
    assert journal.batches == [1, 3, 2, 4]


async def test_a_client_that_ends() -> None:
    class _Gone:
        async def stage(self, _: Stage) -> None:
            raise ConnectionLostError(1006, "lost")

    access: Any = _Gone()
    writer = Writer(access, "w", lambda: None, lambda: True)
    with pytest.raises(ConnectionLostError):
        await writer.publish("/a", 1)


async def test_a_writer_for_threads(place: Place) -> None:
    def work() -> list[Any]:
        with connect_blocking(place.url) as client:
            writer = client.writer("w")
            assert writer.name == "w"
            return [writer.publish("/a", number, sequence=number, timeout_s=10) for number in (1, 2, 3)]

    assert await asyncio.to_thread(work) == [0, 1, 2]


async def test_a_client_that_is_closed_ends_its_streams(place: Place) -> None:
    client = await connect(place.url)
    stream = client.consume("c", "/a")
    await stream.open()
    waiting = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ClosedError):
        await waiting
    assert await stream.batch() == []
