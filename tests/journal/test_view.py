"""Reading a journal's folder: ranges, filters, times; what is damaged is an error that names the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub.errors import GoneError, JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block
from hub.journal.segment import Write
from hub.policy.grants import allows_by
from peers.journal import segment as segment_module
from peers.journal import view as view_module
from peers.journal.store import Retention
from peers.journal.view import LARGE_FACTOR, Extent, View
from tests.journal.files import (
    AT_US,
    block_rows,
    crashed,
    everything,
    fill,
    flip,
    frames,
    hurt_block,
    hurt_head,
    numbered,
    opened,
    place_of,
    records,
    segments,
    small_blocks,
)

LOTS = 1 << 30
ALL = ("",)
SECOND_US = 1_000_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with small_blocks(monkeypatch):
        yield


@pytest.fixture(params=["one segment", "several"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A journal with records 0 to 69, blocks at 0, 16, 32, 48, 64 and 68, a second for each record that begins one."""
    path = tmp_path / "journal"
    journal = opened(path, segment_bytes=1 << 30 if request.param == "one segment" else 1_000)
    fill(journal, 16, 16, 16, 16, 4, 2)
    journal.close()
    return path


@pytest.fixture
def view(path: Path) -> Iterator[View]:
    view = View(str(path))
    yield view
    view.close()


def offsets(blocks: list[bytes]) -> list[int]:
    return [record.offset for record in records(blocks)]


# What is there.


def test_extent(view: View) -> None:
    assert view.extent == Extent(0, 70)
    assert len(view.id) == 16
    assert view.writes == []


def test_an_empty_journal(tmp_path: Path) -> None:
    opened(tmp_path / "empty")
    view = View(str(tmp_path / "empty"))
    assert view.extent == Extent(0, 0)
    assert list(view.rows()) == []
    assert view.fetch(0, None, ALL, LOTS) == (0, 0, (0, 0), [])
    assert view.offset_at(0) == view.offset_at(2**63 - 1) == 0
    with pytest.raises(GoneError):
        view.fetch(1, None, ALL, LOTS)
    view.close()


