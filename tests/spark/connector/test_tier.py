"""Reading from the files of a tier: which of them a query needs, what is left to the hub, and what is read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.manifest import Entry
from peers.journal.tier import parquet
from peers.journal.tier.files import data_name
from peers.journal.tier.parquet import FileMaker
from peers.journal.tier.place import TierUnavailableError, place_at
from peers.spark.connector import shares as tier
from peers.spark.connector.options import DataLostError
from peers.spark.connector.shares import FileShare, OffsetRange, Sought, file_tables, plan
from tests.journal.tier.made import JOURNAL, blocks, files_of

ALL = ("",)


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier, "_manifests", {})


def put(folder: Path, first: int, following: int, *, hole: int = 0) -> Entry:
    held = files_of(place_at(str(folder)), JOURNAL)
    maker = FileMaker(JOURNAL, first)
    for block in blocks(following - first, first):
        maker.add(block)
    if hole:
        maker.pass_over(following + hole, "damaged")
    data, entry = maker.finish()
    held.put(data, entry)
    return entry


def planned(folder: Path, start: int, end: int, partitions: int = 1, **more: Any) -> list[tuple[str, int, int]]:
    sought = Sought(start, end, JOURNAL.hex(), more.pop("topics", ALL), **more)
    kinds = {FileShare: "file", OffsetRange: "hub"}
    return [(kinds[type(share)], share.start, share.end) for share in shares(folder, sought, partitions)]


def shares(folder: Path, sought: Sought, partitions: int = 1) -> list[Any]:
    found: list[Any] = pickle.loads(pickle.dumps(plan(sought, str(folder), partitions)))  # noqa: S301 -- our own
    return found


def offsets(share: FileShare, topics: tuple[str, ...] = ALL, *, lossy: bool = False) -> list[int]:
    return [offset for table in file_tables(share, topics, lossy=lossy) for offset in table["offset"].to_pylist()]


def written(count: int) -> list[tuple[int, bytes]]:
    return [(record.offset, bytes(record.body)) for block in blocks(count) for record in block.records()]


def read(share: FileShare) -> list[tuple[int, bytes]]:
    tables = file_tables(share, ALL, lossy=False)
    return [
        row for table in tables for row in zip(*table.select(["offset", "value"]).to_pydict().values(), strict=True)
    ]


class TestPlan:
    def test_files_and_the_rest(self, tmp_path: Path) -> None:
        for first, following in ((100, 200), (200, 260), (300, 400)):
            put(tmp_path, first, following)
        assert planned(tmp_path, 120, 450) == [
            ("file", 120, 200),
            ("file", 200, 260),
            ("file", 300, 400),
            ("hub", 260, 300),
            ("hub", 400, 450),
        ]
        assert planned(tmp_path, 210, 220) == [("file", 210, 220)]
        assert planned(tmp_path, 0, 100) == [("hub", 0, 100)]
        assert planned(tmp_path, 400, 400) == []

    def test_without_a_tier_all_comes_from_the_hub(self) -> None:
        assert plan(Sought(0, 10, "ab", ALL), "", 1) == [OffsetRange(0, 10, "ab")]

    def test_files_that_cannot_hold_what_is_wanted_are_left_out(self, tmp_path: Path) -> None:
        put(tmp_path, 0, 50)
        put(tmp_path, 50, 100)
        assert planned(tmp_path, 0, 100, topics=("/other",)) == []
        assert planned(tmp_path, 0, 100, topics=("/other", "/t/1")) == [("file", 0, 50), ("file", 50, 100)]

    def test_what_comes_later_is_seen_after_a_while(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(tmp_path, 0, 50)
        assert planned(tmp_path, 0, 100) == [("file", 0, 50), ("hub", 50, 100)]
        put(tmp_path, 50, 100)
        assert planned(tmp_path, 0, 100) == [("file", 0, 50), ("hub", 50, 100)]
        monkeypatch.setattr(tier, "LOOK_EVERY_S", 0.0)
        assert planned(tmp_path, 0, 100) == [("file", 0, 50), ("file", 50, 100)]

    def test_a_tier_that_is_away(self, tmp_path: Path) -> None:
        with pytest.raises(TierUnavailableError, match="there is no such folder"):
            planned(tmp_path / "away", 0, 10)


class TestReading:
    def test_topics_and_bounds(self, tmp_path: Path) -> None:
        put(tmp_path, 0, 100)
        (share,) = shares(tmp_path, Sought(10, 90, JOURNAL.hex(), ("/t/1",)))
        assert offsets(share, ("/t/1",)) == [offset for offset in range(10, 90) if offset % 3 == 1]
        assert offsets(share, ("/t/1", "/t/2")) == [offset for offset in range(10, 90) if offset % 3]
        assert offsets(share) == list(range(10, 90))

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(
        bounds=st.tuples(st.integers(0, 200), st.integers(0, 200)),
        topics=st.sets(st.sampled_from(("/t/0", "/t/2", "/t/", "/x")), min_size=1),
    )
    def test_any_bounds_and_topics(self, tmp_path: Path, bounds: tuple[int, int], topics: set[str]) -> None:
        if not (tmp_path / JOURNAL.hex()).exists():
            put(tmp_path, 0, 128)
            put(tmp_path, 128, 160)
        start, end = sorted(bounds)
        prefixes = tuple(topics)
        found = shares(tmp_path, Sought(start, end, JOURNAL.hex(), prefixes))
        read = [offset for share in found if isinstance(share, FileShare) for offset in offsets(share, prefixes)]
        expected = [at for at in range(start, min(end, 160)) if f"/t/{at % 3}".startswith(prefixes)]
        assert read == expected

    def test_holes_are_told(self, tmp_path: Path) -> None:
        put(tmp_path, 0, 40, hole=10)
        (share,) = shares(tmp_path, Sought(0, 50, JOURNAL.hex(), ("/other",)))
        with pytest.raises(
            DataLostError, match="the records 40 to 49 could not be read when they were copied: damaged"
        ):
            offsets(share)
        assert offsets(share, lossy=True) == list(range(40))
        (before,) = shares(tmp_path, Sought(0, 40, JOURNAL.hex(), ALL))
        assert offsets(before) == list(range(40))

    def test_a_file_that_was_deleted(self, tmp_path: Path) -> None:
        entry = put(tmp_path, 0, 40)
        (share,) = shares(tmp_path, Sought(0, 40, JOURNAL.hex(), ALL))
        (tmp_path / data_name(JOURNAL, entry)).unlink()
        with pytest.raises(DataLostError, match="the records 0 to 39 were deleted from the tier"):
            offsets(share)
        assert offsets(share, lossy=True) == []

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        entry = put(tmp_path, 0, 40)
        (share,) = shares(tmp_path, Sought(0, 40, JOURNAL.hex(), ALL))
        path = tmp_path / data_name(JOURNAL, entry)
        whole = path.read_bytes()
        told = []
        for place in range(4, len(whole), 7):
            data = bytearray(whole)
            data[place] ^= 1 << place % 8
            path.write_bytes(data)
            try:
                found = read(share)
            except JournalCorruptError as error:
                told.append(str(error))
            else:
                assert found == written(40)
        assert len(told) > len(whole) // 7 // 2
        assert all(entry.name in text for text in told)


def test_rows_of_a_stripe_come_in_order() -> None:
    stripe = parquet.Stripe(blocks(60))
    assert stripe.table.column("offset").to_pylist() != list(range(60))
