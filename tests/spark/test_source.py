"""`format("hub")` as a source, with a real hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from hub.messages.batch import encode_value
from tests.client import test_start
from tests.spark.hubs import HubWithJournal, lose_commit, packed_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY = 20_000


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubWithJournal]:
    with HubWithJournal(tmp_path_factory.mktemp("source") / "journal") as hub:
        hub.fill_numbers(MANY)
        yield hub


@pytest.fixture
def own_hub(tmp_path: Path) -> Iterator[HubWithJournal]:
    with HubWithJournal(tmp_path / "own") as hub:
        yield hub


Read = Callable[..., "DataFrame"]


@pytest.fixture
def read(spark: SparkSession, hub: HubWithJournal) -> Read:
    return lambda schema=None, **options: reading(spark, hub.url, schema, **options)


def reading(spark: SparkSession, url: str, schema: str | None = None, **options: object) -> DataFrame:
    reader = spark.read.format("hub").options(url=url, **options)  # type: ignore[arg-type]
    return (reader.schema(schema) if schema else reader).load()


def numbers(frame: DataFrame) -> list[int]:
    return [json.loads(row.value)["number"] for row in frame.sort("offset").collect()]


class TestBatch:
    def test_all_records_come_with_their_columns(self, read: Read) -> None:
        frame = read()
        rows = frame.sort("offset").collect()
        assert frame.schema.simpleString() == "struct<offset:bigint,timestamp:timestamp,topic:string,value:binary>"
        assert [row.offset for row in rows] == list(range(MANY))
        assert [row.topic for row in rows[:5]] == ["/n/0", "/n/1", "/n/2", "/n/3", "/n/0"]
        assert bytes(rows[-1].value) == encode_value({"number": MANY - 1})
        age = datetime.now(UTC) - rows[-1].timestamp.astimezone(UTC)
        assert 0 <= age.total_seconds() < 600

    def test_large_ranges_are_read_by_several_tasks(self, read: Read) -> None:
        assert read().rdd.getNumPartitions() == 2
        assert read(minPartitions="1").rdd.getNumPartitions() == 1

    def test_what_is_asked_for(self, read: Read) -> None:
        """Prefixes of topics, offsets, columns."""
        assert read(topics="/n/1,/n/3,/m").count() == MANY // 2
        assert numbers(read(decode="json", startingOffsets="10", endingOffsets="13")) == [10, 11, 12]
        assert numbers(read(decode="json", STARTINGOFFSETS=str(MANY - 1), endingoffsets="latest")) == [MANY - 1]
        assert read(startingOffsets="latest").count() == 0
        frame = read("topic STRING, offset BIGINT", startingOffsets="7", endingOffsets="8")
        assert [tuple(row) for row in frame.collect()] == [("/n/3", 7)]

    def test_times_bound_the_range(self, own_hub: HubWithJournal, spark: SparkSession) -> None:
        own_hub.fill([("/a", 0)])
        own_hub.fill([("/a", 1)])
        with own_hub.client() as client:
            _, second = [record.time_us for record in client.read()]
        middle, later = str(second // 1000), str(second // 1000 + 3_600_000)
        frame = reading(spark, own_hub.url, startingTimestamp=middle, endingTimestamp=later, decode="json")
        assert [row.value for row in frame.collect()][-1:] == ["1"]
        assert reading(spark, own_hub.url, endingTimestamp="0").count() == 0

    def test_json_text_is_what_websocket_clients_get(self, own_hub: HubWithJournal, spark: SparkSession) -> None:
        own_hub.stage(
            packed_message("/a", encode_value({"b": b"\x00", "t": datetime(2026, 11, 21, tzinfo=UTC), "n": None})),
            packed_message("/a", b"\xc1"),
            packed_message("/a", b"\x03\x00\x00\x00\x00\x00\x00\x00\x2a", broker=True),
        )
        frame = reading(spark, own_hub.url, decode="json")
        assert frame.schema["value"].dataType.simpleString() == "string"
        assert [row.value for row in frame.sort("offset").collect()] == [
            '{"b":"AA==","t":"2026-11-21T00:00:00Z","n":null}',
            None,
            "42",
        ]

    def test_fields_become_typed_columns(self, own_hub: HubWithJournal, spark: SparkSession) -> None:
        own_hub.fill(
            [
                ("/dns", {"query": "a.example", "id.orig_p": 53, "rtt": 0.25, "ts": 1_700_000_000.5, "tags": ["x"]}),
                ("/dns", {"query": 7, "id.orig_p": "53"}),
                ("/dns", [1, 2]),
                ("/dns", {1: 2, "query": "b.example"}),
            ]
        )
        schema = (
            "offset BIGINT, topic STRING, query STRING, `id.orig_p` INT, rtt DOUBLE, ts TIMESTAMP, tags ARRAY<STRING>"
        )
        rows = reading(spark, own_hub.url, schema, decode="schema").sort("offset").collect()
        moment = datetime.fromtimestamp(1_700_000_000.5)  # noqa: DTZ006 -- collect gives local times
        assert [tuple(row)[2:] for row in rows] == [
            ("a.example", 53, 0.25, moment, ["x"]),
            (None, None, None, None, None),
            (None, None, None, None, None),
            ("b.example", None, None, None, None),
        ]
        looked_up = "struct<offset:bigint,timestamp:timestamp,topic:string,query:string,id.orig_p:bigint,rtt:double,"
        options = {"url": own_hub.url, "decode": "schema", "topics": "/dns"}
        for found in (spark.read, spark.readStream):
            frame = found.format("hub").options(**options).load()
            assert frame.schema.simpleString() == f"{looked_up}ts:double,tags:array<string>>"
        beside = reading(spark, own_hub.url, "query STRING, value STRING", decode="json")
        assert ("b.example", None) not in [tuple(row) for row in beside.collect()]
        assert (None, "[1,2]") in [tuple(row) for row in beside.collect()]


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"startingOffset": "1"}, "no option startingoffset: did you mean startingOffsets?"),
            ({"startingOffsets": "99999999"}, "99999999 is behind the end of the journal, which is 20000"),
            ({"startingOffsets": "9", "endingOffsets": "5"}, "startingOffsets 9 are behind endingOffsets 5"),
            ({"decode": "schema", "topics": "/nobody"}, "has fields: name them"),
        ],
    )
    def test_options(self, read: Read, options: dict[str, str], said: str) -> None:
        with pytest.raises(PySparkException) as caught:
            read(**options).count()
        assert said in str(caught.value)

    def test_nobody_there_and_the_token_is_not_told(self, spark: SparkSession) -> None:
        """After the retries the error names the hub, and never the token, which the plan does not show either."""
        secret = {"token": "hush"}
        frame = reading(spark, "tcp://127.0.0.1:1", numRetries="1", retryIntervalMs="1", **secret)
        with pytest.raises(PySparkException) as caught:
            frame.count()
        assert "given up after 2 attempts" in str(caught.value)
        assert "nothing listens on tcp://127.0.0.1:1" in str(caught.value)
        assert "hush" not in str(caught.value)
        assert "hush" not in frame._jdf.queryExecution().toString()


class TestStream:
    def test_each_record_is_read_once(self, spark: SparkSession, own_hub: HubWithJournal, tmp_path: Path) -> None:
        """And again where its batch was not marked as done: offsets are Spark's to keep."""
        seen: list[tuple[int, list[int]]] = []

        def look(frame: DataFrame, batch: int) -> None:
            seen.append((batch, [row.offset for row in frame.sort("offset").collect()]))

        def run() -> Any:
            stream = spark.readStream.format("hub").options(
                url=own_hub.url, startingOffsets="earliest", maxOffsetsPerTrigger=3
            )
            written = stream.load().writeStream.foreachBatch(look)
            query = (
                written.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
            )
            query.awaitTermination()
            return query.lastProgress

        own_hub.fill_numbers(5)
        run()
        assert seen == [(0, [0, 1, 2]), (1, [3, 4])]
        lose_commit(tmp_path / "checkpoint", 1)
        own_hub.fill_numbers(3)
        progress = run()
        assert seen[2:] == [(1, [3, 4]), (2, [5, 6, 7])]
        for told in ("endOffset", "latestOffset"):
            assert json.loads(progress["sources"][0][told])["offset"] == 8


def test_the_query_of_the_tutorial(
    own_hub: HubWithJournal, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its `getOrCreate` returns the session of these tests."""
    assert spark.sparkContext is not None
    own_hub.fill(
        (f"/plant/east/press-{number % 2}", {"celsius": 70.0 + number, "samples": b"x"}) for number in range(4)
    )
    query = test_start.block(9, "python").replace(test_start.TCP, own_hub.url)
    exec(compile(query, "docs/start.md", "exec"), {})  # noqa: S102 -- our own page
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines() if "press" in line]
    assert [(topic.strip(), float(mean)) for topic, mean in rows] == [
        ("/plant/east/press-0", 71.0),
        ("/plant/east/press-1", 72.0),
    ]
