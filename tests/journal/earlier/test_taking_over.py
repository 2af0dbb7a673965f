"""A journal of the first version is taken over: the same records at the same offsets, or a reason why not."""

from __future__ import annotations

import fcntl
from pathlib import Path

import msgpack
import pytest

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.segment.mark import Write
from peers.journal.earlier import taking_over as module
from peers.journal.earlier.taking_over import Taken, take_over
from peers.journal.view import View
from tests.journal.earlier.databases import ID, change, earlier
from tests.journal.files import everything, fill, flip, opened, segments

WRITES = [Write("q", 3, 0, 5), Write("alice/r", 7, 5, 30)]


def taken(tmp_path: Path, *, skips_damaged: bool = False) -> Taken:
    """Take it over."""
    return take_over(str(tmp_path / "old.db"), str(tmp_path / "new"), skips_damaged=skips_damaged, tell=lambda *_: None)


def test_all_of_it(tmp_path: Path) -> None:
    """Id, offsets, times and writers stay, also where the oldest were deleted; the old file is not changed."""
    old = earlier(tmp_path / "old.db", 10, 20, 1, first=100, writes=WRITES)
    before = old.read_bytes()
    assert taken(tmp_path) == Taken(100, 131, 31, [])
    assert old.read_bytes() == before
    found = everything(tmp_path / "new")
    assert [(record.offset, msgpack.unpackb(record.body)[0]) for record in found] == [
        (at, at) for at in range(100, 131)
    ]
    assert {record.time_us for record in found} == {1_700_000_000_000_000 + at * 1_000_000 for at in (100, 110, 130)}
    journal = opened(tmp_path / "new")
    assert (journal.id, journal.first, journal.next, journal.writes) == (ID, 100, 131, WRITES)
    fill(journal, 5)
    assert len(everything(tmp_path / "new")) == 36
    journal.close()
    assert sorted(file.name for file in tmp_path.iterdir() if not file.name.startswith("old")) == ["new"]


def test_an_empty_one(tmp_path: Path) -> None:
    """It becomes an empty one, also in a folder that is there and empty."""
    earlier(tmp_path / "old.db")
    (tmp_path / "new").mkdir()
    assert taken(tmp_path) == Taken(0, 0, 0, [])
    assert everything(tmp_path / "new") == []


def test_many_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large is copied piece by piece."""
    monkeypatch.setattr(module, "_COMMIT_BYTES", 500)
    earlier(tmp_path / "old.db", *[50] * 20, writes=WRITES)
    assert taken(tmp_path).records == 1000
    assert [record.offset for record in everything(tmp_path / "new")] == list(range(1000))


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("UPDATE data SET block = x'00' WHERE first = 10", (10, 30)),
        ("DELETE FROM data WHERE first = 30", (30, 31)),
        ("DELETE FROM data WHERE first = 0", (0, 10)),
        ("UPDATE data SET block = (SELECT block FROM data WHERE first = 0) WHERE first = 10", (10, 30)),
    ],
)
def test_damage(tmp_path: Path, statement: str, missing: tuple[int, int]) -> None:
    """It is named, and nothing is made; who says so goes on behind it, and the gap is told to readers."""
    change(earlier(tmp_path / "old.db", 10, 20, 1), statement)
    text = rf"offsets {missing[0]} to {missing[1] - 1}: no sound block has them; --skip-damaged goes on"
    with pytest.raises(JournalCorruptError, match=text):
        taken(tmp_path)
    assert not (tmp_path / "new").exists()
    found = taken(tmp_path, skips_damaged=True)
    assert [damage[:2] for damage in found.damages] == [missing]
    assert (found.first, found.next, found.records) == (0, 31, 31 - (missing[1] - missing[0]))
    view = View(str(tmp_path / "new"))
    assert view.extent == (0, 31)
    for start, end in ((0, missing[0]), (missing[1], 31)):
        assert view.fetch(start, end, ("",), 1 << 20).next == end
    if missing[1] < 31:
        with pytest.raises(JournalCorruptError, match=f"offset {missing[0]} is missing"):
            view.fetch(missing[0], None, ("",), 1 << 20)
    view.close()
    journal = opened(tmp_path / "new")
    assert journal.next == 31
    journal.close()


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("PRAGMA application_id = 5", "a database, but not a journal"),
        ("PRAGMA user_version = 2", "a journal of format 2"),
        ("UPDATE meta SET value = x'00'", "the id of the journal is damaged"),
        ("UPDATE writes SET batch = 9", "what writers have committed is damaged"),
        ("UPDATE writes SET batch = 'x'", "what writers have committed is damaged"),
        ("DROP TABLE blocks", "not a journal, or damaged"),
    ],
)
def test_what_is_none(tmp_path: Path, statement: str, text: str) -> None:
    """One line says why, and nothing is made."""
    change(earlier(tmp_path / "old.db", 3, writes=WRITES), statement)
    for _ in range(2):
        with pytest.raises((JournalCorruptError, JournalUnavailableError), match=text):
            taken(tmp_path)
    assert not (tmp_path / "new").exists()


def test_files_that_are_none(tmp_path: Path) -> None:
    """Nothing there, and something else."""
    with pytest.raises(JournalUnavailableError, match="there is no such file"):
        taken(tmp_path)
    (tmp_path / "old.db").write_bytes(b"diary" * 1000)
    with pytest.raises(JournalCorruptError, match="not a journal, or damaged"):
        taken(tmp_path)


def test_a_hub_that_has_it(tmp_path: Path) -> None:
    """It would go on writing there."""
    old = earlier(tmp_path / "old.db", 3)
    with old.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(JournalUnavailableError, match="a hub has this journal open; stop it first"):
            taken(tmp_path)
    assert taken(tmp_path).records == 3


def test_a_place_that_is_taken(tmp_path: Path) -> None:
    """What is there stays."""
    earlier(tmp_path / "old.db", 3)
    opened(tmp_path / "new").close()
    with pytest.raises(JournalUnavailableError, match="there is something already"):
        taken(tmp_path)


def test_what_was_interrupted(tmp_path: Path) -> None:
    """What is left of it is deleted."""
    earlier(tmp_path / "old.db", 3)
    opened(tmp_path / "new.taking").close()
    assert taken(tmp_path).records == 3
    assert not (tmp_path / "new.taking").exists()


def test_a_copy_that_is_not_what_was_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compared, and not put in place."""
    earlier(tmp_path / "old.db", 30)
    true = module._copy

    def spoilt(database: object, making: str, tell: object, *, skips_damaged: bool) -> Taken:
        found = true(database, making, tell, skips_damaged=skips_damaged)  # type: ignore[arg-type]
        flip(segments(Path(making))[0], 400)
        return found

    monkeypatch.setattr(module, "_copy", spoilt)
    with pytest.raises(JournalCorruptError):
        taken(tmp_path)
    assert not (tmp_path / "new").exists()
