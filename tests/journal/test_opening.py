"""Opening a file for writing: one hub at a time, journals alone, and no other database is touched."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from hub.errors import JournalCorruptError, JournalUnavailableError
from peers.journal.opening import Lock, connect, create
from peers.journal.schema import PAGE_BYTES, check_format, translated
from tests.journal.files import fill, opened


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where nothing is yet."""
    return str(tmp_path / "journal.db")


def test_makes_a_journal(path: str) -> None:
    """In WAL mode, with pages of its size, and an id that stays."""
    connection = create(path, full_sync=True)
    journal_id = check_format(connection, path)
    assert (connection.pragma("journal_mode"), connection.pragma("page_size")) == ("wal", PAGE_BYTES)
    assert connection.pragma("synchronous") == 2
    connection.close()
    again = create(path, full_sync=False)
    assert check_format(again, path) == journal_id
    assert again.pragma("synchronous") == 1
    again.close()


@pytest.mark.parametrize("step", ["a file of no bytes", "a database without tables"])
def test_goes_on_where_the_first_was_killed(path: str, step: str) -> None:
    """What a process leaves that dies while it makes a journal becomes one."""
    if step == "a file of no bytes":
        Path(path).touch()
    else:
        connection = apsw.Connection(path)
        connection.pragma("page_size", PAGE_BYTES)
        connection.pragma("journal_mode", "WAL")
        assert connection.pragma("page_count")
        connection.close()
    made = create(path, full_sync=False)
    assert len(check_format(made, path)) == 16
    assert made.pragma("page_size") == PAGE_BYTES
    made.close()


def test_leaves_other_databases_alone(path: str) -> None:
    """Not even their mode is changed."""
    other = apsw.Connection(path)
    other.execute("CREATE TABLE addresses(name)")
    other.close()
    before = Path(path).read_bytes()
    with pytest.raises(JournalCorruptError, match="a database, but not a journal"):
        create(path, full_sync=False)
    assert Path(path).read_bytes() == before


def test_leaves_other_files_alone(path: str) -> None:
    """A text is no database."""
    Path(path).write_text("dear diary\n" * 1000)
    with pytest.raises(JournalCorruptError, match="not a journal, or damaged"), translated(path):
        create(path, full_sync=False)
    assert Path(path).read_text().startswith("dear diary")


def test_connecting_makes_nothing(path: str) -> None:
    """What has gone is not made anew behind the back of who had it open."""
    with pytest.raises(JournalUnavailableError, match="unable to open"), translated(path):
        connect(path, full_sync=False)
    assert not Path(path).exists()


def test_a_file_system_without_shared_memory(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SQLite quietly stays in another mode, readers would wait for the writer: refused."""

    class Stubborn:
        """A connection whose mode does not change."""

        def pragma(self, name: str, _: object = None) -> object:
            """Stay as it is."""
            return "delete" if name == "journal_mode" else 0

        def close(self) -> None:
            """Close."""

        def execute(self, _: str) -> object:
            """Find no tables."""
            return apsw.Connection(":memory:").execute("SELECT 0")

        def set_busy_timeout(self, _: int) -> None:
            """Wait."""

    monkeypatch.setattr(apsw, "Connection", lambda *_, **__: Stubborn())
    with pytest.raises(JournalUnavailableError, match="choose a local disk"):
        connect(path, full_sync=False)


def test_one_at_a_time(path: str) -> None:
    """The second one is told, and may have it when the first has gone."""
    first = Lock.take(path)
    with pytest.raises(JournalUnavailableError, match="another hub has this journal open; give each its own file"):
        Lock.take(path)
    first.release()
    first.release()
    Lock.take(path).release()


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_one_at_a_time_by_any_name(path: str, tmp_path: Path, link: Callable[[str, str], None]) -> None:
    """The file is locked, not its name: in this process and in another."""
    first = Lock.take(path)
    other = str(tmp_path / "other.db")
    link(path, other)
    with pytest.raises(JournalUnavailableError, match="another hub"):
        Lock.take(other)
    program = "import sys; from peers.journal.opening import Lock; Lock.take(sys.argv[1])"
    found = subprocess.run([sys.executable, "-c", program, other], capture_output=True, text=True, check=False)
    assert "another hub has this journal open" in found.stderr
    first.release()


def test_whose_it_is(path: str) -> None:
    """A journal is made for its owner alone, and so are the files beside it; one that is there stays as it is."""
    before = os.umask(0)
    try:
        Path(path).unlink(missing_ok=True)
        journal = opened(Path(path))
        fill(journal, 1)
        for name in (path, f"{path}-wal", f"{path}-shm"):
            assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
        journal.close()
        Path(path).chmod(0o640)
        opened(Path(path)).close()
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o640
    finally:
        os.umask(before)


def test_no_such_folder(tmp_path: Path) -> None:
    """It says what to look at."""
    with pytest.raises(JournalUnavailableError, match="does its folder exist, and may we write"):
        Lock.take(str(tmp_path / "nowhere" / "journal.db"))
