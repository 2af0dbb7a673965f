"""What a client asks of a hub's journal: numbered, answered once, and asked again where that changes nothing."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from hub.errors import CloseCode, ClosedError, ConnectionLostError, GoneError, HubError, ProtocolError, RejectedError
from peers.client import conversation as numbering
from peers.client import journal as journal_module
from peers.client.journal import JournalAccess
from peers.wire.control import Notice
from peers.wire.hello import ID_BYTES, Hello
from peers.wire.records import Commit, Fetch, Records, Stage
from tests.hubs.eventually import eventually

JOURNAL = b"0123456789abcdef"
OTHER = b"fedcba9876543210"


class FakeConnection:
    def __init__(self) -> None:
        self.sent: list[Fetch | Stage | Commit] = []
        self.writes = 0
        self.conversation = self

    def say(self, verb: Fetch | Stage | Commit) -> None:
        self.sent.append(verb)

    def write_outgoing(self) -> None:
        self.writes += 1


class Bench:
    def __init__(self) -> None:
        self.waiting: list[bool] = []
        self.access = JournalAccess(lambda: self.waiting.append(self.access.waiting))
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
async def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(journal_module, "_AGAIN_S", (0.0, 0.0))
    bench = Bench()
    bench.connect()
    return bench


# FETCH.


def test_parts_share_no_number() -> None:
    parts = [numbering.SUBSCRIPTIONS, numbering.NAMES, numbering.TOKENS, numbering.SERVICES, numbering.JOURNAL]
    assert all(one.stop == following.start for one, following in pairwise(parts))
    assert (parts[0].start, parts[-1].stop) == (1, 1 << 32)


async def test_numbers_begin_again(bench: Bench) -> None:
    bench.access._numbers.last = numbering.JOURNAL.stop - 1
    asking = await bench.begin(bench.access.fetch(Fetch(1)))
    assert bench.connection.sent[0].request == numbering.JOURNAL.start
    bench.access.receive(bench.records())
    await asking


@pytest.mark.parametrize(
    ("code", "offset", "kind"),
    [
        (CloseCode.GONE, 5, GoneError),
        (CloseCode.GONE, None, RejectedError),
        (CloseCode.JOURNAL_FAILED, None, RejectedError),
    ],
)
async def test_refusals(bench: Bench, code: int, offset: int | None, kind: type[RejectedError]) -> None:
    asking = await bench.begin(bench.access.fetch(Fetch(1)))
    bench.access.receive(bench.error(code, "text", offset))
    with pytest.raises(kind, match="text") as caught:
        await asking
    assert type(caught.value) is kind
    assert caught.value.code == code
    if isinstance(caught.value, GoneError):
        assert caught.value.first == 5


@pytest.mark.parametrize("code", [CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY])
async def test_what_cannot_be_answered_now_is_asked_again(bench: Bench, code: int) -> None:
    asking = await bench.begin(bench.access.fetch(Fetch(1, 7)))
    for times in (1, 2, 3):
        assert len(bench.connection.sent) == times
        bench.access.receive(bench.error(code))
        await eventually(lambda times=times: asking.done() or len(bench.connection.sent) > times)  # type: ignore[misc]
    with pytest.raises(RejectedError) as caught:
        await asking
    assert caught.value.code == code
    assert {(fetch.start, type(fetch)) for fetch in bench.connection.sent if isinstance(fetch, Fetch)} == {(7, Fetch)}


async def test_a_fetch_of_another_journal(bench: Bench) -> None:
    asking = await bench.begin(bench.access.fetch(Fetch(1, 7)))
    bench.access.disconnected(again=True)
    connection = bench.connect(OTHER)
    with pytest.raises(RejectedError, match="the hub has another journal than before") as caught:
        await asking
    assert caught.value.code == CloseCode.GONE
    assert connection.sent == []
    assert bench.access.id == OTHER
    asking = await bench.begin(bench.access.fetch(Fetch(1, 7)))
    bench.access.receive(bench.records())
    await asking


async def test_a_fetch_of_the_journal_of_another_hub(bench: Bench) -> None:
    asking = await bench.begin(bench.access.fetch(Fetch(1, 7, hub="b")))
    bench.access.disconnected(again=True)
    connection = bench.connect(OTHER)
    (sent,) = connection.sent
    assert (sent.start, sent.hub) == (7, "b")
    bench.access.receive(bench.records(start=7))
    assert (await asking).start == 7


# STAGE and COMMIT.


@pytest.mark.parametrize("code", [CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY, CloseCode.GONE])
async def test_a_commit_is_not_repeated(bench: Bench, code: int) -> None:
    asking = await bench.begin(bench.access.commit(Commit(1, "t")))
    bench.access.receive(bench.error(code))
    with pytest.raises(RejectedError):
        await asking
    assert len(bench.connection.sent) == 1


async def test_a_commit_that_is_lost(bench: Bench) -> None:
    asking = await bench.begin(bench.access.commit(Commit(1, "t")))
    bench.access.disconnected(again=True)
    with pytest.raises(ConnectionLostError, match="before the hub answered"):
        await asking
    with pytest.raises(ConnectionLostError, match="there is no connection now"):
        await bench.access.stage(Stage(0, "t", 0, b""))
    assert bench.connect().sent == []


async def test_an_answer_of_another_kind(bench: Bench) -> None:
    asking = await bench.begin(bench.access.commit(Commit(1, "t")))
    bench.access.receive(bench.records())
    with pytest.raises(RejectedError, match="no answer to that"):
        await asking


# The end.


@pytest.mark.parametrize("ended", [ClosedError("the client is closed"), ProtocolError(1002, "nonsense")])
async def test_the_end(bench: Bench, ended: HubError) -> None:
    asking = [await bench.begin(bench.access.fetch(Fetch(1))), await bench.begin(bench.access.commit(Commit(1, "t")))]
    bench.access.finish(ended)
    for task in asking:
        with pytest.raises(type(ended)):
            await task
    with pytest.raises(type(ended)):
        await bench.access.fetch(Fetch(1))
    assert not bench.access.waiting
