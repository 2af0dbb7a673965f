"""What is wrong at an offset, how far, and how far a damaged journal reaches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from peers.journal.damage import Damage, damage_at, following_row, sound_extent
from tests.faults.damage import altered
from tests.journal.files import fill, opened, small_blocks


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[apsw.Connection]:
    """A journal of four blocks: 0, 16, 32 and 48, of 16 records each."""
    path = tmp_path / "journal.db"
    with small_blocks(monkeypatch):
        journal = opened(path)
        fill(journal, 64)
        journal.close()
    with altered(path) as connection:
        yield connection


def test_sound(connection: apsw.Connection) -> None:
    """Nothing is wrong anywhere."""
    assert [damage_at(connection, position) for position in range(64)] == [None] * 64
    assert sound_extent(connection) == (0, 64)
    assert [following_row(connection, position) for position in (-1, 0, 15, 47, 48)] == [0, 16, 16, 48, None]


def test_behind_the_end(connection: apsw.Connection) -> None:
    """No row has that, and nobody knows how far."""
    assert damage_at(connection, 64) == Damage(64, None, "no row of the index has them")


@pytest.mark.parametrize(
    ("statements", "position", "damage"),
    [
        ("DELETE FROM data WHERE first = 16", 20, "offsets 20 to 31: the block is missing"),
        ("DELETE FROM blocks WHERE first = 16", 16, "offsets 16 to 31: no row of the index has them"),
        ("DELETE FROM blocks WHERE first = 48", 48, "offsets 48 to 63: no row of the index has them"),
        ("UPDATE blocks SET crc = 1 WHERE first = 16", 16, "offsets 16 to 31: their row in the index is damaged"),
        ("UPDATE blocks SET crc = 1 WHERE first = 48", 48, "offsets 48 to 63: their row in the index is damaged"),
        (
            "UPDATE blocks SET crc = 1 WHERE first = 48; DELETE FROM data WHERE first = 48",
            48,
            "offsets 48 to ?: their row in the index is damaged",
        ),
        ("UPDATE data SET block = 5 WHERE first = 0", 0, "offsets 0 to 15: the block is damaged: 0 bytes are shorter"),
    ],
)
def test_damage(connection: apsw.Connection, statements: str, position: int, damage: str) -> None:
    """From the offset on that was asked for, as far as row, neighbours or block tell; and why."""
    connection.execute(statements)
    assert str(damage_at(connection, position)).startswith(damage)


@pytest.mark.parametrize(
    ("statements", "extent"),
    [
        ("DELETE FROM blocks WHERE first IN (0, 48)", (0, 64)),
        ("DELETE FROM data WHERE first IN (0, 48)", (0, 64)),
        ("UPDATE blocks SET crc = 1", (0, 64)),
        ("UPDATE data SET block = x''", (0, 64)),
        ("UPDATE blocks SET crc = 1; UPDATE data SET block = x''", (0, 49)),
        ("DELETE FROM blocks; UPDATE data SET first = first + 1", None),
        ("DELETE FROM blocks; DELETE FROM data", None),
        ("DELETE FROM blocks", (0, 64)),
        ("DELETE FROM data", (0, 64)),
        ("UPDATE blocks SET first = 1000 WHERE first = 48", (0, 64)),
        ("UPDATE data SET first = 1000 WHERE first = 48", (0, 64)),
        ("UPDATE blocks SET first = -5 WHERE first = 16", (0, 64)),
    ],
)
def test_extent(connection: apsw.Connection, statements: str, extent: tuple[int, int] | None) -> None:
    """Rows tell it, or blocks; where they stand counts only if they are sound, or stand at the same place."""
    connection.execute(statements)
    assert sound_extent(connection) == extent
