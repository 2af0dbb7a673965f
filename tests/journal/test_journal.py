"""A hub's journal put together: recording, reading what is on its way, writers' batches, trouble, and the end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode, JournalUnavailableError, RejectedError
from hub.journal.segment import Write
from hub.messages.batch import Batch
from hub.messages.frame import HEADER_BYTES
from hub.settings.settings import JournalSettings, Limits
from peers.journal import journal as journal_module
from peers.journal import recorder as recorder_module
from peers.journal.forms import Order
from peers.journal.journal import Journal
from peers.journal.recorder import Answer
from peers.journal.remote_journals import JournalStatistics, NoJournal
from peers.journal.staging import Committed
from peers.wire.records import Commit, Fetch, Records, Stage, decode_records
from tests.hub.fakes import Turn
from tests.hubs.eventually import eventually
from tests.journal.files import crashed, everything, lose_power, opened, records, segments

pytestmark = pytest.mark.usefixtures("uncaught")

Outcome = Records | RejectedError


class Bench:
    def __init__(self, path: Path, limits: Limits | None = None, **settings: Any) -> None:
        self.path = path
        self.turn = Turn()
        defaults = JournalSettings(path=str(path), commit_s=0.001, topics=("/",))
        self.journal = Journal(self.turn.core, msgspec.structs.replace(defaults, **settings), limits or Limits())
        self.publisher, self.outlet = self.turn.join("/heard/")
        self.request = 0

    def seen(self) -> JournalStatistics:
        statistics = self.journal.statistics()
        assert statistics is not None
        return statistics

    def publish(self, *values: Any, topic: str = "/a") -> None:
        self.turn.publish(self.publisher, topic, *values)
        self.turn.core.flush()

    def confirm(self, answer: Answer, *values: Any, topic: str = "/a") -> None:
        route = self.turn.core.routes.find(topic)
        publish = partial(self.turn.core.publish, self.publisher, route)
        self.journal.confirm(route, Batch.of(topic, values), publish, answer)

    async def confirmed(self, *values: Any, topic: str = "/a") -> int | RejectedError:
        told: asyncio.Future[int | RejectedError] = asyncio.get_running_loop().create_future()
        self.confirm(told.set_result, *values, topic=topic)
        self.turn.core.flush()
        return await told

    def fetch(self, **wanted: Any) -> asyncio.Future[Outcome]:
        self.request += 1
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def deliver(outcome: bytes | bytearray | RejectedError) -> None:
            answer.set_result(
                outcome if isinstance(outcome, RejectedError) else decode_records(bytes(outcome[HEADER_BYTES:]))
            )

        self.cancel = self.journal.fetch(Fetch(self.request, **wanted), deliver)
        return answer

    async def read(self, **wanted: Any) -> Records:
        found = await self.fetch(**wanted)
        assert isinstance(found, Records)
        return found

    async def stage(self, transaction: str, part: int, *values: Any) -> RejectedError | None:
        told: asyncio.Future[RejectedError | None] = asyncio.get_running_loop().create_future()
        frames = Batch.of("/heard/x", values).frames
        self.journal.stage(self.publisher, Stage(1, transaction, part, frames), told.set_result)
        return await told

    async def commit(self, transaction: str, *parts: int, **fields: Any) -> Committed | RejectedError:
        told: asyncio.Future[Committed | RejectedError] = asyncio.get_running_loop().create_future()
        self.journal.commit(self.publisher, Commit(1, transaction, parts=list(parts), **fields), told.set_result)
        return await told


@pytest.fixture
async def bench(path: Path) -> AsyncIterator[Bench]:
    bench = Bench(path)
    yield bench
    await bench.journal.stop()


def beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


async def test_topics_that_are_not_recorded(path: Path) -> None:
    bench = Bench(path, Limits(prefixes_per_client=5), topics=("/a/b", "/c/"))
    for topic in ("/a", "/c"):
        outcome = await bench.confirmed(1, topic=topic)
        assert isinstance(outcome, RejectedError)
        assert outcome.code == CloseCode.NOT_ALLOWED
        assert outcome.text == "topic not recorded here; see journal.topics of the hub"
    assert (await bench.confirmed(1, topic="/c/"), await bench.confirmed(1, topic="/a/bc")) == (0, 1)
    for prefixes, code, text in (
        (("/a/c",), CloseCode.NOT_ALLOWED, "journal.topics"),
        (("/b",), CloseCode.NOT_ALLOWED, "journal.topics"),
        (("$hub/",), CloseCode.NOT_ALLOWED, "journal.topics"),
        (("/a",) * 6, CloseCode.NOT_ALLOWED, "FETCH: 6 prefixes, the limit for a client is 5"),
        (("/a", "x" * 1025), CloseCode.BAD_DATA, "is 1025 bytes long"),
        (("\n",), CloseCode.BAD_DATA, "control character"),
    ):
        answer = await bench.fetch(prefixes=prefixes, start=2, wait_ms=60_000)
        assert isinstance(answer, RejectedError)
        assert (answer.code, text in answer.text) == (code, True)
    for prefix in ("/a", "/a/b/x", ""):
        assert not bench.fetch(prefixes=(prefix,), start=2, wait_ms=60_000).done()
        bench.cancel()
    await bench.journal.stop()


async def test_what_is_on_its_way_is_waited_for(path: Path) -> None:
    bench = Bench(path, commit_s=0.05)
    await bench.confirmed(0)
    bench.publish(1)
    found = await bench.read(start=1)
    assert [record.body for record in records(found.blocks)] == [b"\1"]
    await bench.journal.stop()


async def test_waiting_for_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted in ({"bytes": 0, "wait_ms": 60_000}, {"time": 5, "wait_ms": 60_000}, {"end": 0}):
        found = await bench.read(**wanted)
        assert (found.start, found.next, found.head) == (0, 0, 0)
    answer = bench.fetch(start=0, wait_ms=60_000)
    told: list[object] = []
    bench.journal.fetch(Order(1, prefixes=("/a",), wait_ms=60_000, granted=(((("/a/b", True)),),)), told.append)
    for _ in range(5):
        await asyncio.sleep(0)
    assert (answer.done(), bench.seen().fetches) == (False, 2)
    bench.publish(1, topic="/a/c")
    found_now = await answer
    assert isinstance(found_now, Records)
    assert found_now.next == 1
    assert told == []
    await bench.confirmed(1, topic="/a/b")
    await eventually(lambda: len(told) == 1)
    monkeypatch.setattr(journal_module, "_COMMIT_WAIT_S", 0.0)
    found = await bench.read(start=2, wait_ms=1)
    assert found == Records(bench.request, 2, 2, 0, 2, [], epoch=bench.journal.epoch)
    for wanted in ({"start": 5}, {"start": 5, "time": 2**63 - 1}):
        frame: asyncio.Future[bytes | bytearray | RejectedError] = asyncio.get_running_loop().create_future()
        bench.journal.fetch(Fetch(1, **wanted), frame.set_result)  # type: ignore[arg-type]
        refusal = await frame
        assert not isinstance(refusal, RejectedError)
        assert (b"behind the end of the journal" in refusal) is ("time" not in wanted)


async def test_waiting_for_some_topics(bench: Bench) -> None:
    quiet = bench.fetch(start=0, prefixes=("/q/x", "/quiet/"), wait_ms=60_000)
    ending = bench.fetch(start=0, end=2, prefixes=("/quiet",), wait_ms=60_000)
    either = [bench.fetch(start=0, prefixes=("/b", "/a"), wait_ms=60_000) for _ in range(3)]
    await bench.confirmed(0, topic="/a/x")
    for found in await asyncio.gather(*either):
        assert isinstance(found, Records)
        assert (found.start, found.next, [record.topic for record in records(found.blocks)]) == (0, 1, ["/a/x"])
    await bench.confirmed(1, topic="/q")
    found = await ending
    assert isinstance(found, Records)
    assert found.next <= 2
    assert not quiet.done()
    await bench.confirmed(2, topic="/quiet/x")
    found = await quiet
    assert isinstance(found, Records)
    assert (found.request, found.start, found.next) == (1, 2, 3)


async def test_a_position_of_an_epoch_whose_end_is_lost(path: Path, tmp_path: Path) -> None:
    bench = Bench(path)
    await bench.confirmed(1, 2)
    written_bytes = segments(path)[-1].stat().st_size
    await bench.confirmed(3, 4, 5)
    before = (await bench.read(start=5)).epoch
    lost = crashed(path, tmp_path / "lost")
    lose_power(lost, written_bytes)
    await bench.journal.stop()
    bench = Bench(lost)
    await bench.confirmed(6, 7, 8, 9)
    now = bench.journal.epoch
    for start, epoch, begins in ((5, before, 2), (2, before, 2), (1, before, 1), (5, 0, 5), (5, now, 5)):
        found = await bench.read(start=start, epoch=epoch)
        assert (found.start, found.next, found.epoch) == (begins, 6, now)
    statistics = bench.seen()
    assert statistics.cuts_total == 1
    await bench.journal.stop()


async def test_waiting_may_be_given_up(bench: Bench) -> None:
    answer = bench.fetch(start=0, wait_ms=60_000)
    bench.cancel()
    bench.cancel()
    await bench.confirmed(1)
    assert not answer.done()
    seen = bench.seen()
    assert (seen.fetches, seen.readers) == (0, 0)
    await bench.fetch()
    bench.cancel()


async def test_a_batch_among_others(bench: Bench) -> None:
    assert await bench.stage("t", 0, *range(50)) is None
    committing = asyncio.ensure_future(bench.commit("t", 0, query="q", batch=0))
    for number in range(100):
        bench.publish(number)
        await asyncio.sleep(0)
    committed = await committing
    assert isinstance(committed, Committed)
    await bench.confirmed(0)
    found = records((await bench.read()).blocks)
    mine = [record.offset for record in found if record.topic == "/heard/x"]
    assert mine == list(range(committed.first, committed.first + 50))
    assert [record.offset for record in found] == list(range(151))


async def test_what_is_left_is_swept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(path, staged_s=1.0)
    await bench.stage("t", 0, 1)
    loop = asyncio.get_running_loop()
    for later_s, left in ((0, 1), (10, 0)):
        now_s = loop.time() + later_s
        with monkeypatch.context() as patch:
            patch.setattr(bench.journal, "_loop", SimpleNamespace(time=lambda now_s=now_s: now_s))
            bench.journal.tick()
        assert len(bench.seen().staging) == left
    await bench.journal.stop()


async def test_a_journal_that_cannot_be_opened(path: Path) -> None:
    with pytest.raises(JournalUnavailableError, match="a hub with a journal takes at most 536870912"):
        Bench(path, Limits(frame_bytes=600 << 20))
    assert beside(path) == []
    first = opened(path)
    turn = Turn()
    with pytest.raises(JournalUnavailableError, match="another hub has this journal open"):
        Journal(turn.core, JournalSettings(path=str(path)), Limits())
    assert turn.core.handlers == {}
    first.close()
    opened(path).close()


async def test_stopping(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_commit = threading.Event()
    clock = SimpleNamespace(monotonic=time.monotonic, time_ns=time.time_ns, sleep=lambda _: may_commit.wait())
    monkeypatch.setattr(recorder_module, "time", clock)
    bench = Bench(path, commit_s=1.0)
    reading = bench.fetch(start=1, wait_ms=60_000)
    for number in range(99):
        bench.publish(number)
    told: list[int | RejectedError] = []
    bench.confirm(told.append, 99)
    assert await bench.stage("t", 0, "staged") is None
    bench.journal.commit(bench.publisher, Commit(1, "u"), lambda _: None)
    asyncio.get_running_loop().call_soon(may_commit.set)
    await bench.journal.stop()
    assert told == [99]
    assert beside(path) == ["journal"]
    assert [record.offset for record in everything(path)] == list(range(100))
    outcome = await reading
    assert isinstance(outcome, RejectedError)
    assert outcome.code == CloseCode.GOING_AWAY


async def test_stopping_in_the_middle_of_a_batch(path: Path) -> None:
    bench = Bench(path)
    for part in range(20):
        assert await bench.stage("t", part, b"x" * 100_000) is None
    bench.journal.commit(bench.publisher, Commit(1, "t", "q", 3, list(range(20))), lambda _: None)
    await asyncio.sleep(0)
    assert 0 < (bench.journal.recorder.position() or 0) < 20
    await bench.journal.stop()
    assert len(everything(path)) == 20
    journal = opened(path)
    assert journal.writes == [Write("q", 3, 0, 20)]


async def test_no_journal() -> None:
    journal = NoJournal()
    told: list[Any] = []
    turn = Turn()
    published: list[Batch] = []
    journal.confirm(turn.core.routes.find("/a"), Batch.of("/a", [1]), published.append, told.append)
    assert len(published) == 1
    await journal.settle()
    journal.fetch(Fetch(1), told.append)()
    journal.stage(turn.join()[0], Stage(1, "t", 0, b""), told.append)
    journal.commit(turn.join()[0], Commit(1, "t"), told.append)
    assert {str(error) for error in told} == {"this hub has no journal; start it with --journal PATH (1008)"}
    assert len(told) == 4
    assert (journal.recorder, journal.statistics(), journal.id, journal.trouble) == (None, None, b"", "")
