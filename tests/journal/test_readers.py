"""The hub's side of its reader processes: each FETCH is answered once, whatever becomes of a process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER_BYTES, iterate_frames
from peers.journal import readers as readers_module
from peers.journal.readers import Readers
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from peers.wire.records import Fetch, Records, decode_records, encode_fetch
from tests.hubs.eventually import eventually
from tests.journal.files import fill, opened, records

pytestmark = pytest.mark.usefixtures("uncaught")

Outcome = bytes | bytearray | RejectedError


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
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    journal = opened(path)
    fill(journal, *[10] * 10)
    journal.close()
    return path


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


async def test_niceness_counts_beside_the_hub(asked: Asked) -> None:
    """Processes are of the hub's session: the scheduler compares niceness within one. Ctrl-C is for another group."""
    await asked.read()
    (pid,) = pids(asked)
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) == pid != os.getpgid(0)
    assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)


async def test_reading(asked: Asked) -> None:
    assert len(asked.readers) == 0
    found = await asked.read(start=5, end=25)
    assert found[:5] == (1, 5, 25, 0, 100)
    assert [record.offset for record in records(found.blocks)] == list(range(5, 25))
    found = await asked.read(start=95)
    assert (found.request, found.next) == (2, 100)
    assert len(asked.readers) == 1


async def test_several_at_once(asked: Asked) -> None:
    """A second process helps; there are no more than allowed, and each answer goes to who has asked."""
    answers = [asked.ask(start=start, end=start + 1) for start in range(20)]
    assert len(asked.readers) == 2
    assert asked.readers.pending == 20
    for start, answer in enumerate(answers):
        frame = await answer
        assert isinstance(frame, bytearray)
        found = decode_records(bytes(frame[HEADER_BYTES:]))
        assert (found.request, found.start) == (start + 1, start)
    assert asked.readers.pending == 0


async def test_refusals_of_the_journal(asked: Asked) -> None:
    frame = await asked.ask(start=101)
    assert isinstance(frame, bytearray)
    (notice,) = iterate_frames(bytes(frame))
    assert notice.kind == Kind.NOTICE
    assert decode_notice(notice.body).code == CloseCode.GONE


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
    assert (await asked.read()).head == 100
    assert pid not in pids(asked)


async def test_a_process_that_dies_while_nobody_waits(asked: Asked) -> None:
    await asked.read()
    (pid,) = pids(asked)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not len(asked.readers))
    assert (await asked.read()).head == 100


async def test_no_process_can_be_started(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
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
        answers = [asked.ask() for _ in range(3)]
        for answer in answers:
            assert isinstance(await answer, bytearray)
        assert len(asked.readers) == 1


async def test_too_many_wait(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "PENDING_LIMIT", 3)
    answers = [asked.ask() for _ in range(3)]
    assert await asked.refused() == (CloseCode.TRY_AGAIN_LATER, "3 readers wait already, which is the limit")
    for answer in answers:
        await answer
    assert (await asked.read()).head == 100


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


async def test_whatever_stands_in_the_working_directory(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hub.py", "peers.py", "apsw.py", "queue.py"):
        (tmp_path / name).write_text("raise SystemExit('not me')")
    monkeypatch.chdir(tmp_path)
    readers = Readers(str(path), 1)
    assert (await Asked(readers).read()).head == 100
    await readers.stop()
    await readers.stop()


async def test_a_large_answer(tmp_path: Path) -> None:
    journal = opened(tmp_path / "large")
    fill(journal, 1000, 1000, 1000, padding=4000)
    journal.close()
    readers = Readers(str(tmp_path / "large"), 1)
    found = await Asked(readers).read(bytes=1 << 30)
    assert found.next == 3000
    assert sum(map(len, found.blocks)) > 12_000_000
    assert [record.offset for record in records(found.blocks)] == list(range(3000))
    await readers.stop()


async def test_a_reader_that_is_stopped(asked: Asked) -> None:
    """It is ended when it brings nothing for long; who waits is told to ask again, and then another one answers."""
    await asked.read(start=0)
    (pid,) = pids(asked)
    os.kill(pid, signal.SIGSTOP)
    waiting = [asked.ask(start=0), asked.ask(start=5)]
    now_s = asyncio.get_running_loop().time()
    asked.readers.tick(now_s + 29.0)
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    asked.readers.tick(now_s + 31.0)
    for one in waiting:
        error = await one
        assert isinstance(error, RejectedError)
        assert error.code == CloseCode.TRY_AGAIN_LATER
    assert (await asked.read(start=0)).next == 100
    assert pid not in pids(asked)


async def test_a_reader_that_has_nothing_to_do(asked: Asked) -> None:
    await asked.read(start=0)
    before = pids(asked)
    asked.readers.tick(asyncio.get_running_loop().time() + 1000.0)
    assert (await asked.read(start=0)).next == 100
    assert pids(asked) == before
