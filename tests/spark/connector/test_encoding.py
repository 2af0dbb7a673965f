"""Batches of Arrow as MESSAGES frames."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hub.batch import Batch
from peers.client.values import decode_batch
from peers.spark.connector.options import Encode
from peers.spark.connector.sink import BadRowError, frames_of
from tests.spark.connector.blocks import packed


def messages(frames: list[tuple[bytes, int]]) -> list[tuple[str, Any]]:
    return [(topic, value) for some, count in frames for topic, value in decode_batch(Batch(some, count))[0]]


def batch_of(topics: list[str | None], values: list[Any], kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"topic": pa.array(topics, pa.string()), "value": pa.array(values, kind)})


def test_slices_and_large_types() -> None:
    batch = batch_of([f"/{number}" for number in range(10)], [packed(number) for number in range(10)], pa.binary())
    assert messages(frames_of(batch.slice(3, 2), None, "raw")) == [("/3", 3), ("/4", 4)]
    assert messages(frames_of(batch.slice(3, 2), "/t", "raw")) == [("/t", 3), ("/t", 4)]
    large = batch.cast(pa.schema([("topic", pa.large_string()), ("value", pa.large_binary())]))
    assert messages(frames_of(large, None, "raw")) == [(f"/{number}", number) for number in range(10)]
    assert frames_of(batch.slice(0, 0), None, "raw") == []


@pytest.mark.parametrize(
    ("encode", "value"),
    [("json", "{"), ("json", "1" * 30), ("json", "[" * 2000 + "]" * 2000)],
)
def test_what_is_no_json(encode: Encode, value: str) -> None:
    with pytest.raises(BadRowError, match="a value for '/a' is no JSON text") as caught:
        frames_of(batch_of(["/b", "/a"], ["1", value], pa.string()), None, encode)
    assert len(str(caught.value)) < 400


def test_a_topic_that_no_frame_bears() -> None:
    with pytest.raises(BadRowError, match="the rows make no messages: a topic is longer"):
        frames_of(batch_of(["/" * 70_000], ["1"]), None, "json")
