"""`Positions`: how far consumers have come is on the disk, together, again and again until it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from hub.consumers.consumer import Progress
from hub.consumers.terms import Terms
from hub.errors import JournalCorruptError, JournalUnavailableError, RejectedError
from peers.journal.consumers import positions as module
from peers.journal.consumers.positions import Kept, Positions
from tests.hubs.eventually import eventually

pytestmark = pytest.mark.usefixtures("uncaught")

ID = b"i" * 16


def kept(position: int) -> Kept:
    return Kept(Terms(("/a",), deliveries=3), Progress(position, (position + 2,), {position: 1}))


def opened(path: Path, journal_id: bytes = ID) -> Positions:
    return Positions(str(path), journal_id, full_sync=False)


async def test_what_was_put_last_is_kept(tmp_path: Path) -> None:
    """What is described when it is saved is written, what is forgotten is gone; without any there is no file."""
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


async def test_many_changes_are_one_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saves: list[int] = []
    write = module._write

    def counted(connection: apsw.Connection, waiting: dict[str, Kept | None]) -> None:
        saves.append(len(waiting))
        write(connection, waiting)

    monkeypatch.setattr(module, "_write", counted)
    file = opened(tmp_path / "c.db")
    saved: asyncio.Future[RejectedError | None] = asyncio.get_running_loop().create_future()
    for number in range(100):
        file.put(f"c{number % 10}", lambda number=number: kept(number))  # type: ignore[misc]
    file.put("last", lambda: kept(0), saved.set_result)
    assert await saved is None
    assert saves == [11]
    await file.stop()


async def test_a_disk_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = module._write

    def fail(_connection: apsw.Connection, _waiting: dict[str, Kept | None]) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(module, "_write", fail)
    file = opened(tmp_path / "c.db")
    saved: asyncio.Future[RejectedError | None] = asyncio.get_running_loop().create_future()
    file.put("a", lambda: kept(1), saved.set_result)
    error = await saved
    assert error is not None
    assert "full" in error.text
    assert file.failures_total == 1
    monkeypatch.setattr(module, "_write", write)
    file.put("b", lambda: kept(2))
    file.retry()
    await eventually(lambda: not file._waiting and file._saving is None)
    await file.stop()
    again = opened(tmp_path / "c.db")
    assert again.kept == {"a": kept(1), "b": kept(2)}
    await again.stop()


async def test_files_that_are_none(tmp_path: Path) -> None:
    """Damage, another database, a later version and a folder are told, each in one line that names the file."""
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
