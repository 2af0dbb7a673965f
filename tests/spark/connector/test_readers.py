"""`BatchReader` and `StreamReader` as Spark calls them, with a real hub and without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from peers.client.blocking.faces import BlockingHistory
from peers.spark.connector.columns import RECORD_COLUMNS, default_schema
from peers.spark.connector.options import DataLostError, Decode, JournalReplacedError, OptionError, read_source_options
from peers.spark.connector.shares import OffsetRange
from peers.spark.connector.source import BatchReader, RefusedStream, StreamReader
from peers.wire.records import Records
from pyspark_hub import DefaultSource
from tests.journal.files import lose_power, segments
from tests.spark.hubs import HubWithJournal

EVERYTHING = ReadAllAvailable()


def batch_reader(hub: HubWithJournal, **options: str) -> BatchReader:
    reader = BatchReader(default_schema("raw"), read_source_options({"url": hub.url, **options}, streaming=False))
    copy: BatchReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 -- our own
    return copy


def stream_reader(hub: HubWithJournal, **options: str) -> StreamReader:
    given = {"url": hub.url, "numRetries": "0", **options}
    return StreamReader(default_schema("raw"), read_source_options(given, streaming=True))


def offsets(reader: BatchReader | StreamReader, *shares: InputPartition) -> list[int]:
    return [offset for share in shares for batch in reader.read(share) for offset in batch["offset"].to_pylist()]


def bounds(shares: Any) -> list[tuple[int, int]]:
    return [(share.start, share.end) for share in shares]


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    original = BlockingHistory.pieces

    def pieces(self: BlockingHistory) -> Iterator[Records]:
        for piece in original(self):
            sizes.extend(map(len, piece.blocks))
            yield piece

    monkeypatch.setattr(BlockingHistory, "pieces", pieces)
    return sizes


class TestColumns:
    @pytest.mark.parametrize(
        ("names", "decode", "record_bytes"),
        [
            (["offset"], "raw", 0),
            (["topic"], "raw", 4),
            (["timestamp", "topic"], "raw", 12),
            (["offset", "topic"], "json", 4),
        ],
    )
    def test_values_that_nobody_wants_are_not_sent(
        self, hub: HubWithJournal, received: list[int], names: list[str], decode: Decode, record_bytes: int
    ) -> None:
        count = 1000
        hub.fill((f"/n/{number % 4}", "x" * 500) for number in range(count))
        wanted = StructType([StructField(name, RECORD_COLUMNS[name]) for name in names])
        options = {"url": hub.url, "decode": decode}
        for reader in (
            BatchReader(wanted, read_source_options(options, streaming=False)),
            StreamReader(wanted, read_source_options(options, streaming=True)),
        ):
            received.clear()
            if isinstance(reader, StreamReader):
                at = {"offset": 0, "journal": ""}
                shares = reader.partitions(at, reader.latestOffset(at, EVERYTHING))
            else:
                shares = reader.partitions()
            rows = sum(batch.num_rows for share in shares for batch in reader.read(share))
            assert rows == count
            assert record_bytes * count < sum(received) <= record_bytes * count + 200 * len(received)

    def test_fields_need_values(self, hub: HubWithJournal, received: list[int]) -> None:
        hub.fill(("/a/rather/long/topic", {"number": number, "rest": "x" * 100}) for number in range(10))
        wanted = StructType([StructField("number", LongType())])
        reader = BatchReader(wanted, read_source_options({"url": hub.url, "decode": "schema"}, streaming=False))
        found = [number for share in reader.partitions() for batch in reader.read(share) for number in batch["number"]]
        assert [number.as_py() for number in found] == list(range(10))
        assert sum(received) > 1000


class TestBatch:
    def test_shares_are_read(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(30)
        reader = batch_reader(hub)
        shares = reader.partitions()
        hub.fill_numbers(5)
        assert offsets(reader, *shares) == list(range(30))

    def test_nothing_is_one_empty_share(self, hub: HubWithJournal) -> None:
        reader = batch_reader(hub)
        assert reader.partitions() == []
        assert offsets(reader, InputPartition(None)) == []


class TestStream:
    def test_where_it_begins(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(7)
        first = stream_reader(hub).initialOffset()
        assert first["offset"] == 7
        assert len(bytes.fromhex(first["journal"])) == 16
        assert stream_reader(hub, startingOffsets="earliest").initialOffset()["offset"] == 0
        assert stream_reader(hub, startingOffsets="3").initialOffset()["offset"] == 3

    def test_how_far_a_batch_goes(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(100)
        reader = stream_reader(hub, startingOffsets="10", maxOffsetsPerTrigger="30")
        start = reader.initialOffset()
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(30)
        assert reader.latestOffset(start, limit)["offset"] == 40
        assert reader.latestOffset(start, EVERYTHING)["offset"] == 100
        assert reader.latestOffset(start | {"offset": 100}, limit)["offset"] == 100

    def test_progress_tells_the_end(self, hub: HubWithJournal) -> None:
        reader = stream_reader(hub)
        assert reader.reportLatestOffset() is None
        start = reader.initialOffset()
        hub.fill_numbers(5)
        reader.latestOffset(start, ReadMaxRows(2))
        latest = reader.reportLatestOffset()
        assert latest is not None
        assert latest["offset"] == 5

    def test_available_now_ends_where_it_began(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(10)
        reader = stream_reader(hub, startingOffsets="earliest")
        reader.prepareForTriggerAvailableNow()
        hub.fill_numbers(10)
        assert reader.latestOffset(reader.initialOffset(), EVERYTHING)["offset"] == 10

    def test_shares_are_read(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(20)
        reader = stream_reader(hub, startingOffsets="2", topics="/n/1")
        start = reader.initialOffset()
        shares = reader.partitions(start, start | {"offset": 12})
        assert bounds(shares) == [(2, 12)]
        assert offsets(reader, *shares) == [5, 9]
        assert reader.partitions(start, start) == []
        assert offsets(reader, InputPartition(None)) == []

    def test_another_journal(self, hub: HubWithJournal, tmp_path: Path) -> None:
        hub.fill_numbers(3)
        reader = stream_reader(hub, startingOffsets="earliest", numRetries="2")
        start = reader.initialOffset()
        end = start | {"offset": 3}
        (share,) = reader.partitions(start, end)
        hub.stop()
        hub.path = tmp_path / "another"
        hub.start()
        hub.fill_numbers(9)
        with pytest.raises(JournalReplacedError):
            reader.latestOffset(start, EVERYTHING)
        with pytest.raises(JournalReplacedError):
            reader.partitions(start, end)
        with pytest.raises(JournalReplacedError):
            offsets(reader, share)

    def test_an_older_copy_of_the_journal(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(3)
        reader = stream_reader(hub)
        start = reader.initialOffset()
        with pytest.raises(DataLostError, match="the query has read up to offset 9, the journal ends at 3"):
            reader.latestOffset(start | {"offset": 9}, EVERYTHING)
        with pytest.raises(DataLostError, match="the journal ends at 3"):
            reader.partitions(start, start | {"offset": 9})

    def test_records_that_a_power_loss_has_taken(self, hub: HubWithJournal) -> None:
        """The query goes on where others have their offsets; what was planned of them is an error, or passed over."""
        hub.fill_numbers(10)
        assert hub.path is not None
        written_bytes = segments(hub.path)[-1].stat().st_size
        before = stream_reader(hub, startingOffsets="earliest")
        start = before.latestOffset(before.initialOffset(), EVERYTHING)
        hub.fill_numbers(10)
        end = before.latestOffset(start, EVERYTHING)
        (share,) = before.partitions(start, end)
        hub.kill()
        lose_power(hub.path, written_bytes)
        hub.start()
        hub.fill_numbers(15)
        strict, lossy = stream_reader(hub), stream_reader(hub, failOnDataLoss="false")
        following = strict.latestOffset(end, EVERYTHING)
        assert bounds(strict.partitions(end, following)) == [(10, 25)]
        assert bounds(strict.partitions(start, following)) == [(10, 25)]
        with pytest.raises(DataLostError, match="lost power"):
            strict.partitions(start, end)
        with pytest.raises(DataLostError, match="lost power"):
            offsets(strict, share)
        assert lossy.partitions(start, end) == []
        assert offsets(lossy, share) == []

    def test_a_restart_is_no_new_batch(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(10)
        reader = stream_reader(hub, startingOffsets="earliest")
        at = reader.latestOffset(reader.initialOffset(), EVERYTHING)
        hub.kill()
        hub.start()
        reader = stream_reader(hub)
        assert reader.latestOffset(at, EVERYTHING) == at
        hub.fill_numbers(1)
        following = reader.latestOffset(at, EVERYTHING)
        assert following["epoch"] > at["epoch"]
        assert bounds(reader.partitions(at, following)) == [(10, 11)]

    def test_deleted_records(self, hub: HubWithJournal) -> None:
        hub.arguments = ("--journal-keep-bytes", "64KiB", "--journal-compression", "none")
        hub.restart()
        with hub.client() as client:
            for _ in range(20):
                client.publish_confirmed("/large", "x" * 10_000)
            _, first, head, _ = client.journal()
        assert first > 0
        strict, lossy = stream_reader(hub), stream_reader(hub, failOnDataLoss="false")
        start = strict.initialOffset() | {"offset": 0}
        with pytest.raises(DataLostError, match="were deleted"):
            strict.partitions(start, start | {"offset": head})
        assert lossy.latestOffset(start, ReadMaxRows(1))["offset"] == first + 1
        assert bounds(lossy.partitions(start, start | {"offset": head})) == [(first, head)]


def test_ranges_are_what_tasks_get(hub: HubWithJournal) -> None:
    hub.fill_numbers(1)
    (share,) = batch_reader(hub).partitions()
    assert isinstance(share, OffsetRange)
    with hub.client() as client:
        assert share.journal == client.journal().id.hex()


def test_a_stream_that_cannot_be_read_so() -> None:
    source = DefaultSource({"url": "tcp://127.0.0.1:1", "endingOffsets": "1"})
    reader = source.streamReader(default_schema("raw"))
    assert isinstance(reader, RefusedStream)
    offset = {"offset": 0, "journal": ""}
    asked: list[Callable[[], object]] = [
        reader.initialOffset,
        reader.prepareForTriggerAvailableNow,
        lambda: reader.latestOffset(offset, EVERYTHING),
        lambda: reader.partitions(offset, offset),
        lambda: reader.read(InputPartition(None)),
    ]
    for ask in asked:
        with pytest.raises(OptionError, match="a stream has no end"):
            ask()
