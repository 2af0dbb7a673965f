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
from peers.journal import recorder as recorder_module
from peers.journal.journal import Journal, WaitingFetches
from peers.journal.recorder import Answer
from peers.journal.remote_journals import JournalStatistics, NoJournal
from peers.journal.staging import Committed
from peers.wire.records import Commit, Fetch, Records, Stage, decode_records
from tests.hub.fakes import Turn
from tests.journal.files import everything, opened, records

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


async def test_topics_are_not_looked_up_for_a_fetch_that_no_longer_waits() -> None:
    lengths: list[int] = []

    class Topic(str):
        __slots__ = ()

        def __getitem__(self, part: Any) -> str:
            lengths.append(part.stop)
            return super().__getitem__(part)

    waiting = WaitingFetches(lambda *_: None, lambda: 0)
    fetches = [Fetch(1, prefixes=(prefix,), wait_ms=60_000) for prefix in ("/a", "/bc")]
    cancel, _ = [waiting.add(fetch, lambda _: None, None, 60.0) for fetch in fetches]
    waiting.committed(0, 1, [Topic("/x")])
    cancel()
    waiting.committed(1, 2, [Topic("/x")])
    assert lengths == [2, 3, 3]


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
