"""What stands in the file: checksums of its rows, its id, and what SQLite's errors mean."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from hub.errors import JournalCorruptError, JournalUnavailableError, StorageError
from peers.journal.schema import BlockRow, Write, check_format, sealed_id, translated
from tests.journal.files import change, opened

ROW = BlockRow(5, 9, 100, 200, 1000, b"/a\n/b").sealed()


@pytest.mark.parametrize("field", ["first", "next", "earliest_us", "latest_us", "size_bytes"])
def test_a_row_has_a_checksum_of_all_its_numbers(field: str) -> None:
    """One that is changed is found out."""
    assert ROW.crc == ROW.expected_crc
    other = ROW._replace(**{field: getattr(ROW, field) ^ 1})
    assert other.crc != other.expected_crc


def test_a_row_has_a_checksum_of_its_topics() -> None:
    """So that no block is passed over by mistake."""
    other = ROW._replace(topics=b"/a\n/c")
    assert other.crc != other.expected_crc


def test_what_writers_have_committed_has_a_checksum() -> None:
    """Of the name and of all numbers."""
    write = Write("query", 4, 10, 20)
    others = [write._replace(**{field: value}) for field, value in {"query": "querz", "batch": 5, "first": 11}.items()]
    assert len({write.crc, *(other.crc for other in others), write._replace(next=21).crc}) == 5


@pytest.mark.parametrize(
    ("raised", "expected", "text"),
    [
        (apsw.CorruptError("CorruptError: malformed"), JournalCorruptError, "J: not a journal, or damaged"),
        (apsw.NotADBError("NotADBError: no"), JournalCorruptError, "J: not a journal, or damaged"),
        (apsw.ConstraintError("ConstraintError: UNIQUE"), JournalCorruptError, "J: not a journal, or damaged"),
        (apsw.SQLError("SQLError: no such table"), JournalCorruptError, "J: not a journal, or damaged"),
        (apsw.FullError("FullError: full"), JournalUnavailableError, "J: the disk is full"),
        (apsw.IOError("IOError: disk I/O error"), JournalUnavailableError, "J: disk I/O error"),
        (apsw.BusyError("locked"), JournalUnavailableError, "J: locked"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), JournalCorruptError, "J: not a journal, or damaged"),
    ],
)
def test_errors_say_who_is_to_blame(raised: Exception, expected: type[StorageError], text: str) -> None:
    """Damage is one thing, what may pass is another."""
    with pytest.raises(expected, match=text), translated("J"):
        raise raised


def test_other_errors_pass() -> None:
    """They are bugs."""
    with pytest.raises(KeyError), translated("J"):
        raise KeyError


class TestFormat:
    """What is taken for a journal."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """A journal."""
        path = tmp_path / "journal.db"
        opened(path).close()
        return path

    def check(self, path: Path) -> bytes:
        """Look at a file."""
        connection = apsw.Connection(str(path))
        try:
            return check_format(connection, "J")
        finally:
            connection.close()

    def test_a_journal(self, path: Path) -> None:
        """It has an id of 16 bytes, its own."""
        assert len(self.check(path)) == 16

    def test_a_foreign_database(self, path: Path) -> None:
        """Somebody's address book stays one."""
        change(path, "PRAGMA application_id = 7")
        with pytest.raises(JournalCorruptError, match="a database, but not a journal; choose another file"):
            self.check(path)

    def test_another_format(self, path: Path) -> None:
        """Of a version to come."""
        change(path, "PRAGMA user_version = 2")
        with pytest.raises(JournalUnavailableError, match="format 2, this version reads format 1"):
            self.check(path)

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM meta",
            "UPDATE meta SET value = zeroblob(20)",
            "UPDATE meta SET value = 'text'",
            "UPDATE meta SET value = x''",
        ],
    )
    def test_a_damaged_id(self, path: Path, statement: str) -> None:
        """Whoever reads by offset relies on it."""
        change(path, statement)
        with pytest.raises(JournalCorruptError, match="the id of the journal is missing or damaged"):
            self.check(path)

    def test_an_id_is_sealed(self) -> None:
        """With four bytes of checksum."""
        assert sealed_id(b"0123456789abcdef")[:16] == b"0123456789abcdef"
        assert len(sealed_id(b"0123456789abcdef")) == 20
