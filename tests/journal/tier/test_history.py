"""History: what was deleted here is read from the tier, and nobody can tell."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hub.errors import GoneError, JournalCorruptError
from hub.journal.block import Record
from hub.policy.grants import allows_by
from peers.journal.history import History
from peers.journal.tier import parquet, tier_view
from peers.journal.tier.copier import TierRetention
from peers.journal.tier.parquet import blocks_of
from peers.journal.tier.place import Place, TierUnavailableError, place_at
from peers.journal.view import LARGE_FACTOR, Extent
from tests.journal.files import AT_US, everything, fill, flip, hurt_block, opened, records, segments
from tests.journal.tier.made import FOR_EVER, copy, files_of, fill_untidily, id_of

LOTS = 1 << 30
SECOND_US = 1_000_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "FILE_BYTES", 400)
    monkeypatch.setattr(parquet, "STRIPE_RECORDS", 16)
    monkeypatch.setattr(parquet, "GROUP_RECORDS", 4)


class Kept:
    def __init__(self, folder: Path, tier: str) -> None:
        self.path = folder / "journal"
        self.tier = tier
        fill_untidily(self.path, 10, 7, 13, 20, 1, 19, 30, 25, 11, 4)
        store = opened(self.path)
        fill(store, 10, padding=10)
        store.close()
        self.records = everything(self.path)
        self.copy()
        self.delete(100)

    def copy(self, retention: TierRetention = FOR_EVER) -> None:
        copy(self.path, place_at(self.tier), retention)

    def delete(self, before: int) -> None:
        files = segments(self.path)
        for file, following in pairwise(files):
            if int(following.stem) <= before:
                file.unlink()

    @property
    def here(self) -> int:
        return int(segments(self.path)[0].stem)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    (tmp_path / "tier").mkdir()
    return Kept(tmp_path, str(tmp_path / "tier"))


@pytest.fixture
def history(kept: Kept) -> Iterator[History]:
    history = History(str(kept.path), kept.tier)
    yield history
    history.close()


def read(
    history: History,
    start: int = 0,
    end: int | None = None,
    limit: int = LOTS,
    prefixes: tuple[str, ...] = ("",),
    **wanted: Any,
) -> list[Record]:
    found: list[Record] = []
    while True:
        piece = history.fetch(start, end, prefixes, limit, **wanted)
        found += records(piece.blocks)
        if piece.next >= min(LOTS if end is None else end, piece.extent.next):
            return found
        assert piece.next > start
        start = piece.next


def test_all_of_it(place: Place, tmp_path: Path) -> None:
    kept = Kept(tmp_path, place.address)
    held = files_of(place, id_of(kept.path))
    assert len(list(held.entries())) > 2
    assert 100 == kept.here < (held.next or 0) < len(kept.records)
    history = History(str(kept.path), place.address)
    assert read(history) == kept.records
    assert read(history, prefixes=("/t/1",), limit=100) == [one for one in kept.records if one.topic == "/t/1"]
    assert history.fetch(0, None, ("",), 0).extent == Extent(0, len(kept.records))
    history.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(0, 150),
    end=st.one_of(st.none(), st.integers(0, 160)),
    limit=st.sampled_from([1, 60, 300, 1000, LOTS]),
    prefixes=st.sampled_from([("",), ("/t/1",), ("/t/0", "/t/2"), ("/none",), ("/t/2", "/x")]),
    granted=st.sampled_from([None, {"/t/": True}, {"*": True, "/t/1": False}]),
)
def test_any_part_of_it(  # noqa: PLR0917 -- given by hypothesis
    kept: Kept,
    history: History,
    start: int,
    end: int | None,
    limit: int,
    prefixes: tuple[str, ...],
    granted: dict[str, bool] | None,
) -> None:
    may_read = allows_by(tuple(granted.items())) if granted else None
    expected = [
        record
        for record in kept.records[start:end]
        if record.topic.startswith(prefixes) and (may_read is None or may_read(record.topic))
    ]
    assert read(history, start, end, limit, prefixes, may_read=may_read) == expected


def test_answers_are_bounded(kept: Kept, history: History) -> None:
    for start in range(kept.here):
        piece = history.fetch(start, None, ("",), 200)
        assert len(b"".join(piece.blocks)) <= (LARGE_FACTOR + 1) * 200 + 200
        assert piece.next > start


@pytest.mark.parametrize("limit", ["_STRIPES_LIMIT", "_FILES_LIMIT"])
@pytest.mark.parametrize("prefixes", [("",), ("/t/1",), ("/none",)])
def test_one_answer_does_not_take_long(
    kept: Kept, history: History, monkeypatch: pytest.MonkeyPatch, limit: str, prefixes: tuple[str, ...]
) -> None:
    monkeypatch.setattr(tier_view, limit, 1)
    assert read(history, prefixes=prefixes) == [one for one in kept.records if one.topic.startswith(prefixes)]


def test_stripes_are_kept(kept: Kept, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def counted(found: Any) -> list[bytes]:
        decoded.append(len(found))
        return blocks_of(found)

    monkeypatch.setattr(tier_view, "blocks_of", counted)
    for start in range(8):
        history.fetch(start, start + 1, ("",), LOTS)
    assert len(decoded) == 1
    monkeypatch.setattr(tier_view, "_KEPT_BYTES", 1)
    before = len(decoded)
    assert read(history, limit=60) == kept.records
    assert len(decoded) - before < 30
    monkeypatch.setattr(tier_view, "_OPEN_LIMIT", 1)
    assert read(history) == kept.records


def test_times(kept: Kept, history: History) -> None:
    for at_s in range(-1, 152, 3):
        time_us = AT_US + at_s * SECOND_US
        expected = next((record.offset for record in kept.records if record.time_us >= time_us), len(kept.records))
        assert history.fetch(0, None, ("",), 0, time_us=time_us).start == expected


def test_what_the_tier_has_no_more(kept: Kept, history: History) -> None:
    fill_untidily(kept.path, 30, 30)
    kept.copy()
    expected = everything(kept.path)[-60:]
    kept.delete(len(kept.records) + 60)
    assert kept.here == len(kept.records) + 60
    assert read(history, len(kept.records)) == expected
    held = files_of(place_at(kept.tier), id_of(kept.path))
    lost = list(held.entries())[1]
    held._write([entry for entry in held.entries() if entry != lost])
    with closing(History(str(kept.path), kept.tier)) as anew:
        assert read(anew, 0, lost.first) == kept.records[: lost.first]
        with pytest.raises(GoneError) as caught:
            read(anew, lost.first)
        assert caught.value.first == lost.next
    with closing(History(str(kept.path), kept.tier)) as late:
        assert read(late, 0, 5) == kept.records[:5]
        kept.copy(TierRetention(1, 0))
        left = files_of(place_at(kept.tier), id_of(kept.path)).first or 0
        assert left > 40
        for start in (39, 2):
            with pytest.raises(GoneError) as caught:
                read(late, start)
            assert caught.value.first == min(left, kept.here)


def test_a_tier_that_is_away(kept: Kept, tmp_path: Path) -> None:
    shutil.move(kept.tier, tmp_path / "moved")
    history = History(str(kept.path), kept.tier)
    assert read(history, kept.here) == kept.records[kept.here :]
    now_s = [0.0]
    history._tier = tier_view.TierView(place_at(kept.tier), id_of(kept.path), lambda: now_s[0])
    acts = (
        lambda: read(history),
        lambda: history.fetch(kept.here, None, ("",), 0),
        lambda: history.fetch(0, None, ("",), 0, time_us=AT_US),
    )
    for act in acts:
        with pytest.raises(TierUnavailableError):
            act()
    shutil.move(tmp_path / "moved", kept.tier)
    for act in acts:  # it is not tried at once: others wait for this process, too
        with pytest.raises(TierUnavailableError):
            act()
    assert read(history, kept.here) == kept.records[kept.here :]
    now_s[0] = 100.0
    assert read(history) == kept.records
    shutil.move(kept.tier, tmp_path / "moved")
    now_s[0] = 1000.0
    for _ in range(2):
        assert history.fetch(kept.here, None, ("",), 0).extent.first == 0  # as it was known to be
    history.close()


def test_holes(tmp_path: Path) -> None:
    (tmp_path / "tier").mkdir()
    path = tmp_path / "journal"
    fill_untidily(path, 10, 10, 10, 10)
    expected = everything(path)
    hurt_block(path, 15)
    copy(path, place_at(str(tmp_path / "tier")))
    for file in segments(path)[:-1]:
        file.unlink()
    history = History(str(path), str(tmp_path / "tier"))
    assert history.fetch(0, None, ("",), LOTS).next == 10
    for prefixes in (("",), ("/none",)):
        with pytest.raises(JournalCorruptError, match="offsets 10 to 19: could not be copied to the tier"):
            history.fetch(10, None, prefixes, LOTS)
    assert read(history, 20) == expected[20:]
    with pytest.raises(JournalCorruptError, match="could not be copied"):
        history.fetch(0, None, ("",), 0, time_us=AT_US + 15 * SECOND_US)
    assert history.fetch(0, None, ("",), 0, time_us=AT_US - 1).start == 0
    history.close()


def test_a_damaged_manifest(kept: Kept, history: History) -> None:
    assert read(history) == kept.records
    (manifest,) = Path(kept.tier).glob("*/manifest.json")
    flip(manifest, 100)
    history.tier.refresh(is_urgent=True)
    assert read(history) == kept.records
    anew = History(str(kept.path), kept.tier)
    for act in (lambda: read(anew), lambda: anew.fetch(0, None, ("",), 0, time_us=AT_US)):
        with pytest.raises(JournalCorruptError, match=manifest.name):
            act()
    damage = anew.damage_at(5)
    assert damage is not None
    assert (damage.first, damage.next) == (5, kept.here)
    assert anew.extent.first == 0
    assert read(anew, kept.here) == kept.records[kept.here :]
    anew.close()
