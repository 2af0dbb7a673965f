"""A file of the tier that ends who reads it: told once as what it is, then not read again; everything else is."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from hub.errors import CloseCode, JournalCorruptError, RejectedError
from hub.frame import iterate_frames
from peers.journal.readers import Readers
from peers.journal.tier import parquet, poisoned
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import place_at
from peers.journal.tier.poisoned import ENDED, Guard, Note, Poisoned, is_crash
from peers.journal.tier.shelf import Shelf, data_name
from peers.wire.control import decode_notice
from tests.hubs.eventually import eventually
from tests.journal.files import AT_US, segments
from tests.journal.test_readers import Asked, pids
from tests.journal.tier.made import fill_untidily, id_of

pytestmark = pytest.mark.usefixtures("uncaught")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of 95 records; all but the last 25 are in two files of its tier alone."""
    monkeypatch.setattr(parquet, "FILE_BYTES", 300)
    path = tmp_path / "journal"
    fill_untidily(path, 40, 30, 25)
    (tmp_path / "tier").mkdir()
    copier = Copier(str(path), place_at(str(tmp_path / "tier")), TierRetention(0, 0))
    while copier.step(AT_US):
        pass
    copier.close()
    for file in segments(path)[:2]:
        file.unlink()
    return path


def poison(path: Path) -> str:
    """Let the first file say that a column of texts holds Booleans, and the manifest agree; return its name."""
    shelf = Shelf(place_at(str(path.parent / "tier")), id_of(path))
    shelf.refresh()
    entry = next(shelf.entries())
    name = data_name(shelf.journal, entry)
    data = shelf.place.read(name)
    tail = data[-entry.tail_bytes :]
    hostile = tail.replace(b"\x1c\x15\x0c\x19", b"\x1c\x15\x00\x19")
    assert hostile != tail
    shelf.place.write(name, data[: -entry.tail_bytes] + hostile)
    shelf.sheets.write((msgspec.structs.replace(entry, tail_crc=crc32(hostile)),))
    return name


@pytest.fixture
async def asked(path: Path) -> AsyncIterator[Asked]:
    """Two readers at most."""
    readers = Readers(str(path), 2, tier=str(path.parent / "tier"))
    yield Asked(readers)
    await readers.stop()


async def test_a_file_that_ends_who_reads_it(path: Path, asked: Asked) -> None:
    """It costs one process; whoever has asked is told the file, and so are all who ask for it after that."""
    name = poison(path)
    asks = [asked.ask(start=start) for start in (0, 45, 5, 80)]
    refusals = [error for error in [await ask for ask in asks] if isinstance(error, RejectedError)]
    told = [error.text for error in refusals if error.code == CloseCode.JOURNAL_FAILED]
    assert told
    assert all(name in text and text.endswith(ENDED) for text in told)
    assert {error.code for error in refusals} <= {CloseCode.JOURNAL_FAILED, CloseCode.TRY_AGAIN_LATER}
    before = asked.readers.crashes_total
    assert 1 <= before <= 2  # each of the two may have begun before it was known
    for start in (0, 39, 10):
        frame = await asked.ask(start=start)
        assert isinstance(frame, bytearray)
        (notice,) = iterate_frames(bytes(frame))
        said = decode_notice(notice.body)
        assert (said.code, name in said.text, said.text.endswith(ENDED)) == (CloseCode.JOURNAL_FAILED, True, True)
        assert (await asked.read(start=40, end=60)).next == 60
        assert (await asked.read(start=70)).next == 95
    assert asked.readers.crashes_total == before


async def test_a_process_that_is_ended_from_outside(asked: Asked) -> None:
    """No file is to blame, whatever it was reading: it is read by the next one."""
    await asked.read(start=40, end=41)
    (pid,) = pids(asked)
    os.kill(pid, signal.SIGSTOP)
    answer = asked.ask(start=0)
    note = asked.readers._readers[0]._note
    assert note is not None
    os.pwrite(note.descriptor, b"some/file", 0)
    os.kill(pid, signal.SIGKILL)
    error = await answer
    assert getattr(error, "code", None) == CloseCode.TRY_AGAIN_LATER
    await eventually(lambda: pid not in pids(asked))
    assert asked.readers.crashes_total == 0
    assert (await asked.read(start=0, end=40)).next == 40


def test_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """It notes what is decoded for as long as that lasts; what was poisoned is refused for an hour."""
    monkeypatch.setattr(poisoned, "_FILES_LIMIT", 3)
    files, note = Poisoned(), Note()
    now_s = 0.0
    guard = Guard(note.descriptor, files.descriptor, lambda: now_s)
    with guard.decoding("a-long-name"):
        assert note.name == "a-long-name"
    with guard.decoding("short"):
        assert note.name == "short"
    assert note.name == ""
    for name in "abcd":
        files.add(name)
    assert files.total == 4
    with guard.decoding("a"):  # the newest three are known
        pass
    for name in "bcd":
        with pytest.raises(JournalCorruptError, match="has ended"), guard.decoding(name):
            pass
    now_s = 1e12
    with guard.decoding("d"):
        pass
    files.close()
    note.close()


def test_crashes() -> None:
    """What a process did itself, and what others have done to it."""
    assert is_crash(-signal.SIGABRT)
    assert is_crash(-signal.SIGSEGV)
    assert not is_crash(-signal.SIGKILL)
    assert not is_crash(-signal.SIGTERM)
    assert not is_crash(0)
    assert not is_crash(1)
