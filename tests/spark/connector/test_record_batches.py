"""Blocks of the journal as batches of Arrow."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from hub.journal.block import Block
from peers.journal.tier.parquet import Stripe
from peers.spark.connector.columns import default_schema
from peers.spark.connector.options import Decode
from peers.spark.connector.record_batches import BATCH_LEAST_ROWS, BATCH_MOST_ROWS, RecordBatches
from peers.values import default
from tests.spark.connector.blocks import (
    BROKER_42,
    TIME_US,
    block_of,
    block_of_frames,
    packed,
    packed_message,
    schema_of,
    sparse_block,
)

pytestmark = pytest.mark.usefixtures("spark")  # types are read by Java

NOON = datetime.fromtimestamp(TIME_US // 1_000_000, UTC)


def batch_of(block: Block, schema: str | None = None, decode: Decode = "raw") -> tuple[list[dict[str, Any]], str]:
    made = RecordBatches(schema_of(schema) if schema else default_schema(decode), decode)
    return made.batch(block).to_pylist(), str(made.troubles)


def test_gaps_in_offsets() -> None:
    rows, _ = batch_of(sparse_block(), "offset BIGINT, topic STRING")
    assert rows == [{"offset": 0, "topic": "/0"}, {"offset": 2, "topic": "/0"}, {"offset": 4, "topic": "/0"}]


def test_values_and_times_are_not_copied() -> None:
    block = block_of(("/a", "x" * 1000))
    batch = RecordBatches(default_schema("raw"), "raw").batch(block)
    start = pa.py_buffer(block.data).address
    for column in ("value", "timestamp"):
        address = batch.column(column).buffers()[-1].address
        assert start <= address < start + len(block.data)


def test_small_blocks_are_joined() -> None:
    small = [block_of(*[("/a", number) for number in range(1000)], first=1000 * each) for each in range(10)]
    made = RecordBatches(schema_of("offset BIGINT"), "raw")
    batches = list(made.batches(small))
    assert [batch.num_rows for batch in batches] == [5000, 5000]
    assert batches[0].num_rows >= BATCH_LEAST_ROWS
    assert pa.Table.from_batches(batches).column("offset").to_pylist() == list(range(10_000))
    assert list(made.batches([])) == []


def test_zeeks_values_are_msgpack() -> None:
    block = block_of_frames(
        packed_message("/z", BROKER_42, broker=True),
        packed_message("/z", b"\xff", broker=True),
        packed_message("/a", b"\xc1"),
    )
    rows, told = batch_of(block, "value BINARY")
    assert rows[0]["value"] == packed(42)
    assert [row["value"] for row in rows[1:]] == [None, b"\xc1"]
    assert told == "NULL, of 3 messages: 1 messages cannot be decoded"


FIELDS = "topic STRING, number INT, `id.orig_h` STRING, name STRING"


def test_fields() -> None:
    block = block_of(
        ("/a", {"number": 1, "id.orig_h": "10.0.0.1", "more": [1]}),
        ("/a", {"number": "1", "name": 5}),
        ("/a", {"number": 2**31, 7: 8, "name": "x"}),
        ("/a", [1]),
        ("/a", None),
    )
    rows, told = batch_of(block, FIELDS, "schema")
    assert [tuple(row.values()) for row in rows] == [
        ("/a", 1, "10.0.0.1", None),
        ("/a", None, None, None),
        ("/a", None, None, "x"),
        ("/a", None, None, None),
        ("/a", None, None, None),
    ]
    assert told == "NULL, of 5 messages: 2 values of number do not fit, 1 values of name do not fit"


def test_fields_of_what_is_no_msgpack() -> None:
    block = block_of_frames(
        packed_message("/a", b"\xc1"),
        packed_message("/a", b""),
        packed_message("/z", b"\xff", broker=True),
        packed_message("/z", BROKER_42, broker=True),
    )
    rows, told = batch_of(block, "number INT, value BINARY", "schema")
    assert [row["number"] for row in rows] == [None] * 4
    assert told == "NULL, of 4 messages: 3 messages cannot be decoded"


def test_extensions_within_messages() -> None:
    """Zeek's own types are text as for WebSocket clients; unknown ones do not fit, and spoil nothing else."""
    address = msgpack.unpackb(msgpack.packb(ip_address("10.0.0.1"), default=default))
    unknown = msgpack.ExtType(99, b"x")
    rows, _ = batch_of(block_of(("/a", {"name": "a", "x": unknown})), "name STRING, x STRING", "schema")
    assert rows == [{"name": "a", "x": None}]
    shown, _ = batch_of(block_of(("/a", {"x": address})), "x STRING", "schema")
    assert shown == [{"x": "10.0.0.1"}]


@pytest.mark.parametrize("kind", ["ARRAY<STRING>", "MAP<STRING, BIGINT>", "STRUCT<a: BIGINT, t: TIMESTAMP>", "DATE"])
def test_nested_types_are_what_spark_compares_with(kind: str) -> None:
    made = RecordBatches(schema_of(f"x {kind}"), "schema")
    values = [["a"], {"a": 1}, {"a": 1, "t": 5}, "2026-11-21", None]
    batch = made.batch(block_of(*[("/a", {"x": value}) for value in values]))
    batch.validate(full=True)
    assert batch.column("x").null_count < len(values)


def stripe(*blocks: Block) -> pa.Table:
    return Stripe(blocks).table.sort_by("offset")


def test_tables_of_a_tier() -> None:
    """Their columns are taken as they are, in the order of the query, in pieces that are not too large."""
    count = 3 * 8_192
    blocks = [block_of(*[("/c", number) for number in range(8_192)], first=at) for at in range(7, 7 + count, 8_192)]
    made = RecordBatches(default_schema("raw"), "raw")
    batches = list(made.table_batches([stripe(*blocks)]))
    assert [batch.num_rows for batch in batches] == [BATCH_MOST_ROWS, count - BATCH_MOST_ROWS]
    assert batches[0].schema == made.batch(blocks[0]).schema
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [row for block in blocks for row in made.batch(block).to_pylist()]
    some = RecordBatches(schema_of("topic STRING, offset BIGINT"), "raw")
    assert next(iter(some.table_batches([stripe(*blocks)]))).to_pylist()[1] == {"topic": "/c", "offset": 8}


@pytest.mark.parametrize(("schema", "decode"), [(None, "raw"), (None, "json"), ("offset BIGINT, id BIGINT", "schema")])
def test_tables_of_a_tier_are_decoded(schema: str | None, decode: Decode) -> None:
    frames = packed_message("/b", BROKER_42, broker=True), packed_message("/m", packed({"id": 5}))
    block = block_of_frames(*frames)
    made = RecordBatches(schema_of(schema) if schema else default_schema(decode), decode)
    (batch,) = made.table_batches([stripe(block)])
    assert (batch.to_pylist(), str(made.troubles)) == batch_of(block, schema, decode)
