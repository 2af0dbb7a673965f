"""`format("hub")` as a source and as a sink, with a real hub."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from hub.messages.batch import encode_value
from tests.client import test_start
from tests.spark.hubs import HubWithJournal, lose_commit, packed_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY = 20_000


def reading(spark: SparkSession, url: str, schema: str | None = None, **options: object) -> DataFrame:
    reader = spark.read.format("hub").options(url=url, **options)  # type: ignore[arg-type]
    return (reader.schema(schema) if schema else reader).load()


def numbers(frame: DataFrame) -> list[int]:
    return [json.loads(row.value)["number"] for row in frame.sort("offset").collect()]


class TestReading:
    def test_all_records_come_with_their_columns(self, spark: SparkSession, hub: HubWithJournal) -> None:
        """And what is asked for: prefixes of topics, offsets, columns."""
        hub.fill_numbers(MANY)

        def read(schema: str | None = None, **options: object) -> DataFrame:
            return reading(spark, hub.url, schema, **options)

        frame = read()
        rows = frame.sort("offset").collect()
        assert frame.schema.simpleString() == "struct<offset:bigint,timestamp:timestamp,topic:string,value:binary>"
        assert [row.offset for row in rows] == list(range(MANY))
        assert [row.topic for row in rows[:5]] == ["/n/0", "/n/1", "/n/2", "/n/3", "/n/0"]
        assert bytes(rows[-1].value) == encode_value({"number": MANY - 1})
        age = datetime.now(UTC) - rows[-1].timestamp.astimezone(UTC)
        assert 0 <= age.total_seconds() < 600
        assert read(topics="/n/1,/n/3,/m").count() == MANY // 2
        assert numbers(read(decode="json", startingOffsets="10", endingOffsets="13")) == [10, 11, 12]
        assert numbers(read(decode="json", STARTINGOFFSETS=str(MANY - 1), endingoffsets="latest")) == [MANY - 1]
        assert read(startingOffsets="latest").count() == 0
        frame = read("topic STRING, offset BIGINT", startingOffsets="7", endingOffsets="8")
        assert [tuple(row) for row in frame.collect()] == [("/n/3", 7)]

    def test_fields_become_typed_columns(self, hub: HubWithJournal, spark: SparkSession) -> None:
        hub.fill(
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
        rows = reading(spark, hub.url, schema, decode="schema").sort("offset").collect()
        moment = datetime.fromtimestamp(1_700_000_000.5)  # noqa: DTZ006 -- collect gives local times
        assert [tuple(row)[2:] for row in rows] == [
            ("a.example", 53, 0.25, moment, ["x"]),
            (None, None, None, None, None),
            (None, None, None, None, None),
            ("b.example", None, None, None, None),
        ]
        looked_up = "struct<offset:bigint,timestamp:timestamp,topic:string,query:string,id.orig_p:bigint,rtt:double,"
        options = {"url": hub.url, "decode": "schema", "topics": "/dns"}
        for found in (spark.read, spark.readStream):
            frame = found.format("hub").options(**options).load()
            assert frame.schema.simpleString() == f"{looked_up}ts:double,tags:array<string>>"
        beside = reading(spark, hub.url, "query STRING, value STRING", decode="json")
        assert ("b.example", None) not in [tuple(row) for row in beside.collect()]
        assert (None, "[1,2]") in [tuple(row) for row in beside.collect()]

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


Write = Callable[..., None]


@pytest.fixture
def write(hub: HubWithJournal) -> Write:
    def write(frame: DataFrame, mode: str = "append", **options: object) -> None:
        frame.write.format("hub").options(url=hub.url, **options).mode(mode).save()  # type: ignore[arg-type]

    return write


def stored(hub: HubWithJournal) -> list[tuple[int, str, bytes]]:
    with hub.client() as client:
        return [
            (record.encoding, record.topic, record.body)
            for block in client.read().blocks()
            for record in block.records()
        ]


class TestWriting:
    def test_json_text_becomes_values(self, spark: SparkSession, hub: HubWithJournal, write: Write) -> None:
        rows = [("/a", '{"n":1,"x":[null,2.5]}'), ("/b", '"text"'), ("/b", None)]
        write(spark.createDataFrame(rows, "topic STRING, value STRING").coalesce(1))
        assert hub.records() == [("/a", {"n": 1, "x": [None, 2.5]}), ("/b", "text"), ("/b", None)]

    def test_text_stays_text(self, spark: SparkSession, hub: HubWithJournal, write: Write) -> None:
        rows = [("/ignored", "1"), ("/ignored", "{")]
        write(spark.createDataFrame(rows, "topic STRING, value STRING").coalesce(1), encode="text", topic="/t")
        assert hub.records() == [("/t", "1"), ("/t", "{")]

    def test_what_was_read_can_be_written(self, spark: SparkSession, hub: HubWithJournal, write: Write) -> None:
        hub.fill_numbers(3)
        hub.stage(
            packed_message("/bad", b"\xc1"), packed_message("/zeek", bytes([3, 0, 0, 0, 0, 0, 0, 0, 42]), broker=True)
        )
        frame = spark.read.format("hub").option("url", hub.url).load()
        write(frame.sort("offset").coalesce(1))
        before, after = stored(hub)[:5], stored(hub)[5:]
        assert [body for _, _, body in after[:4]] == [body for _, _, body in before[:4]]
        assert hub.records()[-1][0] == "/zeek"
        assert after[4][0] == 0

    def test_order_within_and_between_partitions(self, spark: SparkSession, hub: HubWithJournal, write: Write) -> None:
        write(spark.range(0, 3_000, 1, 3).selectExpr("'/n' AS topic", "to_json(struct(id)) AS value"))
        assert [value["id"] for _, value in hub.records()] == list(range(3_000))

    def test_refusals(self, spark: SparkSession, write: Write) -> None:
        with pytest.raises(PySparkException, match="column value is BINARY or STRING, not DOUBLE"):
            write(spark.range(1).selectExpr("'/a' AS topic", "1.5D AS value"))
        with pytest.raises(PySparkException, match="a row has no topic"):
            write(spark.range(1).selectExpr("CAST(NULL AS STRING) AS topic", "'1' AS value"))


class TestWritingStreams:
    def test_each_record_is_written_once(self, spark: SparkSession, hub: HubWithJournal, tmp_path: Path) -> None:
        """Also where a batch is repeated, and the hub was started anew."""

        def copy() -> None:
            stream = spark.readStream.format("hub").options(
                url=hub.url, startingOffsets="earliest", topics="/n/", maxOffsetsPerTrigger=4
            )
            written = stream.load().writeStream.format("hub").options(url=hub.url, topic="/copy")
            query = (
                written.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
            )
            query.awaitTermination()

        hub.fill_numbers(6)
        copy()
        lose_commit(tmp_path / "checkpoint", 1)
        hub.restart()
        hub.fill_numbers(3, first=6)
        copy()
        assert [value["number"] for _, value in hub.records("/copy")] == list(range(9))

    def test_windowed_counts_go_back_to_the_hub(self, hub: HubWithJournal, spark: SparkSession, tmp_path: Path) -> None:
        """Fields of messages, a window with a watermark, results as JSON: once a window is over, it is published."""
        hub.fill(("/dns", {"ts": second, "query": "a" if second % 3 else "b"}) for second in [*range(10), 60])
        stream = (
            spark.readStream.format("hub")
            .schema("ts TIMESTAMP, query STRING")
            .options(url=hub.url, startingOffsets="earliest", topics="/dns", decode="schema")
            .load()
        )
        counts = stream.withWatermark("ts", "1 second").groupBy(F.window("ts", "10 seconds"), "query").count()
        values = counts.selectExpr("'/counts' AS topic", "to_json(struct(query, `count`)) AS value")
        written = values.writeStream.format("hub").options(url=hub.url, checkpointLocation=str(tmp_path / "counts"))
        written.trigger(availableNow=True).start().awaitTermination()
        assert sorted((value["query"], value["count"]) for _, value in hub.records("/counts")) == [("a", 6), ("b", 4)]


def test_the_query_of_the_tutorial(
    hub: HubWithJournal, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its `getOrCreate` returns the session of these tests."""
    assert spark.sparkContext is not None
    hub.fill((f"/plant/east/press-{number % 2}", {"celsius": 70.0 + number, "samples": b"x"}) for number in range(4))
    query = test_start.block(9, "python").replace(test_start.TCP, hub.url)
    exec(compile(query, "docs/start.md", "exec"), {})  # noqa: S102 -- our own page
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines() if "press" in line]
    assert [(topic.strip(), float(mean)) for topic, mean in rows] == [
        ("/plant/east/press-0", 71.0),
        ("/plant/east/press-1", 72.0),
    ]
