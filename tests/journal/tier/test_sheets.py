"""`Sheets`: the manifest, sheet by sheet: bounded, whole, and looked at again where it has changed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hub.errors import JournalCorruptError
from hub.journal.manifest import Entry
from peers.journal.tier.place import AbsentError, place_at
from peers.journal.tier.sheets import Sheets, Totals
from tests.journal.tier.made import JOURNAL

COUNT = 20
FOLDER = f"{JOURNAL.hex()}/manifest"


def entry(number: int) -> Entry:
    """A file of 10 offsets, a second after the one before; every fifth is missing between others."""
    first = 10 * number + 10 * (number // 5)
    return Entry(first, first + 10, 10, 1000 * number, 1000 * number + 9, 5, 7, "00", 3, 1, (("/a", 10),), True)


@pytest.fixture
def owner(tmp_path: Path) -> Sheets:
    """Sheets of two files each."""
    made = Sheets(place_at(str(tmp_path)), JOURNAL)
    for number in range(0, COUNT, 2):
        made.write((entry(number), entry(number + 1)))
    return made


def reader(tmp_path: Path, kept_bytes: int = 1 << 20) -> Sheets:
    """Somebody else, who looks at them."""
    sheets = Sheets(place_at(str(tmp_path)), JOURNAL, kept_bytes)
    sheets.refresh()
    return sheets


def test_all_of_it(owner: Sheets, tmp_path: Path) -> None:
    """Every file, in order, from any offset on; and how far it reaches."""
    sheets = reader(tmp_path)
    expected = [entry(number) for number in range(COUNT)]
    assert list(sheets.entries()) == list(owner.entries()) == expected
    assert (sheets.first, sheets.next) == (0, expected[-1].next)
    for offset in range(-1, expected[-1].next + 2):
        behind = [one for one in expected if one.next > offset]
        assert list(sheets.entries(offset)) == behind
        held = behind[0] if behind and behind[0].first <= offset else None
        assert sheets.entry_of(offset) == held
        assert sheets.following(offset) == (max(offset, behind[0].first) if behind else None)
    assert sum(owner.totals(part).files for part in owner.parts) == COUNT
    assert owner.totals(owner.parts[0]) == Totals(2, 10, 20, 1009)


@pytest.mark.usefixtures("owner")
def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    """However many there are; what is used again and again is read once."""
    size = reader(tmp_path).parts[0].size_bytes
    sheets = reader(tmp_path, 3 * size + 30)
    for _ in range(2):
        list(sheets.entries())
        assert sheets._kept_bytes == sum(part.size_bytes for part in sheets._kept) <= 3 * size + 30
        assert 1 < len(sheets._kept) <= 3
    assert sheets.reads_total == COUNT
    for _ in range(10):
        sheets.entry_of(5)
    assert sheets.reads_total == COUNT + 1
    narrow = reader(tmp_path, 1)
    assert len(list(narrow.entries())) == COUNT
    assert len(narrow._kept) == 1


@pytest.mark.usefixtures("owner")
def test_times(tmp_path: Path) -> None:
    """Sheets that are known to be older are not read again."""
    sheets = reader(tmp_path, 1)
    list(sheets.entries())
    reads = sheets.reads_total
    assert next(sheets.entries(since_us=15_005)) == entry(14)
    assert sheets.reads_total <= reads + 2
    assert list(sheets.entries(since_us=10**9)) == []


def test_sheets_that_speak_of_the_same(owner: Sheets, tmp_path: Path) -> None:
    """Each file once, whatever a crash has left; a contradiction is an error."""
    owner.write(tuple(entry(number) for number in range(4, 10)))
    sheets = reader(tmp_path)
    assert list(sheets.entries()) == [entry(number) for number in range(COUNT)]
    assert sheets.entry_of(entry(6).first) == entry(6)
    owner.write((entry(5), msgspec.structs.replace(entry(6), records=9)))
    sheets.refresh()
    with pytest.raises(JournalCorruptError):
        list(sheets.entries(entry(5).first))
    assert sheets.entry_of(0) == entry(0)


def test_sheets_that_are_joined_while_they_are_read(owner: Sheets, tmp_path: Path) -> None:
    """Who has the names of before looks again, and goes on where he was; what is lost is told."""
    sheets = reader(tmp_path, 1)
    found = sheets.entries()
    seen = [next(found) for _ in range(3)]
    old = [sheet for part in owner.parts for sheet in part.sheets]
    owner.write(tuple(entry(number) for number in range(COUNT)))
    for sheet in old:
        owner.delete(sheet)
    assert seen + list(found) == [entry(number) for number in range(COUNT)]

    class Losing:
        """A place that lists what it has not."""

        address = "nowhere"

        def sizes(self, folder: str) -> dict[str, int]:
            return {"00000000000000000000-00000000000000000010.json": 9} if folder == FOLDER else {}

        def read(self, name: str) -> bytes:
            raise AbsentError(name)

    losing = Sheets(Losing(), JOURNAL)  # type: ignore[arg-type]
    losing.refresh()
    with pytest.raises(AbsentError):
        losing.entry_of(0)


def test_a_damaged_sheet(owner: Sheets, tmp_path: Path) -> None:
    """It costs what it speaks of; the error names it."""
    hurt = owner.parts[1].sheets[0]
    path = tmp_path / FOLDER / hurt.name
    path.write_bytes(path.read_bytes()[:-9])
    sheets = reader(tmp_path)
    (damaged,) = sheets.damaged()
    assert damaged.name == hurt.name
    assert list(sheets.entries(hurt.next)) == [entry(number) for number in range(4, COUNT)]
    assert sheets.entry_of(0) == entry(0)
    with pytest.raises(JournalCorruptError, match=hurt.name):
        sheets.entry_of(hurt.first)
    assert sheets.following(hurt.first - 1) == hurt.first - 1
    sheets.set_aside([damaged])
    assert sheets.entry_of(hurt.first) is None
    (tmp_path / FOLDER / owner.parts[2].sheets[0].name).rename(path)
    sheets.refresh()
    with pytest.raises(JournalCorruptError, match="other offsets than its name"):
        sheets.entry_of(hurt.first)
