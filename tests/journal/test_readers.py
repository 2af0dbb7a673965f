"""Reader processes: what one makes of an order, and the hub's side of them: each FETCH is answered once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, JournalCorruptError, RejectedError
from hub.journal.block import Block, pack, select
from hub.journal.layout import whole_of
from hub.messages.frame import BROKER_FLAGS, HEADER, HEADER_BYTES, KIND_MESSAGES, Frame, encode_frame, iterate_frames
from hub.scheduling.scheduler import STEPS_PER_TURN, Scheduler
from peers.journal import folder, reader
from peers.journal import readers as readers_module
from peers.journal.forms import Form, Order, body_parts, decode_order
from peers.journal.readers import Deliver, Readers, SharedPieces
from peers.journal.view import Extent, Fetched
from peers.values import Count, encode
from peers.wire.control import Notice, decode_notice
from peers.wire.kinds import Kind
from peers.wire.records import Fetch, Records, decode_records, encode_fetch
from tests.hubs.eventually import eventually
from tests.journal.files import AT_US, fill, hurt_block, opened, records

Outcome = bytes | bytearray | RejectedError
Message = tuple[int, str, bytes]  # flags, topic, body


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    journal = opened(path)
    fill(journal, *[10] * 10)
    journal.close()
    return path


class Served:
    def __init__(self, path: Path) -> None:
        self.ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, args=(path,))
        self._thread.start()

    def _serve(self, path: Path) -> None:
        with self._theirs:
            reader.serve(str(path), self._theirs)

    def answer(self) -> Frame:
        header = self.ours.recv(HEADER_BYTES, socket.MSG_WAITALL)
        (frame,) = iterate_frames(header + self.ours.recv(HEADER.unpack(header)[0], socket.MSG_WAITALL))
        return frame

    def read(self, order: Fetch) -> Records:
        self.ours.sendall(encode_fetch(order))
        return decode_records(self.answer().body)

    def refused(self, data: bytes) -> Notice:
        self.ours.sendall(data)
        frame = self.answer()
        assert frame.kind == Kind.NOTICE
        return decode_notice(frame.body)

    def end(self) -> None:
        self.ours.close()
        self._thread.join()


@pytest.fixture
def served(path: Path) -> Iterator[Served]:
    served = Served(path)
    yield served
    served.end()


def test_answers_in_order(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "_PARTS_PER_CALL", 2)
    orders = b"".join(encode_fetch(Fetch(request, start=request)) for request in (1, 2, 3))
    for place in range(0, len(orders), 5):
        served.ours.sendall(orders[place : place + 5])
    for request in (1, 2, 3):
        frame = served.answer()
        assert frame.kind == Kind.RECORDS
        found = decode_records(frame.body)
        assert (found.request, found.start, found.next, found.head) == (request, request, 100, 100)
        assert [record.offset for record in records(found.blocks)] == list(range(request, 100))
    found = served.read(Fetch(1, time=AT_US + 10_000_000, end=25))
    assert (found.start, found.next) == (10, 25)


def test_all_must_grant(served: Served) -> None:
    mine, theirs = (("*", True),), (("/t/0", True), ("/t/1", False))
    for granted, wanted in (((mine,), 30), ((mine, mine), 30), ((mine, theirs), 10), ((theirs, mine), 10), (((),), 0)):
        assert len(records(served.read(Order(1, end=30, granted=granted)).blocks)) == wanted


def test_refusals(path: Path, served: Served, tmp_path: Path) -> None:
    hurt_block(path, 0)
    for data, request, code, text in (
        (encode_fetch(Fetch(7, start=101)), 7, CloseCode.GONE, "offset 101 is behind the end of the journal, which is"),
        (encode_frame(Kind.FETCH, b"\xc1"), 0, CloseCode.BAD_DATA, ""),
        (encode_fetch(Fetch(8)), 8, CloseCode.JOURNAL_FAILED, ": offsets 0 to 9: the block is damaged: its check"),
    ):
        notice = served.refused(data)
        assert ((notice.request or 0), notice.code) == (request, code)
        assert text in notice.text
    assert served.read(Fetch(1, start=10)).next == 100
    later = Served(tmp_path / "later")
    assert later.refused(encode_fetch(Fetch(1))).code == CloseCode.TRY_AGAIN_LATER
    fill(opened(tmp_path / "later"), 3)
    assert later.read(Fetch(2)).head == 3
    later.end()


@pytest.mark.parametrize("dies", [False, True])
def test_the_program(path: Path, monkeypatch: pytest.MonkeyPatch, *, dies: bool) -> None:
    """Takes a path and a descriptor, gives way to the hub, and ends when the hub does, also in the middle."""
    ours, theirs = socket.socketpair()
    nice: list[int] = []
    monkeypatch.setattr("peers.journal.reader.os.nice", nice.append)
    monkeypatch.setattr(sys, "argv", ["reader", str(path), "", str(theirs.detach())])
    ours.sendall(encode_fetch(Fetch(1)))
    if dies:
        ours.close()
    else:
        ours.shutdown(socket.SHUT_WR)
    reader.main()
    if not dies:
        assert HEADER.unpack(ours.recv(HEADER_BYTES))[1] == Kind.RECORDS
        ours.close()
    assert nice == [5]


TIME_US = 1_700_000_000_123_456


def fetched(*blocks: list[Message], start: int = 10) -> Fetched:
    packed: list[bytes] = []
    following = start
    for messages in blocks:
        frames = b"".join(
            encode_frame(KIND_MESSAGES, body, key=topic.encode(), flags=flags) for flags, topic, body in messages
        )
        packed += pack([(TIME_US + following, frames)], following)
        following += len(messages)
    return Fetched(start, following, Extent(3, 1000), packed)


def value(value: Any, topic: str = "/a") -> Message:
    return 0, topic, msgspec.msgpack.encode(value)


def json_answer(found: Fetched, **wanted: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(b"".join(body_parts(Order(7, form="json", **wanted), found)))
    return answer


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"request": 1, "form": "xml"})])
def test_no_order(body: bytes) -> None:
    with pytest.raises(RejectedError) as caught:
        decode_order(body)
    assert caught.value.code == CloseCode.BAD_DATA


def test_frame() -> None:
    found = fetched([value(1), value(2)], [value(3)])
    read = decode_records(b"".join(body_parts(Order(7), found)))
    assert read == (7, 10, 13, 3, 1000, found.blocks, b"", 0)
    told = decode_records(b"".join(body_parts(Order(7, journal=b"0123456789abcdef", epoch=9), found)))
    assert told == read._replace(journal=b"0123456789abcdef", epoch=9)


@pytest.mark.parametrize("form", ["frame", "msgpack"])
def test_some_columns_of_blocks(form: Form) -> None:
    found = fetched([value("secret"), value("secret")], [value("secret")])
    payload = b"".join(body_parts(Order(7, columns=("topic",), form=form), found))
    assert b"secret" not in payload
    assert b"/a" in payload
    blocks = decode_records(payload).blocks if form == "frame" else msgspec.msgpack.decode(payload)["blocks"]
    assert [Block.parse(whole_of(block)).topics for block in blocks] == [["/a"], ["/a"]]
    assert [Block.parse(whole_of(block)).count for block in blocks] == [2, 1]


def test_some_columns_of_json() -> None:
    found = fetched([value(1), (0b100, "/b", b"x")])
    answer = json_answer(found, columns=("topic", "offset"))
    assert answer["records"] == [{"offset": 10, "topic": "/a"}, {"offset": 11, "topic": "/b"}]
    assert "dropped" not in answer
    answer = json_answer(found, columns=("time", "value"))
    assert answer["records"] == [{"time_ms": 1_700_000_000_123.466, "value": 1}]
    assert answer["dropped"] == 1
    assert json_answer(found, columns=())["records"] == [{}, {}]


def test_values_of_a_zeek() -> None:
    found = fetched(
        [(BROKER_FLAGS, "/z", encode(Count(5))), (BROKER_FLAGS, "/z", b"\xff"), (0b100, "/z", b"x"), value(1)]
    )
    answer = json_answer(found)
    assert [(one["offset"], one["value"]) for one in answer["records"]] == [(10, 5), (13, 1)]
    assert answer["dropped"] == 2


def test_no_block() -> None:
    with pytest.raises(JournalCorruptError):
        body_parts(Order(7, form="json"), Fetched(0, 1, Extent(0, 1), [b"nonsense"]))


@given(
    sizes=st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=5), min_size=1, max_size=4),
    limit=st.integers(1, 120),
)
def test_cut_anywhere(sizes: list[list[int]], limit: int) -> None:
    found = fetched(*([value("x" * size) for size in block] for block in sizes))
    read: list[int] = []
    position = found.start
    while position < found.next:
        rest = [block for block in found.blocks if Block.parse(block).next > position]
        answer = json_answer(
            found._replace(start=position, blocks=[select(block, position, 2**62) for block in rest]), bytes=limit
        )
        taken = answer["records"]
        assert sum(len(one["value"]) for one in taken[:-1]) < limit
        read += [one["offset"] for one in taken]
        assert answer["next"] > position
        position = answer["next"]
    assert read == list(range(found.start, found.next))


class Asked:
    def __init__(self, readers: Readers) -> None:
        self.readers = readers
        self.count = 0

    def ask(self, **wanted: int) -> asyncio.Future[Outcome]:
        self.count += 1
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.readers.fetch(encode_fetch(Fetch(self.count, **wanted)), answer.set_result)
        return answer

    async def read(self, **wanted: int) -> Records:
        frame = await self.ask(**wanted)
        assert isinstance(frame, bytearray)
        return decode_records(bytes(frame[HEADER_BYTES:]))

    async def refused(self, **wanted: int) -> tuple[int, str]:
        error = await self.ask(**wanted)
        assert isinstance(error, RejectedError)
        return error.code, error.text


@pytest.fixture
async def asked(path: Path) -> AsyncIterator[Asked]:
    readers = Readers(str(path), 2)
    yield Asked(readers)
    pids = [reader._process.pid for reader in readers._readers]
    await readers.stop()
    assert (len(readers), readers.pending) == (0, 0)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def pids(asked: Asked) -> list[int]:
    return [reader._process.pid for reader in asked.readers._readers]


async def test_reading(asked: Asked) -> None:
    assert len(asked.readers) == 0
    found = await asked.read(start=5, end=25)
    assert found[:5] == (1, 5, 25, 0, 100)
    assert [record.offset for record in records(found.blocks)] == list(range(5, 25))
    (pid,) = pids(asked)
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) == pid != os.getpgid(0)  # so that Ctrl-C is not for it
    assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
    asked.readers.tick(asyncio.get_running_loop().time() + 1000.0)  # it has nothing to do
    found = await asked.read(start=95)
    assert (found.request, found.next) == (2, 100)
    assert pids(asked) == [pid]


async def test_several_at_once(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse)
        code, text = await asked.refused()
        assert code == CloseCode.TRY_AGAIN_LATER
        assert "could be started (Resource temporarily unavailable); try again" in text
    await asked.read()
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse)
        for answer in [asked.ask() for _ in range(3)]:
            assert isinstance(await answer, bytearray)
        assert len(asked.readers) == 1
    monkeypatch.setattr(readers_module, "PENDING_LIMIT", 20)
    before = asked.count
    answers = [asked.ask(start=start, end=start + 1) for start in range(20)]
    assert (len(asked.readers), asked.readers.pending) == (2, 20)
    assert await asked.refused() == (CloseCode.TRY_AGAIN_LATER, "20 readers wait already, which is the limit")
    for start, answer in enumerate(answers):
        frame = await answer
        assert isinstance(frame, bytearray)
        found = decode_records(bytes(frame[HEADER_BYTES:]))
        assert (found.request, found.start) == (before + start + 1, start)
    assert asked.readers.pending == 0


async def test_a_process_that_dies(asked: Asked) -> None:
    await asked.read()
    (pid,) = pids(asked)
    os.kill(pid, signal.SIGSTOP)
    answers = [asked.ask() for _ in range(2)]
    os.kill(pid, signal.SIGKILL)
    first = await answers[0]
    assert isinstance(first, RejectedError)
    assert (first.code, first.text) == (CloseCode.TRY_AGAIN_LATER, "the reader of the journal has ended; ask again")
    await answers[1]
    (pid,) = pids(asked)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not len(asked.readers))  # nobody waits
    assert (await asked.read()).head == 100
    (pid,) = pids(asked)
    os.kill(pid, signal.SIGSTOP)
    waiting = asked.ask(start=0)
    now_s = asyncio.get_running_loop().time()
    asked.readers.tick(now_s + 29.0)
    await asyncio.sleep(0)
    assert not waiting.done()
    asked.readers.tick(now_s + 31.0)
    error = await waiting
    assert isinstance(error, RejectedError)
    assert error.code == CloseCode.TRY_AGAIN_LATER
    assert (await asked.read(start=0)).next == 100
    assert pid not in pids(asked)


async def test_stopping(asked: Asked) -> None:
    await asked.read()
    (pid,) = pids(asked)
    os.kill(pid, signal.SIGSTOP)
    answer = asked.ask()
    os.kill(pid, signal.SIGCONT)
    await asked.readers.stop()
    assert answer.done()
    assert await asked.refused() == (CloseCode.GOING_AWAY, "the hub stops")


async def test_a_process_that_does_not_end(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "_END_S", 0.01)
    await asked.read()
    (pid,) = pids(asked)
    os.kill(pid, signal.SIGSTOP)
    await asked.readers.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_large_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hub.py", "peers.py", "apsw.py", "queue.py"):
        (tmp_path / name).write_text("raise SystemExit('not me')")
    monkeypatch.chdir(tmp_path)
    fill(opened(tmp_path / "large"), 1000, 1000, padding=2000)
    readers = Readers(str(tmp_path / "large"), 1)
    found = await Asked(readers).read(bytes=1 << 30)
    assert found.next == 2000
    assert sum(map(len, found.blocks)) > 4_000_000
    await readers.stop()
    await readers.stop()


def test_who_asks_the_same_is_answered_together() -> None:
    read: list[tuple[bytes, Deliver]] = []
    pieces = SharedPieces(lambda order, deliver, _: read.append((order, deliver)), Scheduler(lambda: None))
    got: list[tuple[str, object]] = []
    for name, order in (("a", b"1"), ("b", b"2"), ("c", b"1")):
        pieces.fetch(order, lambda answer, name=name: got.append((name, answer)))  # type: ignore[misc]
    assert [order for order, _ in read] == [b"1", b"2"]
    read[0][1](b"first")
    assert got == [("a", b"first"), ("c", b"first")]
    pieces.fetch(b"1", lambda answer: got.append(("d", answer)))
    assert len(read) == 3
    error = RejectedError(CloseCode.TRY_AGAIN_LATER, "busy")
    read[1][1](error)
    assert got[-1] == ("b", error)


def test_who_asks_again_as_the_answer_comes() -> None:
    read: list[Deliver] = []
    pieces = SharedPieces(lambda _, deliver, __: read.append(deliver), Scheduler(lambda: None))
    pieces.fetch(b"1", lambda _: pieces.fetch(b"1", lambda _: None))
    read[0](b"")
    assert len(read) == 2


def test_very_many_are_answered_over_several_turns() -> None:
    read: list[Deliver] = []
    scheduler = Scheduler(lambda: None)
    pieces = SharedPieces(lambda _, deliver, __: read.append(deliver), scheduler)
    total = 2 * STEPS_PER_TURN + 3
    got: list[int] = []
    for number in range(total):
        pieces.fetch(b"1", lambda _, number=number: got.append(number))  # type: ignore[misc]
    read[0](b"")
    pieces.fetch(b"1", lambda _: None)
    assert len(read) == 2
    seen = [0, len(got)]
    while len(got) < total:
        scheduler.begin()
        scheduler.run()
        seen.append(len(got))
    assert max(after - before for before, after in pairwise(seen)) == STEPS_PER_TURN
    assert got == list(range(total))
