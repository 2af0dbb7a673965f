"""A hub with a tier, as Spark plans and reads it, without Spark: it is what the hub alone gives."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from peers.client import connect
from peers.journal.journal import Journal
from peers.journal.tier import parquet
from peers.journal.tier.parquet import Opened
from peers.spark.connector.columns import default_schema
from peers.spark.connector.connection import close_all
from peers.spark.connector.options import read_source_options
from peers.spark.connector.shares import FileShare, OffsetRange
from peers.spark.connector.source import BatchReader, StreamReader
from peers.wire.records import Fetch
from tests.client.recording import RecordingHub
from tests.journal.files import AT_US
from tests.spark.hubs import packed_message
from tests.spark.tiered import COUNT, SEALED, Tiered, small_files, started

BROKER_COUNT_7 = b"\x02" + (7).to_bytes(8, "big")


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with small_files():
        yield


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory, small: None) -> Iterator[Tiered]:  # noqa: ARG001 -- before it
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


def test_values_of_zeek_become_msgpack(tmp_path: Path) -> None:
    tiered = Tiered(tmp_path, *[packed_message("/z", BROKER_COUNT_7, broker=True)] * 30)
    with tiered.hub:
        for decode in ("raw", "json"):
            reader = tiered.batch(topics="/z", decode=decode)
            found = rows(reader, reader.partitions())
            assert len(found) == 30
            assert found == through_the_hub(tiered, topics="/z", decode=decode)


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


async def test_catching_up_asks_the_hub_for_nothing_that_is_in_the_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream in many micro-batches, and a query: the hub gets FETCHes of the tail alone, and of no records."""
    tiered = Tiered(tmp_path)
    asked: list[Fetch] = []
    original = Journal.fetch

    def fetch(self: Journal, order: Fetch, deliver: Any, usage: Any = None) -> Any:
        asked.append(order)
        return original(self, order, deliver, usage)

    monkeypatch.setattr(Journal, "fetch", fetch)
    hub = RecordingHub(tiered.path, tier=str(tiered.tier))
    await hub.start("tcp://127.0.0.1:0")
    try:
        async with connect(hub.url) as client:
            for number in range(SEALED, COUNT):
                await client.publish_confirmed(f"/n/{number % 4}", {"number": number})
        for catch_up in (_stream_offsets, _batch_offsets):
            asked.clear()
            assert await asyncio.to_thread(catch_up, tiered.options(url=hub.url)) == list(range(COUNT))
            of_records = [order for order in asked if order.bytes]
            assert of_records
            assert all(order.start >= SEALED and order.time is None for order in of_records)
    finally:
        await asyncio.to_thread(close_all)
        await hub.stop()


def _stream_offsets(given: dict[str, str]) -> list[int]:
    given = given | {"startingOffsets": "earliest"}
    reader = StreamReader(default_schema("raw"), read_source_options(given, streaming=True))
    reader.prepareForTriggerAvailableNow()
    found: list[int] = []
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, ReadMaxRows(70))) != start:
        found += [row["offset"] for row in rows(reader, reader.partitions(start, end))]
        start = end
    return found


def _batch_offsets(given: dict[str, str]) -> list[int]:
    reader = BatchReader(default_schema("raw"), read_source_options(given, streaming=False))
    return [row["offset"] for row in rows(reader, reader.partitions())]
