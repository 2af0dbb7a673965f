"""Reading a journal's file: ranges, filters, times; what is damaged is an error that names the place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from hub.errors import GoneError, JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block
from hub.policy.grants import allows_by
from peers.journal import view as view_module
from peers.journal.schema import Write
from peers.journal.store import Retention
from peers.journal.view import LARGE_FACTOR, Extent, View
from tests.journal.files import AT_US, block_rows, change, fill, frames, numbered, opened, records, small_blocks

LOTS = 1 << 30
ALL = ("",)
SECOND_US = 1_000_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of 16 records, tails of 5 blocks."""
    with small_blocks(monkeypatch):
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with records 0 to 69, blocks at 0, 16, 32, 48 and 64, a second for each record that begins one."""
    path = tmp_path / "journal.db"
    journal = opened(path)
    fill(journal, 16, 16, 16, 16, 4, 2)
    journal.close()
    return path


@pytest.fixture
def view(path: Path) -> Iterator[View]:
    """The journal, open."""
    view = View(str(path))
    yield view
    view.close()


def offsets(blocks: list[bytes]) -> list[int]:
    """Of all records."""
    return [record.offset for record in records(blocks)]


# What is there.


def test_extent(view: View) -> None:
    """From the oldest to behind the newest."""
    assert view.extent == Extent(0, 70)
    assert len(view.id) == 16
    assert view.writes == []


def test_an_empty_journal(tmp_path: Path) -> None:
    """There is nothing to read, and nothing wrong."""
    journal = opened(tmp_path / "empty.db")
    view = View(str(tmp_path / "empty.db"))
    assert view.extent == Extent(0, 0)
    assert list(view.rows()) == []
    assert view.fetch(0, None, ALL, LOTS) == (0, 0, (0, 0), [])
    assert view.offset_at(0) == view.offset_at(2**63 - 1) == 0
    with pytest.raises(GoneError):
        view.fetch(1, None, ALL, LOTS)
    view.close()
    journal.close()


def test_no_journal(tmp_path: Path) -> None:
    """Reading makes none, and what is none is said to be none, as often as one asks."""
    with pytest.raises(JournalUnavailableError, match="there is no such journal"):
        View(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text").write_text("text" * 10_000)
    for _ in range(2):
        with pytest.raises(JournalCorruptError, match="not a journal"):
            View(str(tmp_path / "text"))


def test_sees_what_is_committed_meanwhile(path: Path, view: View) -> None:
    """Each answer is of the newest state."""
    journal = opened(path)
    fill(journal, 1)
    assert view.extent == Extent(0, 71)
    journal.commit([Write("q", 1, 0, 1)], now_us=AT_US)
    assert view.writes == [Write("q", 1, 0, 1)]
    journal.close()


def test_a_snapshot_is_one_state(path: Path, view: View) -> None:
    """What is merged and deleted meanwhile is seen as it was."""
    journal = opened(path, retention=Retention(1, 1 << 60))
    with view.snapshot():
        before = list(view.rows())
        fill(journal, 16)
        assert journal.first == 70
        assert list(view.rows()) == before
        assert [view.block(row).first for row in before] == [0, 16, 32, 48, 64, 68]
    assert view.extent == Extent(70, 86)
    journal.close()


# Ranges.


@pytest.mark.parametrize(
    ("start", "end"), [(0, None), (0, 70), (5, 9), (15, 17), (16, 32), (31, 65), (69, 70), (64, None), (3, 1000)]
)
def test_ranges(view: View, start: int, end: int | None) -> None:
    """Exactly what was asked for, cut within blocks."""
    found = view.fetch(start, end, ALL, LOTS)
    last = min(70, end if end is not None else 70)
    assert offsets(found.blocks) == list(range(start, last))
    assert found[:3] == (start, last, (0, 70))


@pytest.mark.parametrize(("start", "end"), [(70, None), (70, 90), (5, 5), (9, 5)])
def test_nothing_in_a_range(view: View, start: int, end: int | None) -> None:
    """Behind the newest, or between an end and a start: reading goes on where it was."""
    assert view.fetch(start, end, ALL, LOTS) == (start, start, (0, 70), [])


@pytest.mark.parametrize(
    ("start", "text"), [(71, "offset 71 is behind the end of the journal, which is 70"), (1 << 62, "is behind the end")]
)
def test_behind_the_end(view: View, start: int, text: str) -> None:
    """Told, not served from elsewhere."""
    with pytest.raises(GoneError, match=text) as caught:
        view.fetch(start, None, ALL, LOTS)
    assert caught.value.first == 0


def test_what_was_deleted(path: Path, view: View) -> None:
    """Told with the oldest that is left."""
    journal = opened(path, retention=Retention(1100, 1 << 60))
    journal.commit(now_us=AT_US)
    assert journal.first in {32, 48}
    with pytest.raises(GoneError, match=f"offset 20 was deleted; the oldest that is kept is {journal.first}") as caught:
        view.fetch(20, None, ALL, LOTS)
    assert caught.value.first == journal.first
    assert offsets(view.fetch(journal.first, None, ALL, LOTS).blocks) == list(range(journal.first, 70))
    journal.close()


def test_whole_blocks_are_given_as_they_are(view: View) -> None:
    """The bytes that stand in the file."""
    found = view.fetch(16, 48, ALL, LOTS)
    assert found.blocks == [bytes(view.block(row).data) for row in list(view.rows(16))[:2]]


# How much.


def test_stops_when_it_has_enough(view: View) -> None:
    """Whole blocks, and where to go on."""
    size = len(view.fetch(0, 16, ALL, LOTS).blocks[0])
    found = view.fetch(0, None, ALL, size)
    assert (offsets(found.blocks), found.next) == (list(range(16)), 16)
    found = view.fetch(0, None, ALL, size + 1)
    assert (offsets(found.blocks), found.next) == (list(range(32)), 32)


def test_nothing_but_the_state(view: View) -> None:
    """0 bytes ask how far the journal reaches."""
    assert view.fetch(5, None, ALL, 0) == (5, 5, (0, 70), [])


def test_a_large_block_is_cut(tmp_path: Path) -> None:
    """An answer is not much more than was asked for, and all of them together are everything."""
    journal = opened(tmp_path / "large.db")
    fill(journal, 3, padding=3)
    fill(journal, 16, padding=100)
    view = View(str(tmp_path / "large.db"))
    for limit in (1, 100, 300, 1000):
        found: list[int] = []
        start = 0
        while start < journal.next:
            piece = view.fetch(start, None, ALL, limit)
            found += offsets(piece.blocks)
            size = sum(map(len, piece.blocks))
            assert size <= (LARGE_FACTOR + 1) * max(limit, 100) or len(records(piece.blocks)) == 1
            start = piece.next
        assert found == list(range(19))
    view.close()
    journal.close()


def test_a_large_record_comes_alone(tmp_path: Path) -> None:
    """So that who takes the largest message gets it whatever stands beside it."""
    journal = opened(tmp_path / "large.db")
    journal.add([(AT_US, numbered(range(5)) + frames("/t/large", b"x" * 10_000) + numbered(range(6, 9)))])
    journal.commit(now_us=AT_US)
    view = View(str(tmp_path / "large.db"))
    assert len(block_rows(tmp_path / "large.db")) == 2
    found = [offsets(view.fetch(start, None, ALL, 500).blocks) for start in (0, 5, 6)]
    assert found == [[0, 1, 2, 3, 4], [5], [6, 7, 8]]
    view.close()
    journal.close()


def test_a_large_block_is_cut_between_what_is_wanted(tmp_path: Path) -> None:
    """Reading goes on at the next record that is wanted."""
    journal = opened(tmp_path / "large.db")
    fill(journal, 16, padding=100)
    view = View(str(tmp_path / "large.db"))
    start, found = 0, []
    while start < 16:
        piece = view.fetch(start, 15, ("/t/1",), 100)
        found += offsets(piece.blocks)
        if piece.next == start:
            break
        start = piece.next
    assert found == [1, 4, 7, 10, 13]
    assert start == 15
    view.close()
    journal.close()


@pytest.mark.parametrize(("limit", "value", "prefix"), [("_ROWS_LIMIT", 2, "/x"), ("_READ_BYTES", 500, "/t/12")])
def test_what_is_passed_over_has_a_limit(
    view: View, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, prefix: str
) -> None:
    """A filter that nothing agrees with takes several answers, each a step further."""
    monkeypatch.setattr(view_module, limit, value)
    start, steps = 0, 0
    while start < 70:
        found = view.fetch(start, None, (prefix,), LOTS)
        assert found.blocks == []
        assert found.next > start
        start, steps = found.next, steps + 1
    assert steps == 3


# Filters.


@pytest.mark.parametrize(
    ("prefixes", "wanted"),
    [
        (("/t/1",), [1]),
        (("/t/0", "/t/2"), [0, 2]),
        (("/t/2", "/t/0", "/t/20"), [0, 2]),
        (("/t/",), [0, 1, 2]),
        (("", "/t/1"), [0, 1, 2]),
        (("/x",), []),
    ],
)
def test_filters(view: View, prefixes: tuple[str, ...], wanted: list[int]) -> None:
    """By prefixes; offsets stay those of the records."""
    found = view.fetch(3, 67, prefixes, LOTS)
    assert offsets(found.blocks) == [offset for offset in range(3, 67) if offset % 3 in wanted]
    assert found.next == 67


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ([("/t/1", True)], [1]),
        ([("/t", True), ("/t/0", False)], [1, 2]),
        ([("*", True), ("/t/2", False)], [0, 1]),
        ([("*", True)], [0, 1, 2]),
        ([("/t/", True)], []),
        ([("/", True)], []),
        ([], []),
    ],
)
def test_what_is_granted(view: View, paths: list[tuple[str, bool]], wanted: list[int]) -> None:
    """Whole components, with holes, whatever prefixes are asked for; no name of another topic comes with it."""
    found = view.fetch(3, 67, ("", "/t/1"), LOTS, may_read=allows_by(paths))
    assert offsets(found.blocks) == [offset for offset in range(3, 67) if offset % 3 in wanted]
    assert found.next == 67
    named = {topic for data in found.blocks for topic in Block.parse(data).topics}
    assert named == {f"/t/{number}" for number in wanted}


def test_ten_thousand_prefixes(view: View) -> None:
    """Cost no more than a few."""
    prefixes = tuple(f"/{number}" for number in range(10_000))
    assert offsets(view.fetch(0, None, (*prefixes, "/t/1"), LOTS).blocks) == list(range(1, 70, 3))


# Times. Blocks were written at 0, 16, 32, 48, 64 and 68 seconds.


@pytest.mark.parametrize(
    ("second", "offset"), [(-1, 0), (0, 0), (1, 16), (16, 16), (17, 32), (47.5, 48), (64, 64), (68, 68), (69, 70)]
)
def test_times(view: View, second: float, offset: int) -> None:
    """The first record that is not older; the end if all are."""
    time_us = AT_US + int(second * SECOND_US)
    assert view.offset_at(time_us) == offset
    found = view.fetch(7, None, ALL, LOTS, time_us=time_us)
    assert found.start == offset
    assert offsets(found.blocks) == list(range(offset, 70))


def test_times_within_a_block(tmp_path: Path) -> None:
    """Each record has its own."""
    journal = opened(tmp_path / "journal.db")
    journal.add([(AT_US + number, frames("/a", number)) for number in range(10)])
    journal.commit(now_us=AT_US)
    view = View(str(tmp_path / "journal.db"))
    assert [view.offset_at(AT_US + number) for number in (0, 4, 9, 10)] == [0, 4, 9, 10]
    view.close()
    journal.close()


def test_times_where_the_clock_was_set_back(tmp_path: Path) -> None:
    """The first record that is not older, in the order of offsets, as a look at each of them finds it."""
    journal = opened(tmp_path / "journal.db")
    seconds = [0, 10, 20, 5, 6, 30, 25, 26, 40, 1]
    for first, second in enumerate(seconds):
        journal.add([(AT_US + second, frames("/a", *[first] * 9))])
        journal.commit(now_us=AT_US)
    view = View(str(tmp_path / "journal.db"))
    assert len(block_rows(tmp_path / "journal.db")) > 5
    for time in range(-1, 45):
        expected = next((place * 9 for place, second in enumerate(seconds) if second >= time), 90)
        assert view.offset_at(AT_US + time) == expected
    view.close()
    journal.close()


def test_all_times_that_the_wire_takes(view: View) -> None:
    """The greatest asks for the end."""
    assert view.offset_at(2**63 - 1) == 70


# Damage.


DAMAGE = [
    ("UPDATE blocks SET next = next - 1 WHERE first = 32", "the index is damaged at offset 32"),
    ("UPDATE blocks SET topics = '/x' WHERE first = 32", "the index is damaged at offset 32"),
    ("DELETE FROM blocks WHERE first = 32", "the index is damaged at offset 32"),
    ("DELETE FROM data WHERE first = 32", "offsets 32 to 47: the block is missing"),
    ("UPDATE data SET block = zeroblob(length(block)) WHERE first = 32", "offsets 32 to 47: the block is damaged"),
    (
        "UPDATE data SET block = (SELECT block FROM data WHERE first = 16) WHERE first = 32",
        "offsets 32 to 47: another block is there, with offsets 16 to 31",
    ),
]


@pytest.mark.parametrize(("statement", "text"), DAMAGE)
def test_damage_is_told_where_it_is_met(path: Path, view: View, statement: str, text: str) -> None:
    """What stands before it is read, and what stands behind it, too."""
    change(path, statement)
    found = view.fetch(20, 60, ALL, LOTS)
    assert (offsets(found.blocks), found.next) == (list(range(20, 32)), 32)
    with pytest.raises(JournalCorruptError, match=text):
        view.fetch(32, 60, ALL, LOTS)
    assert offsets(view.fetch(0, 32, ALL, LOTS).blocks) == list(range(32))
    assert offsets(view.fetch(48, None, ALL, LOTS).blocks) == list(range(48, 70))


EDGES = [
    ("UPDATE blocks SET next = 2000 WHERE first = 68", (0, 68), "the index is damaged at offset 68"),
    ("UPDATE blocks SET latest_us = 0 WHERE first = 0", (16, 70), "the index is damaged at offset 0"),
    ("UPDATE blocks SET first = 5, next = 16 WHERE first = 0", (16, 70), "the index is damaged at offset 5"),
    ("DELETE FROM blocks WHERE first = 0", (16, 70), "the index is damaged at offset 0"),
    ("DELETE FROM blocks WHERE first = 68", (0, 68), "the index is damaged at offset 68"),
    ("DELETE FROM data WHERE first = 0", (16, 70), "offsets 0 to 15: the block is missing"),
    ("DELETE FROM data WHERE first = 68", (0, 68), "offsets 68 to 69: the block is missing"),
    ("UPDATE data SET block = x'00' WHERE first = 68", (0, 68), "offsets 68 to 69: the block is damaged"),
]


@pytest.mark.parametrize(("statement", "sound", "text"), EDGES)
def test_a_damaged_edge(path: Path, view: View, statement: str, sound: tuple[int, int], text: str) -> None:
    """How far the journal reaches is told by what is sound there, of row and block; what is not is an error."""
    change(path, statement)
    assert view.extent == Extent(0, 70)
    start, end = sound
    found: list[int] = []
    while start < end:
        piece = view.fetch(start, end, ALL, LOTS)
        found += offsets(piece.blocks)
        start = piece.next
    assert found == list(range(*sound))
    damaged = 0 if sound[0] else sound[1]
    with pytest.raises(JournalCorruptError, match=text):
        view.fetch(damaged, None, ALL, LOTS)
    found_damage = view.damage_at(damaged)
    assert found_damage is not None
    assert found_damage.first == damaged
    assert found_damage.next in ({5, 16} if sound[0] else {70})


def test_a_newest_block_of_which_nothing_is_sound(path: Path, view: View) -> None:
    """One record at least was there: it is an error, and what is behind it is not said to be no more."""
    change(path, "UPDATE blocks SET next = 2000 WHERE first = 68")
    change(path, "UPDATE data SET block = x'00' WHERE first = 68")
    assert view.extent == Extent(0, 69)
    for start in (68, 70, 1000):
        with pytest.raises(JournalCorruptError, match="the index is damaged at offset 68"):
            view.fetch(start, None, ALL, LOTS)
    assert view.damage_at(68) == (68, None, "their row in the index is damaged")


def test_edges_that_name_what_was_not_there(path: Path, view: View) -> None:
    """What stands at another place than it was written for tells nothing, in the index or among the blocks."""
    for table in ("blocks", "data"):
        with view.snapshot():
            change(path, f"UPDATE {table} SET first = 5000 WHERE first = 68")  # noqa: S608 -- one of two
        assert view.extent == Extent(0, 70)
        change(path, f"UPDATE {table} SET first = 68 WHERE first = 5000")  # noqa: S608 -- one of two
    assert view.extent == Extent(0, 70)


def test_nothing_that_is_sound(path: Path, view: View) -> None:
    """How far such a journal reaches cannot be told."""
    change(path, "UPDATE blocks SET crc = crc + 1")
    change(path, "UPDATE data SET block = x'00'")
    change(path, "UPDATE data SET first = first + 1")
    with pytest.raises(JournalCorruptError, match="do not agree"):
        _ = view.extent


@pytest.mark.parametrize(("start", "damage"), [(0, None), (31, None), (40, (40, 48)), (48, None)])
def test_where_damage_ends(path: Path, view: View, start: int, damage: tuple[int, int] | None) -> None:
    """From the offset on that was asked for, to the end of its block."""
    change(path, "UPDATE data SET block = x'00' WHERE first = 32")
    found = view.damage_at(start)
    assert (found and found[:2]) == damage


def test_an_unknown_id(path: Path) -> None:
    """Who only wants what is readable gets it."""
    change(path, "UPDATE meta SET value = x'00'")
    with pytest.raises(JournalCorruptError, match="the id of the journal is missing or damaged"):
        View(str(path))
    view = View(str(path), is_rescue=True)
    assert view.id == b""
    assert offsets(view.fetch(0, None, ALL, LOTS).blocks) == list(range(70))
    view.close()


@pytest.mark.parametrize(("change_us", "second"), [(-(10**9), 17), (10**9, 40)])
def test_a_damaged_index_of_times(path: Path, view: View, change_us: int, second: int) -> None:
    """It may not lead past a record: what it says is compared with the rows."""
    change(path, "UPDATE blocks SET latest_us = latest_us + ? WHERE first = 32", change_us)
    with pytest.raises(JournalCorruptError, match="the index is damaged at offset 32"):
        view.offset_at(AT_US + second * SECOND_US)


@pytest.mark.parametrize("first", [0, 32, 68])
def test_times_where_a_row_is_missing(path: Path, view: View, first: int) -> None:
    """What stands behind it is not taken for it."""
    change(path, "DELETE FROM blocks WHERE first = ?", first)
    with pytest.raises(JournalCorruptError, match=r"damaged|do not agree"):
        view.offset_at(AT_US + first * SECOND_US)


def test_an_index_that_names_what_is_not_there(path: Path, view: View) -> None:
    """The index of times may be damaged where the blocks are not."""
    connection = apsw.Connection(str(path))
    (index,) = connection.execute("SELECT * FROM sqlite_schema WHERE name = 'blocks_by_time'").fetchall()
    connection.pragma("writable_schema", value=True)
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'blocks_by_time'")
    connection.close()
    change(path, "DELETE FROM blocks WHERE first IN (0, 16)")
    change(path, "DELETE FROM data WHERE first IN (0, 16)")
    connection = apsw.Connection(str(path))
    connection.pragma("writable_schema", value=True)
    connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", index)
    connection.close()
    assert offsets(view.fetch(32, None, ALL, LOTS).blocks) == list(range(32, 70))
    with pytest.raises(JournalCorruptError, match="the index of times is damaged"):
        view.offset_at(AT_US)


def test_a_closed_view(view: View) -> None:
    """Closing twice is harmless; reading then is an error."""
    view.close()
    view.close()
    with pytest.raises(JournalUnavailableError):
        _ = view.extent


def test_blocks_parse(view: View) -> None:
    """What is given is a block that checks."""
    for data in view.fetch(3, 69, ("/t/1",), LOTS).blocks:
        assert Block.parse(data).count
