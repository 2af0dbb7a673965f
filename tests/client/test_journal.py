"""What a client asks of a journal, numbered and answered once; and a range of one, by iterating, piece by piece."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from hub.errors import (
    CloseCode,
    ClosedError,
    GoneError,
    HubError,
    JournalCorruptError,
    ProtocolError,
    RejectedError,
    UsageError,
)
from hub.journal.block import pack
from hub.messages.batch import Batch
from peers.client import conversation as numbering
from peers.client import journal as journal_module
from peers.client.journal import History, JournalAccess
from peers.client.values import BadMessage
from peers.wire.control import Notice
from peers.wire.hello import ID_BYTES, Hello
from peers.wire.records import FETCH_BYTES, Commit, Fetch, Records, Stage
from tests.hubs.eventually import eventually

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
    await pieces.aclose()  # type: ignore[attr-defined]


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


async def test_who_stops_reading() -> None:
    uncaught: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    bench = Bench(100)
    bench.access.pieces[4] = GoneError("gone", 7)
    pieces = bench.history.pieces()
    await anext(pieces)
    for _ in range(10):
        await asyncio.sleep(0)
    await pieces.aclose()  # type: ignore[attr-defined]
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


OTHER = b"fedcba9876543210"


class FakeConnection:
    def __init__(self) -> None:
        self.sent: list[Fetch | Stage | Commit] = []

    def say(self, verb: Fetch | Stage | Commit) -> None:
        self.sent.append(verb)


class Asking:
    def __init__(self) -> None:
        self.access = JournalAccess()
        self.connection = FakeConnection()

    def connect(self, journal_id: bytes = JOURNAL) -> FakeConnection:
        self.connection = FakeConnection()
        hello = Hello(protocol=1, role="hub", id=bytes(ID_BYTES), journal=journal_id)
        self.access.connected(self.connection, hello)  # type: ignore[arg-type]
        return self.connection

    async def begin(self, asking: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(asking)
        await asyncio.sleep(0)
        return task

    def records(self, at: int = -1, **fields: Any) -> Records:
        request = self.connection.sent[at].request
        return Records(request, *[fields.get(name, 0) for name in ("start", "next", "first", "head")], blocks=[])

    def error(self, code: int, text: str = "no", offset: int | None = None) -> Notice:
        return Notice("error", request=self.connection.sent[-1].request, code=code, text=text, offset=offset)


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> Asking:
    monkeypatch.setattr(journal_module, "_AGAIN_S", (0.0, 0.0))
    bench = Asking()
    bench.connect()
    return bench


# FETCH.


def test_parts_share_no_number() -> None:
    parts = [numbering.SUBSCRIPTIONS, numbering.NAMES, numbering.TOKENS, numbering.SERVICES, numbering.JOURNAL]
    assert all(one.stop == following.start for one, following in pairwise(parts))
    assert (parts[0].start, parts[-1].stop) == (1, 1 << 32)


@pytest.mark.parametrize(
    ("verb", "code", "offset", "kind"),
    [
        (Fetch(1), CloseCode.GONE, 5, GoneError),
        (Fetch(1), CloseCode.GONE, None, RejectedError),
        (Fetch(1), CloseCode.JOURNAL_FAILED, None, RejectedError),
        (Commit(1, "t"), CloseCode.TRY_AGAIN_LATER, None, RejectedError),
        (Commit(1, "t"), CloseCode.GOING_AWAY, None, RejectedError),
    ],
)
async def test_refusals(bench: Asking, verb: Any, code: int, offset: int | None, kind: type) -> None:
    """They reach who asked; a commit is not repeated."""
    asking = await bench.begin((bench.access.fetch if isinstance(verb, Fetch) else bench.access.commit)(verb))
    bench.access.receive(bench.error(code, "text", offset))
    with pytest.raises(RejectedError, match="text") as caught:
        await asking
    assert (type(caught.value), caught.value.code) == (kind, code)
    assert getattr(caught.value, "first", None) == offset
    assert len(bench.connection.sent) == 1


@pytest.mark.parametrize("code", [CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY])
async def test_what_cannot_be_answered_now_is_asked_again(bench: Asking, code: int) -> None:
    asking = await bench.begin(bench.access.fetch(Fetch(1, 7)))
    for times in (1, 2, 3):
        assert len(bench.connection.sent) == times
        bench.access.receive(bench.error(code))
        await eventually(lambda times=times: asking.done() or len(bench.connection.sent) > times)  # type: ignore[misc]
    with pytest.raises(RejectedError) as caught:
        await asking
    assert caught.value.code == code
    assert {(fetch.start, type(fetch)) for fetch in bench.connection.sent if isinstance(fetch, Fetch)} == {(7, Fetch)}


async def test_a_fetch_of_the_journal_of_another_hub(bench: Asking) -> None:
    asking = await bench.begin(bench.access.fetch(Fetch(1, 7, hub="b")))
    bench.access.disconnected()
    connection = bench.connect(OTHER)
    (sent,) = connection.sent
    assert (sent.start, sent.hub) == (7, "b")
    bench.access.receive(bench.records(start=7))
    assert (await asking).start == 7


# STAGE and COMMIT.


async def test_an_answer_of_another_kind(bench: Asking) -> None:
    asking = await bench.begin(bench.access.commit(Commit(1, "t")))
    bench.access.receive(bench.records())
    with pytest.raises(RejectedError, match="no answer to that"):
        await asking


# The end.


@pytest.mark.parametrize("ended", [ClosedError("the client is closed"), ProtocolError(1002, "nonsense")])
async def test_the_end(bench: Asking, ended: HubError) -> None:
    asking = [await bench.begin(bench.access.fetch(Fetch(1))), await bench.begin(bench.access.commit(Commit(1, "t")))]
    bench.access.finish(ended)
    for task in asking:
        with pytest.raises(type(ended)):
            await task
    with pytest.raises(type(ended)):
        await bench.access.fetch(Fetch(1))
    assert not bench.access.waiting
