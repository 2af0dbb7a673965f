"""A range of a journal, by iterating: piece by piece, one asked for ahead, up to an end that may be still to come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hub.batch import Batch
from hub.errors import GoneError, JournalCorruptError, RejectedError, UsageError
from hub.journal.block import pack
from peers.client import Client, connect
from peers.client.journal import History, Record, time_us
from peers.client.values import BadMessage
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.backoff import Backoff
from peers.wire.records import FETCH_BYTES, Fetch, Records

JOURNAL = b"0123456789abcdef"
AT_US = 1_700_000_000_000_000


def block(first: int, *values: Any, topic: str = "/a") -> bytes:
    (made,) = pack([(AT_US + first, Batch.of(topic, values).frames)], first)
    return made


class FakeAccess:
    def __init__(self, head: int, step: int = 4) -> None:
        self.id = JOURNAL
        self.told = b""
        self.head = head
        self.step = step
        self.asked: list[Fetch] = []
        self.more = asyncio.Event()
        self.pieces: dict[int, Any] = {}
        """What is answered instead, by offset."""
        self.lost_from = head + 1_000
        """Whoever has read further is cut back to here."""

    async def fetch(self, fetch: Fetch) -> Records:
        self.asked.append(fetch)
        await asyncio.sleep(0)
        if fetch.wait_ms and fetch.start == self.head:
            await self.more.wait()
        start = min(fetch.start if fetch.time is None else fetch.time, self.lost_from)
        instead = self.pieces.get(start)
        if isinstance(instead, Exception):
            raise instead
        following = max(start, min(start + self.step, self.head, fetch.end if fetch.end is not None else self.head))
        blocks = [block(start, *range(start, following))] if following > start else []
        return Records(1, start, following, 0, self.head, blocks if instead is None else [instead], self.told, 9)


class Bench:
    def __init__(self, head: int, **fields: Any) -> None:
        self.access = FakeAccess(head)
        self.bad: list[BadMessage] = []
        wanted: dict[str, Any] = {"start": 0, "end": None, "start_time": None, "piece_bytes": FETCH_BYTES}
        prefixes = fields.pop("prefixes", ())
        self.history = History(self.access, prefixes, **(wanted | fields), on_bad=self.bad.append)  # type: ignore[arg-type]

    async def values(self) -> list[Any]:
        return [record.value async for record in self.history]


@pytest.mark.parametrize(
    ("start", "end", "values"),
    [
        (0, None, range(10)),
        (3, None, range(3, 10)),
        (3, 7, range(3, 7)),
        (10, None, []),
        (4, 4, []),
        (0, 10, range(10)),
    ],
)
async def test_ranges(start: int, end: int | None, values: list[int]) -> None:
    bench = Bench(10, start=start, end=end)
    assert await bench.values() == list(values)
    starts = [fetch.start for fetch in bench.access.asked]
    assert starts == sorted(set(starts))
    assert all(fetch.start < (end or 10) for fetch in bench.access.asked[1:])
    assert {fetch.wait_ms for fetch in bench.access.asked} == {0}


async def test_the_end_is_what_is_committed_when_reading_begins() -> None:
    bench = Bench(10)
    found = []
    async for record in bench.history:
        found.append(record.value)
        bench.access.head += 5
    assert found == list(range(10))
    assert [fetch.end for fetch in bench.access.asked] == [None, 10, 10]


async def test_an_end_that_is_to_come_is_waited_for() -> None:
    bench = Bench(6, end=9)
    reading = asyncio.ensure_future(bench.values())
    for _ in range(50):
        await asyncio.sleep(0)
    assert [(fetch.start, fetch.wait_ms > 0) for fetch in bench.access.asked] == [(0, False), (4, False), (6, True)]
    bench.access.head = 9
    bench.access.more.set()
    assert await reading == list(range(9))


async def test_one_piece_is_asked_for_ahead() -> None:
    bench = Bench(100)
    pieces = bench.history.pieces()
    for number in range(1, 5):
        await anext(pieces)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(bench.access.asked) == number + 1
    await pieces.aclose()


async def test_a_time() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    assert time_us(moment) == 1767323045678901
    assert time_us(None) is None
    bench = Bench(10, start_time=datetime.fromtimestamp(0.000003, UTC))
    assert await bench.values() == list(range(3, 10))
    assert [fetch.time for fetch in bench.access.asked] == [3, None]


async def test_what_was_read_is_lost() -> None:
    bench = Bench(10, epoch=7)
    pieces = bench.history.pieces()
    await anext(pieces)
    bench.access.lost_from = 2
    with pytest.raises(GoneError, match="lost power") as caught:
        await anext(pieces)
    assert (caught.value.first, bench.history.next) == (2, 4)
    assert [fetch.epoch for fetch in bench.access.asked] == [7, 9]


async def test_no_such_column() -> None:
    with pytest.raises(UsageError, match="there is no column 'size': there are offset, time, topic, value"):
        Bench(2, columns=("size",))


async def test_damaged_blocks() -> None:
    whole = block(0, 1, 2)
    flipped = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    bench = Bench(2)
    bench.access.pieces[0] = flipped
    assert len([found async for found in bench.history.blocks()]) == 1
    for data, verify in ((flipped, True), (b"nonsense", False)):
        bench = Bench(2)
        bench.access.pieces[0] = data
        with pytest.raises(JournalCorruptError):
            _ = [found async for found in bench.history.blocks(verify=verify)]


@pytest.mark.parametrize("at", [0, 4])
async def test_errors(at: int) -> None:
    bench = Bench(10)
    bench.access.pieces[at] = GoneError("gone", 7)
    records = aiter(bench.history)
    assert [(await anext(records)).value for _ in range(at)] == list(range(at))
    with pytest.raises(GoneError, match="gone"):
        await anext(records)
    assert bench.history.next == at


async def test_who_stops_reading() -> None:
    uncaught: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    bench = Bench(100)
    bench.access.pieces[4] = GoneError("gone", 7)
    pieces = bench.history.pieces()
    await anext(pieces)
    for _ in range(10):
        await asyncio.sleep(0)
    await pieces.aclose()
    assert bench.history.next == 0
    del pieces, bench
    assert len(asyncio.all_tasks()) == 1
    assert uncaught == []


async def test_another_journal() -> None:
    bench = Bench(100)
    records = aiter(bench.history)
    assert [(await anext(records)).value for _ in range(4)] == list(range(4))
    bench.access.id = b"another journal!"
    with pytest.raises(RejectedError, match="the hub has another journal than before"):
        await anext(records)


async def test_another_hub_under_the_same_name() -> None:
    bench = Bench(100, hub="b")
    bench.access.told = b"of another hub!!"
    records = aiter(bench.history)
    assert (await anext(records)).value == 0
    bench.access.told = b"of a third hub!!"
    with pytest.raises(RejectedError, match="the hub has another journal than before"):
        async for _ in records:
            pass


# With a hub.


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Daemon]:
    loaded = load({"listen": [f"unix://{tmp_path}/hub.sock"], "journal": {"path": str(tmp_path / "journal")}}, {})
    daemon = Daemon(loaded, "test hub")
    await daemon.start()
    yield daemon
    await daemon.stop()


@pytest.fixture
async def client(hub: Daemon) -> AsyncIterator[Client]:
    async with connect(hub.endpoints[0].location, backoff=Backoff(base_s=0.001, cap_s=0.01)) as client:
        yield client


async def test_reading_some_columns(client: Client) -> None:
    for number in range(1000):
        await client.publish(f"/n/{number % 10}", [number, "x" * 200])
    await client.publish_confirmed("/end", None)
    found = [record async for record in client.read("/n/3", columns=("offset", "topic"))]
    assert found == [Record(number, 0, "/n/3", None) for number in range(3, 1000, 10)]
    times = [record.time_us async for record in client.read(end=1000, columns=("time",))]
    assert len(times) == 1000
    assert 0 < min(times) <= max(times)
    for columns, most in ((("offset", "topic"), 1000 * 4 + 2000), ((), 500), (None, None)):
        pieces = [piece async for piece in client.read(end=1000, columns=columns).pieces()]
        size_bytes = sum(len(block) for piece in pieces for block in piece.blocks)
        assert size_bytes > 200_000 if most is None else size_bytes <= most
        assert pieces[-1].next == 1000


async def test_reading_goes_on_after_a_lost_connection(hub: Daemon, client: Client) -> None:
    for number in range(2000):
        await client.publish("/a", [number, "x" * 500])
    await client.publish_confirmed("/end", None)
    found = []
    async for record in client.read("/a", piece_bytes=100_000):
        found.append(record.value[0])
        if len(found) in {200, 900}:
            for connection in list(hub.node.connections):
                connection.abort()
    assert found == list(range(2000))
    assert client.statistics().connections >= 2
