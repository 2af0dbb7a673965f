"""Reading a journal's folder: ranges, filters, times; what is damaged is an error that names the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub.errors import GoneError, JournalCorruptError, JournalUnavailableError
from hub.journal.segment import read_head
from peers.journal import segment as segment_module
from peers.journal import view as view_module
from peers.journal.store import Retention
from peers.journal.view import Extent, View
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


def test_an_empty_journal(tmp_path: Path) -> None:
    opened(tmp_path / "empty")
    view = View(str(tmp_path / "empty"))
    assert (view.extent, list(view.rows()), view.writes) == (Extent(0, 0), [], [])
    assert view.fetch(0, None, ALL, LOTS) == (0, 0, (0, 0), [])
    assert view.offset_at(0) == view.offset_at(2**63 - 1) == 0
    for _ in range(2):
        view.close()
    with pytest.raises(JournalUnavailableError, match="closed"):
        view.fetch(0, None, ALL, LOTS)


def test_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailableError, match="there is no such journal"):
        View(str(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text").write_text("text" * 10_000)
    for _ in range(2):
        with pytest.raises(JournalCorruptError, match="a journal is a folder"):
            View(str(tmp_path / "text"))


def test_what_is_open_stays_readable(path: Path, view: View) -> None:
    journal = opened(path, retention=Retention(1, 1 << 60), segment_bytes=1)
    before = list(view.rows())
    fill(journal, 8, 8)
    assert journal.first > 0
    assert list(view.rows()) == before
    assert [view.block(row).first for row in before] == [0, 16, 32, 48, 64, 68]
    late = View(str(path))
    view.refresh()
    assert view.extent == Extent(journal.first, 86)
    text = f"offset 0 was deleted; the oldest that is kept is {journal.first}"
    with pytest.raises(GoneError, match=text) as caught:
        view.fetch(0, None, ALL, LOTS)
    assert caught.value.first == journal.first
    late.refresh()
    fill(journal, 1, 1)
    with pytest.raises(JournalUnavailableError, match="No such file"):  # deleted since it has looked
        list(late.rows())
    late.close()


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


def test_blocks(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    found = view.fetch(16, 48, ALL, LOTS)
    assert found.blocks == [bytes(view.block(row).data) for row in list(view.rows(16))[:2]]
    prefixes = tuple(f"/{number}" for number in range(10_000))
    assert offsets(view.fetch(0, None, (*prefixes, "/t/1"), LOTS).blocks) == list(range(1, 70, 3))
    row = next(iter(view.rows()))
    monkeypatch.setattr(segment_module, "read_head", lambda data: read_head(data)._replace(codec=99))
    with pytest.raises(JournalUnavailableError, match="codec 99: not known to this version"):
        view.block(row)


def test_a_large_record_comes_alone(tmp_path: Path) -> None:
    journal = opened(tmp_path / "large")
    journal.add([(AT_US, numbered(range(5)) + frames("/t/large", b"x" * 10_000) + numbered(range(6, 9)))])
    journal.commit(now_us=AT_US)
    view = View(str(tmp_path / "large"))
    assert len(block_rows(tmp_path / "large")) == 2
    found = [offsets(view.fetch(start, None, ALL, 500).blocks) for start in (0, 5, 6)]
    assert found == [[0, 1, 2, 3, 4], [5], [6, 7, 8]]
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


@pytest.fixture
def synced(path: Path) -> Path:
    """A journal that was closed, and opened again: all of it had been on the disk."""
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
    assert [offset for offset in (0, 31, 32, 40, 47, 48, 70) if view.damage_at(offset)] == [32, 40, 47]
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
    known = View(str(synced)).id
    files = segments(synced)
    flip(files[0], place)
    view = View(str(synced))
    assert view.id == (b"" if len(files) == 1 else known)
    assert offsets(view.fetch(0, None, ALL, LOTS).blocks) == list(range(71))
    view.close()
