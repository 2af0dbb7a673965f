"""Copying: each sealed record once, whatever happens in between, and nothing without being told."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hub.errors import JournalCorruptError, JournalUnavailableError
from peers.journal.tier import parquet
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import Place, TierUnavailableError, place_at
from peers.journal.tier.tiering import TIER_FILE, read_copied
from peers.journal.view import View
from tests.journal.files import AT_US, everything, fill, hurt_block, opened
from tests.journal.tier.made import FOR_EVER, copied, copy, files_of, id_of, journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return journal(tmp_path / "journal", 40, 30, 25)


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    (tmp_path / "tier").mkdir()
    return place_at(str(tmp_path / "tier"))


@contextmanager
def small_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "FILE_BYTES", 1)
        yield


def test_what_is_sealed_is_copied(path: Path, place: Place) -> None:
    progress = copy(path, place)
    assert (progress.first, progress.next, progress.missed) == (0, 95, 0)
    assert progress.files == 1
    assert copied(place, id_of(path)) == everything(path)[:95]
    assert copy(path, place) == progress


class Killed(BaseException):
    pass


class Killing:
    def __init__(self, place: Place, at: int, when: str) -> None:
        self.address = place.address
        self._place = place
        self._at = at
        self._when = when
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls == self._at and self._when == "before":
                raise Killed
            if self.calls == self._at and self._when == "amid" and name == "write":
                self._place.write(arguments[0] + ".new", bytes(arguments[1])[: len(arguments[1]) // 2])
                raise Killed
            found = getattr(self._place, name)(*arguments)
            if self.calls == self._at:
                raise Killed
            return found

        return call


@pytest.mark.parametrize("when", ["before", "amid"])
def test_killed_at_each_point(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    expected = everything(path)[:95]
    at = done = 0
    with small_files(monkeypatch):
        while not done:
            at += 1
            mine = shutil.copytree(path, tmp_path / f"journal-{at}")
            (tmp_path / f"tier-{at}").mkdir()
            place = place_at(str(tmp_path / f"tier-{at}"))
            killing = Killing(place, at, when)
            copier = Copier(str(mine), killing, TierRetention(1, 0))  # type: ignore[arg-type]
            try:
                while copier.step(AT_US):
                    pass
                done = killing.calls
            except Killed:
                pass
            copier.close()
            copy(mine, place)
            kept = copied(place, id_of(mine))
            assert kept == expected[95 - len(kept) :]
            held = files_of(place, id_of(mine))
            names = {f"{entry.name}.parquet" for entry in held.entries()}
            assert set(place.sizes(f"{id_of(mine).hex()}/data")) == names
    assert at > 12


def test_retention(path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_files(monkeypatch):
        assert copy(path, place, TierRetention(0, 30_000_000), AT_US + 60_000_000).first == 40
        progress = copy(path, place, TierRetention(1, 0))
    assert (progress.first, progress.next, progress.files, progress.missed) == (70, 95, 1, 0)
    assert copied(place, id_of(path)) == everything(path)[70:95]


def test_what_it_does_not_touch(path: Path, folder: Place, tmp_path: Path) -> None:
    first = Copier(str(path), folder, FOR_EVER)
    with pytest.raises(JournalUnavailableError, match="another process"):
        Copier(str(path), folder, FOR_EVER)
    first.close()
    older = shutil.copytree(path, tmp_path / "older")
    store = opened(path, segment_bytes=1)
    fill(store, 20, 20)
    store.close()
    copy(path, folder)
    with pytest.raises(JournalCorruptError, match="an older copy"):
        copy(older, folder)
    note = (path / TIER_FILE).read_bytes()
    (path / TIER_FILE).write_text("x")
    with pytest.raises(JournalCorruptError, match="delete it if"):
        copy(path, folder)
    (path / TIER_FILE).write_bytes(note)
    name = f"{id_of(path).hex()}/manifest.json"
    later = folder.read(name).replace(b"hub tier 1", b"hub tier 2")
    folder.write(name, later)
    with pytest.raises(JournalUnavailableError, match="this version reads"):
        copy(path, folder)
    assert folder.read(name) == later


def test_a_tier_that_is_away(path: Path, tmp_path: Path) -> None:
    copier = Copier(str(path), place_at(str(tmp_path / "tier")), FOR_EVER)
    with pytest.raises(TierUnavailableError, match="no such folder"):
        copier.step(AT_US)
    assert copier.progress() is None
    (tmp_path / "tier").mkdir()
    assert copier.step(AT_US)
    copier.close()


class Full:
    def __init__(self, place: Place) -> None:
        self.address = place.address
        self._place = place
        self.is_full = True

    def write(self, name: str, data: bytes) -> None:
        if self.is_full:
            raise TierUnavailableError(f"{name}: No space left on device")
        self._place.write(name, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)


class Flipping(Full):
    def write(self, name: str, data: bytes) -> None:
        hurt = bytearray(data)
        hurt[len(hurt) // 2] ^= self.is_full
        self._place.write(name, bytes(hurt))


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [(Full, TierUnavailableError, "No space"), (Flipping, JournalCorruptError, "reads as something else")],
)
def test_what_is_not_stored_well_does_not_count(
    path: Path, folder: Place, kind: type[Full], error: type[Exception], said: str
) -> None:
    place = kind(folder)
    copier = Copier(str(path), place, FOR_EVER)  # type: ignore[arg-type]
    for _ in range(3):
        with pytest.raises(error, match=said):
            copier.step(AT_US)
        assert read_copied(str(path)) is None
    place.is_full = False
    assert copier.step(AT_US)
    copier.close()
    assert copied(folder, id_of(path)) == everything(path)[:95]


def test_what_was_deleted_before_it_was_copied(path: Path, folder: Place) -> None:
    copy(path, folder)
    store = opened(path, segment_bytes=1)
    fill(store, 20, 20, 20)
    store.close()
    for file in sorted(path.glob("*.seg"))[:-2]:
        file.unlink()
    assert copy(path, folder).missed > 0
    offsets = [record.offset for record in copied(folder, id_of(path))]
    assert offsets == [*range(95), *range(offsets[95], 160)]
    assert offsets[95] > 95


def test_another_file_system_is_mounted(path: Path, folder: Place, tmp_path: Path) -> None:
    copy(path, folder)
    shutil.move(tmp_path / "tier", tmp_path / "moved")
    (tmp_path / "tier").mkdir()
    with pytest.raises(JournalCorruptError, match="not the tier that it was"):
        copy(path, folder)
    assert list((tmp_path / "tier").iterdir()) == []
    (tmp_path / "other").mkdir()
    assert copy(path, place_at(str(tmp_path / "other"))).next == 95


@pytest.mark.parametrize("way", ["lost", "damaged", "with tier.json"])
def test_a_lost_manifest_is_rebuilt(path: Path, place: Place, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    hurt_block(path, 50)
    with small_files(monkeypatch):
        before = copy(path, place)
    name = f"{id_of(path).hex()}/manifest.json"
    manifest = place.read(name)
    if way == "damaged":
        place.write(name, manifest[:-100])
    else:
        place.delete(name)
    if way == "with tier.json":
        (path / TIER_FILE).unlink()
    assert copy(path, place) == before
    assert place.read(name) == manifest


def test_a_damaged_file_that_no_manifest_names_stays(
    path: Path, folder: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_files(monkeypatch):
        copy(path, folder)
    folder.delete(f"{id_of(path).hex()}/manifest.json")
    data = sorted((tmp_path / "tier" / id_of(path).hex() / "data").iterdir())[1]
    data.write_bytes(data.read_bytes()[:-50])
    for _ in range(2):
        assert copy(path, folder).files == 2
        assert len(folder.sizes(f"{id_of(path).hex()}/data")) == 3


def test_what_was_deleted_on_purpose_is_not_named_again(
    path: Path, folder: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_files(monkeypatch):
        copy(path, folder)
        data = tmp_path / "tier" / id_of(path).hex() / "data"
        oldest = min(data.iterdir())
        kept = oldest.read_bytes()
        copy(path, folder, TierRetention(1, 0))
    assert not oldest.exists()
    oldest.write_bytes(kept)
    assert copy(path, folder).first == 70
    assert not oldest.exists()


def test_segments_that_are_joined_while_they_are_copied(
    path: Path, folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter([JournalCorruptError("gone")])
    original = View.block

    def block(self: Any, row: Any) -> Any:
        for error in calls:
            raise error
        return original(self, row)

    monkeypatch.setattr(View, "block", block)
    copier = Copier(str(path), folder, FOR_EVER)
    with pytest.raises(JournalUnavailableError, match="has changed"):
        copier.step(AT_US)
    assert copier.step(AT_US)
    copier.close()
    assert copied(folder, id_of(path)) == everything(path)[:95]
