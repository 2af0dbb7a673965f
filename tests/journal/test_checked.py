"""What is read from a damaged file: an error that names the place, never something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from hub.errors import JournalCorruptError
from peers.journal.checked import block_row, edge_rows, offsets_text, stored_block, stored_writes
from peers.journal.schema import Write
from tests.journal.files import AT_US, change, fill, opened, small_blocks


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of four blocks: 0, 16, 32 and 48, of 16 records each."""
    path = tmp_path / "journal.db"
    with small_blocks(monkeypatch):
        journal = opened(path)
        fill(journal, 64)
        journal.commit([Write("q", 3, 0, 64), Write("p", 1, 0, 10)], now_us=AT_US)
        journal.close()
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    """The file, open."""
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


def test_sound(connection: apsw.Connection) -> None:
    """What was written is what is read."""
    edges = edge_rows(connection, "J")
    assert edges is not None
    assert [row[:2] for row in edges] == [(0, 16), (48, 64)]
    assert stored_block(connection, edges[1], "J").first == 48
    assert stored_writes(connection, "J") == [Write("p", 1, 0, 10), Write("q", 3, 0, 64)]


def test_an_empty_journal(tmp_path: Path) -> None:
    """There are no edges, and nobody has written."""
    opened(tmp_path / "empty.db").close()
    connection = apsw.Connection(str(tmp_path / "empty.db"))
    assert edge_rows(connection, "J") is None
    assert stored_writes(connection, "J") == []
    connection.close()


@pytest.mark.parametrize(
    "assignment",
    [
        "next = next + 1",
        "next = 'text'",
        "earliest_us = x'00'",
        "latest_us = latest_us + 1000000",
        "bytes = 3.5",
        "topics = x''",
        "topics = 'text'",
        "crc = 0",
        "crc = 'x'",
    ],
)
def test_a_damaged_row(connection: apsw.Connection, assignment: str) -> None:
    """Also where a value has become one of another type."""
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(f"UPDATE blocks SET {assignment} WHERE first = 16")  # noqa: S608 -- a test's own
    values = connection.execute("SELECT * FROM blocks WHERE first = 16").fetchall()[0]
    with pytest.raises(JournalCorruptError, match="J: the index is damaged at offset 16"):
        block_row(values, "J")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM blocks WHERE first = 0",
        "DELETE FROM blocks WHERE first = 48",
        "DELETE FROM data WHERE first = 0",
        "DELETE FROM data WHERE first = 48",
        "DELETE FROM blocks",
        "DELETE FROM data",
        "INSERT INTO data VALUES (64, x'00')",
    ],
)
def test_edges_that_do_not_agree(connection: apsw.Connection, statement: str) -> None:
    """A journal whose end is lost must not give its offsets again."""
    connection.execute(statement)
    with pytest.raises(JournalCorruptError, match="J: the index and the blocks do not agree"):
        edge_rows(connection, "J")


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("DELETE FROM data WHERE first = 16", "the block is missing"),
        ("UPDATE data SET block = x'00' WHERE first = 16", "the block is damaged: 1 bytes are shorter than a header"),
        ("UPDATE data SET block = 'text' WHERE first = 16", "the block is damaged: 0 bytes are shorter than a header"),
        ("UPDATE data SET block = 7 WHERE first = 16", "the block is damaged: 0 bytes are shorter than a header"),
        (
            "UPDATE data SET block = substr(block, 1, 200) WHERE first = 16",
            "the block is damaged: its checksum does not match",
        ),
        (
            "UPDATE data SET block = (SELECT block FROM data WHERE first = 32) WHERE first = 16",
            "another block is there, with offsets 32 to 47",
        ),
    ],
)
def test_a_damaged_block(connection: apsw.Connection, statement: str, cause: str) -> None:
    """Missing, cut, of another type, or that of another place: which offsets, and why, is said once."""
    connection.execute(statement)
    row = block_row(connection.execute("SELECT * FROM blocks WHERE first = 16").fetchall()[0], "J")
    with pytest.raises(JournalCorruptError) as caught:
        stored_block(connection, row, "J")
    assert str(caught.value) == f"J: offsets 16 to 31: {cause}; see `hub journal verify`"


def test_ranges_for_people() -> None:
    """The last offset is named, not the one behind it; an end that nobody knows is said to be that."""
    assert offsets_text(16, 32) == "offsets 16 to 31"
    assert offsets_text(16, None) == "offsets 16 to ?"


@pytest.mark.parametrize(
    "assignment", ["batch = batch + 1", "batch = 'x'", "next = 7", "crc = crc + 1", "query = x'71'", "query = 'r'"]
)
def test_damaged_writes(path: Path, connection: apsw.Connection, assignment: str) -> None:
    """A batch must not be taken for committed, nor a committed one for new."""
    change(path, f"UPDATE writes SET {assignment} WHERE query = 'q'")  # noqa: S608 -- a test's own
    with pytest.raises(JournalCorruptError, match="J: what writers have committed is damaged"):
        stored_writes(connection, "J")
