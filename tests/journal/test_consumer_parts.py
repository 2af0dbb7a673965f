"""Parts of consumers: their positions on the disk, what they read, and what other hubs ask for their clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from hub.consumers.consumer import Progress, Terms
from hub.errors import CloseCode, JournalCorruptError, JournalUnavailableError, RejectedError
from hub.journal.block import pack
from hub.messages.batch import Batch
from hub.messages.frame import encode_frame
from hub.messages.request_frame import Reply, Request, Status
from hub.requests.hub_services import Later, target_at
from peers.journal.consumers import positions as positions_module
from peers.journal.consumers import remote_consumers as far_module
from peers.journal.consumers import served as served_module
from peers.journal.consumers.positions import Kept, Positions
from peers.journal.consumers.remote_consumers import GONE, WHAT, ForHubs, Question, RemoteClient, encode_question
from peers.journal.consumers.served import Reading
from peers.journal.readers import Deliver
from peers.wire.control import Notice, encode_notice
from peers.wire.kinds import Kind
from peers.wire.records import Fetch, Records, records_parts
from tests.hub.requests.party import Room, values_of
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually

pytestmark = pytest.mark.usefixtures("uncaught")

ID = b"i" * 16


def kept(position: int) -> Kept:
    return Kept(Terms(("/a",), deliveries=3), Progress(position, (position + 2,), {position: 1}))


def opened(path: Path, journal_id: bytes = ID) -> Positions:
    return Positions(str(path), journal_id, full_sync=False)


async def test_what_was_put_last_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    empty = opened(path)
    await empty.stop()
    assert not path.exists()
    first = opened(path)
    stands = [1]
    first.put("a", lambda: kept(stands[0]))
    first.put("b", lambda: kept(7))
    stands[0] = 2
    await first.stop()
    await first.stop()
    again = opened(path)
    assert again.kept == {"a": kept(2), "b": kept(7)}
    again.put("b", None)
    await again.stop()
    last = opened(path)
    assert last.kept == {"a": kept(2)}
    await last.stop()
    other = opened(path, b"j" * 16)
    assert other.kept == {}
    await other.stop()


async def test_a_disk_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = positions_module._write

    def fail(_connection: apsw.Connection, _waiting: dict[str, Kept | None]) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(positions_module, "_write", fail)
    file = opened(tmp_path / "c.db")
    saved: asyncio.Future[RejectedError | None] = asyncio.get_running_loop().create_future()
    file.put("a", lambda: kept(1), saved.set_result)
    error = await saved
    assert error is not None
    assert "full" in error.text
    assert file.failures_total == 1
    monkeypatch.setattr(positions_module, "_write", write)
    file.put("b", lambda: kept(2))
    file.retry()
    await eventually(lambda: not file._waiting and file._saving is None)
    await file.stop()
    again = opened(tmp_path / "c.db")
    assert again.kept == {"a": kept(1), "b": kept(2)}
    await again.stop()


async def test_files_that_are_none(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    other = tmp_path / "other.db"
    with apsw.Connection(str(other)) as connection:
        connection.pragma("application_id", 5)
    for path in (damaged, other):
        with pytest.raises(JournalCorruptError, match=path.name):
            opened(path)
    folder = tmp_path / "folder.db"
    folder.mkdir()
    with pytest.raises(JournalUnavailableError, match=folder.name):
        opened(folder)


class Source:
    def __init__(self) -> None:
        self.asked: list[Fetch] = []
        self.cancelled = 0
        self._deliver: Deliver | None = None
        self.news = 0
        self.reading = Reading(self._fetch, ("/a",), self._tell)

    def _fetch(self, fetch: Fetch, deliver: Deliver) -> Callable[[], None]:
        self.asked.append(fetch)
        self._deliver = deliver
        return self._cancel

    def _cancel(self) -> None:
        self.cancelled += 1

    def _tell(self) -> None:
        self.news += 1

    def answer(self, outcome: bytes | RejectedError) -> None:
        assert self._deliver is not None
        self._deliver(outcome)


def piece(first: int, *values: int, following: int, head: int) -> bytes:
    blocks = [pack([(1, Batch.of("/a", values).frames)], first)[0]] if values else []
    parts = records_parts(Records(1, first, following, 0, head, blocks))
    return encode_frame(Kind.RECORDS, b"".join(parts))


@pytest.mark.parametrize("by", ["frame", "refusal"])
async def test_a_piece_is_taken_record_by_record(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    monkeypatch.setattr(served_module, "_PAUSE_S", 0.001)
    monkeypatch.setattr(served_module, "_AGAIN_S", 0.001)
    source = Source()
    for _ in range(2):
        source.reading.more(5)
    source.answer(piece(5, 1, 2, following=9, head=20))
    records = [source.reading.next_record() for _ in range(3)]
    assert [record and record.offset for record in records] == [5, 6, None]
    assert (source.reading.finished(), source.reading.finished(), source.news) == (9, None, 1)
    source.reading.more(9)
    source.answer(piece(9, following=20, head=20))
    source.reading.more(20)
    assert [fetch.start for fetch in source.asked] == [5, 9]
    await eventually(lambda: source.news == 3)
    source.reading.more(20)
    error = Notice("error", 1, code=CloseCode.JOURNAL_FAILED, text="damaged")
    source.answer(encode_notice(error) if by == "frame" else RejectedError(error.code, error.text))
    assert "offset 20" in source.reading.error
    assert "damaged" in source.reading.error
    await eventually(lambda: source.news == 4)
    source.reading.more(20)
    source.answer(encode_notice(Notice("error", 1, code=CloseCode.GONE, text="gone", offset=30)))
    assert (source.reading.gone_before, source.news, source.reading.error) == (30, 5, "")
    source.reading.more(30)
    source.reading.stop()
    source.answer(piece(30, 1, following=31, head=31))
    await asyncio.sleep(0)
    assert (source.cancelled, source.news) == (1, 5)


HERE, THERE = b"h" * 16, b"t" * 16


class Bench:
    def __init__(self) -> None:
        self.room = Room(hub_id=HERE)
        self.joined: list[RemoteClient] = []
        self.gone: list[RemoteClient] = []
        self.later = Later()
        functions = {"join": self._join, "take": lambda _client, _value: self.later}
        self.for_hubs = ForHubs(self.room.core, functions, self.gone.append)
        self.link, self.outlet = self.room.link(THERE)

    def _join(self, client: RemoteClient, value: Any) -> Any:
        self.joined.append(client)
        return value

    def ask(self, what: str, value: Any = None, *, client: int = 1, run: int = 1) -> list[tuple[int, Any]]:
        question = encode_question(Question(THERE, run, client, what, value))
        self.room.ask(self.link, Request(target_at(HERE, WHAT), 1, 0, question))
        return self.answers()

    def answers(self) -> list[tuple[int, Any]]:
        self.room.settle()
        return [(item.status, values_of(item)[0]) for item in self.outlet.take() if isinstance(item, Reply)]


def test_a_hub_that_was_started_anew_has_other_clients() -> None:
    bench = Bench()
    assert bench.ask("join", "a") == [(Status.OK, "a")]
    assert bench.ask("join", "b") == [(Status.OK, "b")]
    first, again = bench.joined
    assert first is again
    assert bench.ask("join", "c", run=2) == [(Status.OK, "c")]
    assert bench.gone == [first]
    assert first.is_gone
    assert not bench.joined[-1].is_gone


def test_a_link_of_another_user_does_not_speak_for_a_hub() -> None:
    """Whatever it says of the hub's clients, they are members still; and their own hub is answered."""
    bench = Bench()
    policy = policy_of('[roles.linked]\nlink = { bring = ["/c"], take = ["/c"] }\n[users]\nevil = ["linked"]\n')
    assert bench.ask("join", "a") == [(Status.OK, "a")]
    theirs = bench.link, bench.outlet
    bench.link, bench.outlet = bench.room.link(b"e" * 16)
    bench.link.rights = policy.rights("evil")
    for what, run in ((GONE, 1), ("take", 2), ("", 2)):
        ((status, text),) = bench.ask(what, run=run)
        assert status == Status.NOT_ALLOWED
        assert text.endswith("have come by the link of another user")
    assert bench.gone == []
    bench.link, bench.outlet = theirs
    assert bench.ask("join", "b") == [(Status.OK, "b")]
    assert len(set(bench.joined)) == 1


def test_a_client_that_has_left_is_gone_once() -> None:
    bench = Bench()
    bench.ask("join")
    for client in (1, 1, 2):
        assert bench.ask(GONE, client=client) == [(Status.OK, None)]
    assert bench.gone == bench.joined


def test_a_hub_that_is_reached_no_more() -> None:
    bench = Bench()
    bench.ask("join")
    bench.for_hubs.tick()
    assert bench.gone == []
    bench.room.core.detach(bench.link, "lost")
    bench.room.core.mesh.check(1.0)
    bench.for_hubs.tick()
    assert bench.gone == bench.joined


def test_what_is_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    assert bench.ask("dance") == [(Status.FAILED, "that hub answers no such question about its consumers")]
    bench.room.ask(bench.link, Request(target_at(HERE, WHAT), 1, 0, b"\x01"))
    ((status, text),) = bench.answers()
    assert status == Status.FAILED
    assert text.startswith("no question: ")
    monkeypatch.setattr(far_module, "ANSWERING_LIMIT", 1)
    assert bench.ask("take") == []
    assert bench.ask("take")[0][0] == Status.OVERFLOW
    bench.later.give([])
    assert bench.answers() == [(Status.OK, [])]
