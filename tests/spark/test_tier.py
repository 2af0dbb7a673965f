"""Reading from the files of a tier: which of them a query needs, what is left to the hub, and what Spark gets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from hub.journal.manifest import Entry
from peers.journal.store import Segmenting, Store
from peers.journal.tier import parquet
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.files import data_name
from peers.journal.tier.parquet import FileMaker, Opened
from peers.journal.tier.place import TierUnavailableError, place_at
from peers.spark.connector import shares as shares_module
from peers.spark.connector.fields import default_schema
from peers.spark.connector.options import DataLostError, read_source_options
from peers.spark.connector.shares import FileShare, OffsetRange, file_tables, plan
from peers.spark.connector.source import BatchReader, StreamReader
from tests.journal.files import ALL, AT_US, segments
from tests.journal.tier.made import JOURNAL, blocks, files_of
from tests.spark.hubs import HubWithJournal, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SEALED = 240
COUNT = 300


@contextmanager
def small_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "FILE_BYTES", 600)
        patch.setattr(parquet, "STRIPE_RECORDS", 32)
        patch.setattr(parquet, "GROUP_RECORDS", 4)
        yield


def fill(path: Path, *frames: bytes) -> None:
    """Record numbered maps, 20 of them in each segment, which is sealed; then some frames in one more."""
    store = Store(str(path), full_sync=False, retention=ALL, segmenting=Segmenting(1, 1 << 60))
    for begin in range(0, SEALED, 20):
        rows = range(begin, begin + 20)
        store.add([(AT_US + number, message(f"/n/{number % 4}", {"number": number})) for number in rows])
        store.commit(now_us=AT_US)
    if frames:
        store.add([(AT_US, frame) for frame in frames])
        store.commit(now_us=AT_US)
    store.close()


def copy(path: Path, tier: Path) -> None:
    tier.mkdir(exist_ok=True)
    copier = Copier(str(path), place_at(str(tier)), TierRetention(0, 0))
    while copier.step(AT_US):
        pass
    copier.close()


class Tiered:
    def __init__(self, folder: Path, *frames: bytes) -> None:
        self.path, self.tier = folder / "journal", folder / "tier"
        with small_files():
            fill(self.path, *frames)
            copy(self.path, self.tier)
        for file in segments(self.path)[:8]:
            file.unlink()
        self.hub = HubWithJournal(self.path, "--journal-tier", str(self.tier))

    def options(self, **given: str) -> dict[str, str]:
        return {"url": self.hub.url, "tier": str(self.tier), "numRetries": "0", **given}

    def batch(self, schema: StructType | None = None, **given: str) -> BatchReader:
        options = read_source_options(self.options(**given), streaming=False)
        reader = BatchReader(schema or default_schema(options.decode), options)
        made: BatchReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 -- our own
        return made


def started(folder: Path) -> Iterator[Tiered]:
    tiered = Tiered(folder)
    with tiered.hub as hub:
        hub.fill_numbers(COUNT - SEALED, first=SEALED)
        yield tiered


ANY = ("",)


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares_module, "_manifests", {})


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
    topics = more.pop("topics", ANY)
    kinds = {FileShare: "file", OffsetRange: "hub"}
    found = shares(folder, OffsetRange(start, end, JOURNAL.hex(), **more), topics, partitions)
    return [(kinds[type(share)], share.start, share.end) for share in found]


def shares(folder: Path, whole: OffsetRange, topics: tuple[str, ...], partitions: int = 1) -> list[Any]:
    planned = plan(whole, topics, str(folder), partitions)
    found: list[Any] = pickle.loads(pickle.dumps(planned))  # noqa: S301 -- our own
    return found


def offsets(share: FileShare, topics: tuple[str, ...] = ANY, *, lossy: bool = False) -> list[int]:
    return [offset for table in file_tables(share, topics, lossy=lossy) for offset in table["offset"].to_pylist()]


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
        assert plan(OffsetRange(0, 10, "ab"), ANY, "", 1) == [OffsetRange(0, 10, "ab")]

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
        monkeypatch.setattr(shares_module, "LOOK_EVERY_S", 0.0)
        assert planned(tmp_path, 0, 100) == [("file", 0, 50), ("file", 50, 100)]
        with pytest.raises(TierUnavailableError, match="there is no such folder"):
            planned(tmp_path / "away", 0, 10)


class TestReading:
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
        found = shares(tmp_path, OffsetRange(start, end, JOURNAL.hex()), prefixes)
        read = [offset for share in found if isinstance(share, FileShare) for offset in offsets(share, prefixes)]
        expected = [at for at in range(start, min(end, 160)) if f"/t/{at % 3}".startswith(prefixes)]
        assert read == expected

    def test_holes_are_told(self, tmp_path: Path) -> None:
        put(tmp_path, 0, 40, hole=10)
        (share,) = shares(tmp_path, OffsetRange(0, 50, JOURNAL.hex()), ("/other",))
        with pytest.raises(
            DataLostError, match="the records 40 to 49 could not be read when they were copied: damaged"
        ):
            offsets(share)
        assert offsets(share, lossy=True) == list(range(40))
        (before,) = shares(tmp_path, OffsetRange(0, 40, JOURNAL.hex()), ANY)
        assert offsets(before) == list(range(40))

    def test_a_file_that_was_deleted(self, tmp_path: Path) -> None:
        entry = put(tmp_path, 0, 40)
        (share,) = shares(tmp_path, OffsetRange(0, 40, JOURNAL.hex()), ANY)
        (tmp_path / data_name(JOURNAL, entry)).unlink()
        with pytest.raises(DataLostError, match="the records 0 to 39 were deleted from the tier"):
            offsets(share)
        assert offsets(share, lossy=True) == []


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    yield from started(tmp_path_factory.mktemp("tiered"))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Tiered]:
    yield from started(tmp_path)


def rows(reader: BatchReader | StreamReader, shares: Any) -> list[dict[str, Any]]:
    copies = [pickle.loads(pickle.dumps(share)) for share in shares]  # noqa: S301 -- our own
    found = [row for share in copies for batch in reader.read(share) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row.get("offset", 0))


def through_the_hub(tiered: Tiered, schema: StructType | None = None, **given: str) -> list[dict[str, Any]]:
    options = read_source_options({"url": tiered.hub.url, **given}, streaming=False)
    reader = BatchReader(schema or default_schema(options.decode), options)
    return rows(reader, reader.partitions())


def test_what_is_sealed_is_read_without_the_hub(own: Tiered) -> None:
    expected = through_the_hub(own)
    assert len(expected) == COUNT
    reader = own.batch()
    shares = reader.partitions()
    assert [type(share) for share in shares] == [FileShare] * (len(shares) - 1) + [OffsetRange]
    assert isinstance(shares[-1], OffsetRange)
    assert (shares[-1].start, shares[-1].end) == (SEALED, COUNT)
    rest = rows(reader, shares[-1:])
    own.hub.stop()
    assert rows(reader, shares[:-1]) + rest == expected


@pytest.mark.parametrize(
    "given",
    [
        {"topics": "/n/2"},
        {"topics": "/n/1,/n/3,/x"},
        {"startingOffsets": "37", "endingOffsets": "101"},
        {"startingOffsets": "37", "endingOffsets": "38", "topics": "/n/1"},
        {"endingOffsets": str(SEALED)},
        {"startingOffsets": str(SEALED)},
        {"startingTimestamp": str(AT_US // 1000)},
        {"decode": "json"},
        {"decode": "json", "topics": "/n/2", "endingOffsets": "70"},
        {"minPartitions": "100"},
        {"minPartitions": "1"},
    ],
)
def test_it_is_what_the_hub_gives(tiered: Tiered, given: dict[str, str]) -> None:
    reader = tiered.batch(None, **given)
    assert rows(reader, reader.partitions()) == through_the_hub(tiered, None, **given)


FIELDS = {
    "offset": LongType(),
    "timestamp": TimestampType(),
    "topic": StringType(),
    "value": BinaryType(),
    "number": LongType(),
}


@pytest.mark.parametrize("names", ["offset", "topic,offset", "value,offset", "number,offset", "timestamp,offset"])
def test_only_columns_that_are_wanted_are_read(tiered: Tiered, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    schema = StructType([StructField(name, FIELDS[name]) for name in names.split(",")])
    given = {"decode": "schema"} if "number" in names else {}
    read: set[str] = set()
    original = Opened.table

    def table_of(self: Any, stripe: int, groups: Any, columns: Any) -> Any:
        read.update(columns)
        return original(self, stripe, groups, columns)

    reader = tiered.batch(schema=schema, endingOffsets=str(SEALED), **given)
    expected = through_the_hub(tiered, schema, endingOffsets=str(SEALED), **given)
    monkeypatch.setattr(Opened, "table", table_of)
    assert rows(reader, reader.partitions()) == expected
    wanted = {"offset", *names.split(",")} | ({"encoding"} if "value" in names else set())
    assert read == (set(parquet.SCHEMA.names) if "number" in names else wanted)


def test_a_stream(own: Tiered) -> None:
    given = own.options(startingOffsets="earliest", maxOffsetsPerTrigger="1000")
    reader = StreamReader(default_schema("raw"), read_source_options(given, streaming=True))
    first = reader.initialOffset()
    end = reader.latestOffset(first, ReadAllAvailable())
    shares = reader.partitions(first, end)
    assert {type(share) for share in shares} == {FileShare, OffsetRange}
    assert [row["offset"] for row in rows(pickle.loads(pickle.dumps(reader)), shares)] == list(range(COUNT))  # noqa: S301
    own.tier.rename(own.tier.parent / "away")
    own.hub.fill_numbers(10, first=COUNT)
    following = reader.latestOffset(end, ReadAllAvailable())
    assert [row["offset"] for row in rows(reader, reader.partitions(end, following))] == list(range(COUNT, COUNT + 10))


def test_a_batch(spark: SparkSession, tiered: Tiered) -> None:
    reader = spark.read.format("hub")
    through_hub = reader.options(url=tiered.hub.url).load().sort("offset").collect()
    assert len(through_hub) == COUNT
    frame = spark.read.format("hub").options(**tiered.options()).load()
    assert frame.sort("offset").collect() == through_hub
    narrow = (
        spark.read.format("hub")
        .options(**tiered.options(endingOffsets=str(SEALED), topics="/n/1"))
        .schema("topic STRING, offset BIGINT")
    )
    assert sorted(row.offset for row in narrow.load().collect()) == list(range(1, SEALED, 4))


def test_files_that_spark_reads_itself(spark: SparkSession, tiered: Tiered) -> None:
    """Without the hub and the connector they are the same rows, of the same types, with the column `encoding`."""
    frame = spark.read.parquet(*map(str, tiered.tier.glob("*/data")))
    through_hub = spark.read.format("hub").options(url=tiered.hub.url, endingOffsets=str(SEALED)).load()
    assert frame.drop("encoding").dtypes == through_hub.dtypes
    assert (
        frame.filter("encoding = 0").drop("encoding").sort("offset").collect() == through_hub.sort("offset").collect()
    )
    assert frame.filter("topic = '/n/1'").count() == SEALED // 4