def test_no_journal(tmp_path: Path) -> None:
    """Reading makes none, and what is none is said to be none, as often as one asks."""
    with pytest.raises(JournalUnavailableError, match="there is no such journal"):
        View(str(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text").write_text("text" * 10_000)
    for _ in range(2):
        with pytest.raises(JournalCorruptError, match="a journal is a folder"):
            View(str(tmp_path / "text"))


def test_sees_what_is_committed_meanwhile(path: Path, view: View) -> None:
    journal = opened(path)
    fill(journal, 1)
    assert view.extent == Extent(0, 70), "one state until the next look"
    view.refresh()
    assert view.extent == Extent(0, 71)
    journal.commit([Write("q", 1, 0, 1)], now_us=AT_US)
    view.refresh()
    assert view.writes == [Write("q", 1, 0, 1)]
    assert offsets(view.fetch(69, None, ALL, LOTS).blocks) == [69, 70]


def test_what_is_open_stays_readable(path: Path, view: View) -> None:
    journal = opened(path, retention=Retention(1, 1 << 60), segment_bytes=1)
    before = list(view.rows())
    fill(journal, 8, 8)
    assert journal.first > 0
    assert list(view.rows()) == before
    assert [view.block(row).first for row in before] == [0, 16, 32, 48, 64, 68]
    view.refresh()
    assert view.extent == Extent(journal.first, 86)
    with pytest.raises(GoneError):
        view.fetch(0, None, ALL, LOTS)


def test_a_segment_that_was_deleted_since_the_look(path: Path) -> None:
    view = View(str(path))
    view.refresh()
    journal = opened(path, retention=Retention(1, 1 << 60), segment_bytes=1)
    fill(journal, 1, 1)
    if len(view.firsts) > 1:
        with pytest.raises(JournalUnavailableError, match="No such file"):
            list(view.rows())
    with pytest.raises(GoneError):
        view.fetch(0, None, ALL, LOTS)
    view.close()


def test_segments_that_are_written_again_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "tidied"
    journal = opened(path, segment_bytes=5_000)
    fill(journal, 1)
    view = View(str(path))
    rows = list(view.rows())
    for _ in range(200):
        fill(journal, 1)
        found = view.fetch(0, None, ALL, LOTS)
        assert offsets(found.blocks) == list(range(journal.next))
        assert view.offset_at(AT_US + (journal.next - 1) * 1_000_000) == journal.next - 1
    assert len(list(view.rows())) < 50
    assert view.block(rows[0]).count == 1
    view.close()


def test_what_is_being_written_is_not_seen(path: Path, view: View) -> None:
    journal = opened(path)
    file = segments(path)[-1]
    copy = crashed(path, path.with_name("copy"))
    whole = opened(copy)
    fill(whole, 5)
    first_bytes = segments(copy)[-1].stat().st_size - file.stat().st_size
    fill(whole, 5)
    added = segments(copy)[-1].read_bytes()[file.stat().st_size :]
    whole.close()
    start = file.read_bytes()
    for size in range(0, len(added), 8):
        file.write_bytes(start + added[:size])
        view.refresh()
        assert view.extent.next == (70 if size < first_bytes else 75)
    file.write_bytes(start)
    fill(journal, 3)
    reader = View(str(path))
    assert offsets(reader.fetch(70, None, ALL, LOTS).blocks) == [70, 71, 72]
    reader.close()


# Ranges.


@pytest.mark.parametrize(
    ("start", "end"), [(0, None), (0, 70), (5, 9), (15, 17), (16, 32), (31, 65), (69, 70), (64, None), (3, 1000)]
)
def test_ranges(view: View, start: int, end: int | None) -> None:
    found = view.fetch(start, end, ALL, LOTS)
    last = min(70, end if end is not None else 70)
    assert offsets(found.blocks) == list(range(start, last))
    assert found[:3] == (start, last, (0, 70))


@pytest.mark.parametrize(("start", "end"), [(70, None), (70, 90), (5, 5), (9, 5)])
def test_nothing_in_a_range(view: View, start: int, end: int | None) -> None:
    assert view.fetch(start, end, ALL, LOTS) == (start, start, (0, 70), [])


@pytest.mark.parametrize(
    ("start", "text"), [(71, "offset 71 is behind the end of the journal, which is 70"), (1 << 62, "is behind the end")]
)
def test_behind_the_end(view: View, start: int, text: str) -> None:
    with pytest.raises(GoneError, match=text) as caught:
        view.fetch(start, None, ALL, LOTS)
    assert caught.value.first == 0


def test_what_was_deleted(path: Path, view: View) -> None:
    journal = opened(path, retention=Retention(4_000, 1 << 60))
    fill(journal, 16, 16, 16)
    first = journal.first
    assert first > 20
    with pytest.raises(GoneError, match=f"offset 20 was deleted; the oldest that is kept is {first}") as caught:
        view.fetch(20, None, ALL, LOTS)
    assert caught.value.first == first
    assert offsets(view.fetch(first, None, ALL, LOTS).blocks) == list(range(first, 118))


def test_whole_blocks_are_given_as_they_are(view: View) -> None:
    found = view.fetch(16, 48, ALL, LOTS)
    assert found.blocks == [bytes(view.block(row).data) for row in list(view.rows(16))[:2]]


# How much.


def test_stops_when_it_has_enough(view: View) -> None:
    size = len(view.fetch(0, 16, ALL, LOTS).blocks[0])
    found = view.fetch(0, None, ALL, size)
    assert (offsets(found.blocks), found.next) == (list(range(16)), 16)
    found = view.fetch(0, None, ALL, size + 1)
    assert (offsets(found.blocks), found.next) == (list(range(32)), 32)


def test_nothing_but_the_state(view: View) -> None:
    assert view.fetch(5, None, ALL, 0) == (5, 5, (0, 70), [])


def test_a_large_block_is_cut(tmp_path: Path) -> None:
    """An answer is not much more than was asked for, and all of them together are everything."""
    journal = opened(tmp_path / "large")
    fill(journal, 3, padding=3)
    fill(journal, 16, padding=100)
    view = View(str(tmp_path / "large"))
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


def test_a_large_record_comes_alone(tmp_path: Path) -> None:
    journal = opened(tmp_path / "large")
    journal.add([(AT_US, numbered(range(5)) + frames("/t/large", b"x" * 10_000) + numbered(range(6, 9)))])
    journal.commit(now_us=AT_US)
    view = View(str(tmp_path / "large"))
    assert len(block_rows(tmp_path / "large")) == 2
    found = [offsets(view.fetch(start, None, ALL, 500).blocks) for start in (0, 5, 6)]
    assert found == [[0, 1, 2, 3, 4], [5], [6, 7, 8]]
    view.close()


def test_a_large_block_is_cut_between_what_is_wanted(tmp_path: Path) -> None:
    journal = opened(tmp_path / "large")
    fill(journal, 16, padding=100)
    view = View(str(tmp_path / "large"))
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


@pytest.mark.parametrize(("limit", "value", "prefix"), [("_ROWS_LIMIT", 2, "/x"), ("_READ_BYTES", 500, "/t/12")])
def test_what_is_passed_over_has_a_limit(
    view: View, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, prefix: str
) -> None:
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
    prefixes = tuple(f"/{number}" for number in range(10_000))
    assert offsets(view.fetch(0, None, (*prefixes, "/t/1"), LOTS).blocks) == list(range(1, 70, 3))


# Times. Blocks were written at 0, 16, 32, 48, 64 and 68 seconds.


@pytest.mark.parametrize(
    ("second", "offset"), [(-1, 0), (0, 0), (1, 16), (16, 16), (17, 32), (47.5, 48), (64, 64), (68, 68), (69, 70)]
)
def test_times(view: View, second: float, offset: int) -> None:
    time_us = AT_US + int(second * SECOND_US)
    assert view.offset_at(time_us) == offset
    found = view.fetch(7, None, ALL, LOTS, time_us=time_us)
    assert found.start == offset
    assert offsets(found.blocks) == list(range(offset, 70))


def test_times_within_a_block(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal")
    journal.add([(AT_US + number, frames("/a", number)) for number in range(10)])
    journal.commit(now_us=AT_US)
    view = View(str(tmp_path / "journal"))
    assert [view.offset_at(AT_US + number) for number in (0, 4, 9, 10)] == [0, 4, 9, 10]
    view.close()


def test_times_where_the_clock_was_set_back(tmp_path: Path) -> None:
    """The first record that is not older, in the order of offsets, as a look at each of them finds it."""
    journal = opened(tmp_path / "journal")
    seconds = [0, 10, 20, 5, 6, 30, 25, 26, 40, 1]
    for first, second in enumerate(seconds):
        journal.add([(AT_US + second, frames("/a", *[first] * 9))])
        journal.commit(now_us=AT_US)
    view = View(str(tmp_path / "journal"))
    assert len(block_rows(tmp_path / "journal")) > 5
    for time in range(-1, 45):
        expected = next((place * 9 for place, second in enumerate(seconds) if second >= time), 90)
        assert view.offset_at(AT_US + time) == expected
    view.close()


def test_all_times_that_the_wire_takes(view: View) -> None:
    assert view.offset_at(2**63 - 1) == 70


# Damage. All of the journal had been on the disk: it was closed, and opened again.


@pytest.fixture
def synced(path: Path) -> Path:
    journal = opened(path)
    fill(journal, 1)
    journal.close()
    return path


@pytest.mark.parametrize(
    ("hurt", "text"),
    [
        (hurt_block, "offsets 32 to 47: the block is damaged: its checksum does not match"),
        (
            hurt_head,
            "offset 32 is missing|offsets 32 to 47: the block is damaged: the checksum of an entry's head does not",
        ),
    ],
)
def test_damage_is_told_where_it_is_met(synced: Path, hurt: Callable[[Path, int], None], text: str) -> None:
    hurt(synced, 40)
    view = View(str(synced))
    found = view.fetch(20, 60, ALL, LOTS)
    assert (offsets(found.blocks), found.next) == (list(range(20, 32)), 32)
    with pytest.raises(JournalCorruptError, match=text):
        view.fetch(32, 60, ALL, LOTS)
    assert offsets(view.fetch(0, 32, ALL, LOTS).blocks) == list(range(32))
    assert offsets(view.fetch(48, None, ALL, LOTS).blocks) == list(range(48, 71))
    assert [bool(view.damage_at(offset)) for offset in (0, 31, 32, 40, 47, 48, 70)] == [
        False,
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    damage = view.damage_at(40)
    assert damage is not None
    assert damage[:2] == (40, 48)
    view.close()


def test_another_block(synced: Path) -> None:
    view = View(str(synced))
    rows = list(view.rows())
    view.close()
    first, other = rows[1], rows[2]
    assert first.stored_bytes == other.stored_bytes
    entry = place_of(synced, first.first)[0].read_bytes()[first.place :][: first.stored_bytes]
    view = View(str(synced))
    list(view.rows())
    with place_of(synced, other.first)[0].open("r+b") as file:
        file.seek(other.place)
        file.write(entry)
    with pytest.raises(JournalCorruptError, match="offsets 32 to 47: another block is there, with offsets 16 to 31"):
        view.block(other)
    view.close()


def test_a_damaged_footer(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = opened(path, segment_bytes=1_000)
    fill(journal, 16, 16, 16, 16, 16)
    journal.close()
    whole = everything(path)
    first = segments(path)[0]
    flip(first, first.stat().st_size - 60)
    assert everything(path) == whole
    flip(first, first.stat().st_size - 20)
    assert everything(path) == whole, "also where nothing says where it is"


@pytest.mark.parametrize("place", [0, 20, 40])
def test_a_damaged_header(synced: Path, place: int) -> None:
    """Who only wants what is readable gets it; the id is told by another segment, or not at all."""
    known = View(str(synced)).id
    files = segments(synced)
    flip(files[0], place)
    view = View(str(synced))
    assert view.id == (b"" if len(files) == 1 else known)
    assert offsets(view.fetch(0, None, ALL, LOTS).blocks) == list(range(71))
    view.close()


def test_a_segment_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = opened(path, segment_bytes=1)
    fill(journal, 16, 16, 16)
    journal.close()
    segments(path)[1].unlink()
    view = View(str(path))
    assert view.extent == Extent(0, 48)
    assert offsets(view.fetch(0, None, ALL, LOTS).blocks) == list(range(16))
    with pytest.raises(JournalCorruptError, match="offset 16 is missing"):
        view.fetch(16, None, ALL, LOTS)
    damage = view.damage_at(20)
    assert damage == (20, 32, "no block has them")
    assert offsets(view.fetch(32, None, ALL, LOTS).blocks) == list(range(32, 48))
    view.close()


def test_a_block_that_nobody_knows_how_to_read(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(iter(view.rows()))
    known = segment_module.read_head
    monkeypatch.setattr(segment_module, "read_head", lambda data: known(data)._replace(codec=99))
    with pytest.raises(JournalUnavailableError, match="codec 99: not known to this version"):
        view.block(row)


def test_a_closed_view(view: View) -> None:
    view.close()
    view.close()
    with pytest.raises(JournalUnavailableError, match="closed"):
        view.fetch(0, None, ALL, LOTS)


def test_blocks_parse(view: View) -> None:
    for data in view.fetch(3, 69, ("/t/1",), LOTS).blocks:
        assert Block.parse(data).count
