"""`hub journal verify` on sound journals and on damaged ones."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from hub.batch import Batch
from peers.journal.store import Retention
from peers.journal.view import View
from tests.cli.journal.journals import (
    AT_US,
    FULL_RECORDS,
    cells,
    change,
    commit,
    lines,
    opened,
    run,
)
from tests.cli.programs import hub


def flip(path: Path, first: int, at: int = -9) -> None:
    """Flip a bit of a block."""
    connection = apsw.Connection(str(path))
    block = bytearray(connection.execute("SELECT block FROM data WHERE first = ?", (first,)).get)
    block[at] ^= 1
    connection.execute("UPDATE data SET block = ? WHERE first = ?", (bytes(block), first))
    connection.close()


def test_verify_of_sound_journals(full: Path, tmp_path: Path) -> None:
    """One line: how much there is, and where. An empty one is sound."""
    assert run("verify", full) == "sound: 40,961 records in 6 blocks, offsets 0 to 40960\n"
    empty = tmp_path / "empty.db"
    opened(empty).close()
    assert run("verify", empty) == "sound: no records\n"


def test_verify_while_it_is_written(full: Path) -> None:
    """What is committed is checked; what was deleted before is no damage."""
    store = opened(full, Retention(bytes=100_000, age_us=1 << 60))
    commit(store, ("/a", 1))
    assert store.first > 0
    count = store.next - store.first
    assert run("verify", full).startswith(f"sound: {count:,} records in ")
    store.close()


def damage_and_readable(path: Path) -> tuple[list[list[str]], list[list[str]]]:
    """What `verify` tells of a damaged journal: what is damaged, and what is readable."""
    found, readable = run("verify", path, code=3).split("\n\n")
    return cells(found)[1:], cells(readable)[1:]


def test_verify_goes_on_behind_damaged_blocks(full: Path) -> None:
    """A flipped bit, a missing block, another one: each is told with its offsets, and what is sound around it."""
    flip(full, 8192)
    change(full, "DELETE FROM data WHERE first = 16384")
    change(full, "UPDATE data SET block = (SELECT block FROM data WHERE first = 0) WHERE first = 32768")
    assert damage_and_readable(full) == (
        [
            ["8192 to 16383", "8,192", "the block is damaged: its checksum does not match"],
            ["16384 to 24575", "8,192", "the block is missing"],
            ["32768 to 40959", "8,192", "another block is there, with offsets 0 to 8191"],
        ],
        [["0 to 8191", "8,192"], ["24576 to 32767", "8,192"], ["40960 to 40960", "1"]],
    )
    assert len(lines("export", full, "--start", "24576", "--end", "32768")) == 8192
    assert b": offsets 8192 to 16383: the block is damaged: " in hub("journal", "export", str(full)).stderr


@pytest.mark.parametrize(
    ("statement", "found", "readable"),
    [
        (
            "UPDATE blocks SET next = 9 WHERE first = 8192",
            ["8192 to 16383", "8,192", "its row in the index is damaged; the block itself is sound"],
            ["0 to 8191", "16384 to 40960"],
        ),
        (
            "UPDATE blocks SET topics = CAST(x'ff' AS TEXT) WHERE first = 40960",
            ["40960 to ?", "?", "its row in the index is damaged; the block itself is sound"],
            ["0 to 40959"],
        ),
        (
            "UPDATE data SET block = 'text' WHERE first = 0",
            ["0 to 8191", "8,192", "the block is damaged: 0 bytes are shorter than a header"],
            ["8192 to 40960"],
        ),
        (
            "DELETE FROM blocks WHERE first = 8192; DELETE FROM data WHERE first = 8192",
            ["8192 to 16383", "8,192", "missing: no block has them"],
            ["0 to 8191", "16384 to 40960"],
        ),
        ("DELETE FROM writes; UPDATE meta SET value = x'00'", ["the id of the journal is missing or damaged"], None),
        ("INSERT INTO writes VALUES ('q', 1, 0, 1, 5)", ["what writers have committed is damaged"], None),
        ("INSERT INTO data VALUES (7, x'00')", ["7 to ?", "?", "a block that the index does not know"], None),
    ],
)
def test_verify_names_the_damage(full: Path, statement: str, found: list[str], readable: list[str] | None) -> None:
    """Each kind of it, and no other than is there."""
    change(full, statement)
    said, sound = damage_and_readable(full)
    assert said == [found]
    assert [row[0] for row in sound] == (readable or ["0 to 40960"])


def test_verify_finds_rows_that_contradict_their_blocks(full: Path) -> None:
    """Also where the row's own checksum is right: times, topics and size are compared."""
    view = View(str(full))
    rows = [row._replace(latest_us=row.latest_us - 1).sealed() for row in view.rows()]
    view.close()
    change(full, "UPDATE blocks SET latest_us = ?, crc = ? WHERE first = 8192", rows[1].latest_us, rows[1].crc)
    (found,), _ = damage_and_readable(full)
    assert found == ["8192 to 16383", "8,192", "the index says something else of it than what it holds"]


def test_verify_finds_overlaps(full: Path) -> None:
    """Offsets that two blocks have are told."""
    view = View(str(full))
    longer = next(view.rows())._replace(next=8200).sealed()
    view.close()
    change(full, "UPDATE blocks SET next = 8200, crc = ? WHERE first = 0", longer.crc)
    found, _ = damage_and_readable(full)
    assert found == [
        ["0 to 8199", "8,200", "another block is there, with offsets 0 to 8191"],
        ["8192 to 8199", "8", "more than one block has them"],
    ]


def test_verify_goes_on_behind_damaged_pages(path: Path) -> None:
    """Where SQLite itself cannot go on in the index, what stands behind that page is found all the same."""
    store = opened(path)
    topics = [f"/{number:04}/{'x' * 200}" for number in range(60)]  # long listings, so that the index has several pages
    for _ in range(20):
        frames = b"".join(Batch.of(topics[number % 60], [number]).frames for number in range(FULL_RECORDS))
        store.add([(AT_US, frames)])
        store.commit(now_us=AT_US)
    total = store.next
    store.close()
    connection = apsw.Connection(str(path))
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'blocks'").fetchone()
    size = connection.pragma("page_size")
    connection.close()
    leaves = _children(path, root, size)
    assert len(leaves) > 4
    with path.open("r+b") as file:
        file.seek((leaves[1] - 1) * size)
        file.write(b"\x55" * 64)
    said = run("verify", path, code=3)
    assert "the index cannot be read: " in said
    assert f"to {total - 1} " in said.split("readable offsets")[1]
    assert cells(said.split("readable offsets")[1])[1][0].startswith("0 to ")


def _children(path: Path, page: int, size: int) -> list[int]:
    """The pages below an interior page of a table."""
    data = path.read_bytes()[(page - 1) * size : page * size]
    assert data[0] == 5, "an interior page"
    count = int.from_bytes(data[3:5])
    places = [int.from_bytes(data[12 + 2 * number : 14 + 2 * number]) for number in range(count)]
    return [int.from_bytes(data[place : place + 4]) for place in places]
