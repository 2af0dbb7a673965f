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


def test_raw_values_are_passed_on() -> None:
    batch = batch_of(["/a", "/a", "/b"], [packed(1), packed("x"), None], pa.binary())
    frames = frames_of(batch, None, "raw")
    assert messages(frames) == [("/a", 1), ("/a", "x"), ("/b", None)]
    assert sum(count for _, count in frames) == 3


def test_slices_and_large_types() -> None:
    batch = batch_of([f"/{number}" for number in range(10)], [packed(number) for number in range(10)], pa.binary())
    assert messages(frames_of(batch.slice(3, 2), None, "raw")) == [("/3", 3), ("/4", 4)]
    assert messages(frames_of(batch.slice(3, 2), "/t", "raw")) == [("/t", 3), ("/t", 4)]
    large = batch.cast(pa.schema([("topic", pa.large_string()), ("value", pa.large_binary())]))
    assert messages(frames_of(large, None, "raw")) == [(f"/{number}", number) for number in range(10)]
    assert frames_of(batch.slice(0, 0), None, "raw") == []


@pytest.mark.parametrize(
    ("encode", "values", "kind", "expected"),
    [
        ("json", ['{"a":1}', "null", None], pa.string(), [{"a": 1}, None, None]),
        ("json", [b"[1.5]"], pa.binary(), [[1.5]]),
        ("text", ["1", "", None], pa.string(), ["1", "", None]),
    ],
)
def test_text(encode: Encode, values: list[Any], kind: pa.DataType, expected: list[Any]) -> None:
    frames = frames_of(batch_of([None] * len(values), values, kind), "/t", encode)
    assert messages(frames) == [("/t", value) for value in expected]


@pytest.mark.parametrize(
    ("encode", "value"),
    [("json", "{"), ("json", "1" * 30), ("json", "[" * 2000 + "]" * 2000)],
)
def test_what_is_no_json(encode: Encode, value: str) -> None:
    with pytest.raises(BadRowError, match="a value for '/a' is no JSON text") as caught:
        frames_of(batch_of(["/b", "/a"], ["1", value], pa.string()), None, encode)
    assert len(str(caught.value)) < 400


def test_a_row_without_a_topic() -> None:
    batch = batch_of([None], ["1"])
    with pytest.raises(BadRowError, match="a row has no topic"):
        frames_of(batch, None, "json")
    assert messages(frames_of(batch, "/t", "json")) == [("/t", 1)]


def test_a_topic_that_no_frame_bears() -> None:
    with pytest.raises(BadRowError, match="the rows make no messages: a topic is longer"):
        frames_of(batch_of(["/" * 70_000], ["1"]), None, "json")
