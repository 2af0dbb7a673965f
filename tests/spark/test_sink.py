"""`format("hub")` as a sink, with a real hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from tests.spark.hubs import HubWithJournal, lose_commit, packed_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


class TestBatch:
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


class TestStream:
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

    def test_updates_go_through_foreach_batch(self, hub: HubWithJournal, spark: SparkSession, tmp_path: Path) -> None:
        """Spark gives sources in Python no update mode; a batch write with a name and a number is done once, too."""
        hub.fill(("/dns", {"query": "a"}) for _ in range(5))

        def publish(frame: DataFrame, batch: int) -> None:
            values = frame.selectExpr("'/counts' AS topic", "to_json(struct(query, `count`)) AS value")
            for _ in range(2):  # as if it were repeated
                written = values.write.format("hub").options(url=hub.url, txnAppId="counts", txnVersion=batch)
                written.mode("append").save()

        stream = (
            spark.readStream.format("hub")
            .schema("query STRING")
            .options(url=hub.url, startingOffsets="earliest", topics="/dns", decode="schema")
            .load()
        )
        query = (
            stream.groupBy("query")
            .count()
            .writeStream.foreachBatch(publish)
            .options(checkpointLocation=str(tmp_path / "counts"))
            .outputMode("update")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert hub.records("/counts") == [("/counts", {"query": "a", "count": 5})]

    def test_complete_output_is_refused(self, hub: HubWithJournal, spark: SparkSession, tmp_path: Path) -> None:
        stream = spark.readStream.format("hub").option("url", hub.url).load()
        counts = stream.groupBy("topic").count().selectExpr("topic", "to_json(struct(`count`)) AS value")
        written = counts.writeStream.format("hub").options(url=hub.url, checkpointLocation=str(tmp_path / "c"))
        query = written.outputMode("complete").trigger(availableNow=True).start()
        with pytest.raises(PySparkException) as caught:
            query.awaitTermination()
        assert "messages cannot be overwritten" in str(caught.value)
