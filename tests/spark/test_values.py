"""Values of messages: which columns a query may read, what fits their types, batches of Arrow, and rows as messages."""

from __future__ import annotations

from datetime import UTC, date, datetime
from ipaddress import ip_address
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, DecimalType, IntegerType, MapType, StructType

from hub.journal.block import Block, pack, select
from hub.messages.batch import Batch, encode_value
from peers.client.values import decode_batch
from peers.journal.tier.parquet import Stripe
from peers.spark.connector.fields import (
    Inference,
    MisfitError,
    Moment,
    checked_schema,
    default_schema,
    fields_schema,
    fit_of,
    kind_of,
)
from peers.spark.connector.options import ColumnError, Decode
from peers.spark.connector.record_batches import BATCH_LEAST_ROWS, BATCH_MOST_ROWS, RecordBatches
from peers.spark.connector.sink import BadRowError, frames_of
from peers.values import default
from tests.spark.hubs import message, packed_message

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000

BROKER_42 = bytes([3, 0, 0, 0, 0, 0, 0, 0, 42])
"""The count 42 as Zeek's Broker spells it."""

pytestmark = pytest.mark.usefixtures("spark")  # types are read by Java


def schema_of(columns: str) -> StructType:
    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    return schema


def type_of(name: str) -> DataType:
    return schema_of(f"x {name}")["x"].dataType


def block_of(*messages: tuple[str, Any], first: int = 0) -> Block:
    return block_of_frames(*(message(topic, value) for topic, value in messages), first=first)


def block_of_frames(*frames: bytes, first: int = 0) -> Block:
    (block,) = pack([(NOON_US + number, frame) for number, frame in enumerate(frames)], first)
    return Block.parse(block)


RECORD = "offset BIGINT, timestamp TIMESTAMP, topic STRING"


class TestColumns:
    def test_defaults_and_what_users_choose(self) -> None:
        assert default_schema("raw") == schema_of(f"{RECORD}, value BINARY")
        assert default_schema("json") == schema_of(f"{RECORD}, value STRING")
        chosen: list[tuple[Decode, str]] = [
            ("raw", "topic STRING, offset BIGINT"),
            ("json", "query STRING, value STRING"),
            ("schema", "query STRING, `id.orig_h` STRING, timestamp TIMESTAMP, value BINARY"),
        ]
        for decode, schema in chosen:
            assert checked_schema(schema_of(schema), decode) == schema_of(schema)

    @pytest.mark.parametrize(
        ("decode", "schema", "said"),
        [
            ("raw", "value STRING", "column value is BINARY, not STRING; option decode=json gives its JSON text"),
            ("json", "value BINARY", "column value is STRING, not BINARY"),
            ("raw", "offset INT", "column offset is BIGINT, not INT"),
            ("schema", "timestamp DOUBLE", "column timestamp is TIMESTAMP, not DOUBLE"),
            ("raw", "offsets BIGINT", "there is no column offsets: did you mean offset?"),
            ("raw", "query STRING", "with option decode=schema, other columns are fields of the messages"),
            ("schema", "query STRING NOT NULL", "a message may lack the field"),
        ],
    )
    def test_refusals(self, decode: Decode, schema: str, said: str) -> None:
        with pytest.raises(ColumnError) as caught:
            checked_schema(schema_of(schema), decode)
        assert said in str(caught.value)

    def test_fields_that_were_looked_up(self) -> None:
        kinds = {"query": "STRING", "qtype": "BIGINT", "topic": "STRING", "Query": "BIGINT", "": "BIGINT"}
        expected = f"{RECORD}, query STRING, qtype BIGINT, ttls ARRAY<DOUBLE>"
        assert fields_schema(kinds | {"ttls": "ARRAY<DOUBLE>"}) == schema_of(expected)


FITTING: dict[str, list[tuple[Any, Any]]] = {
    "STRING": [("x", "x"), ({"a": [1, b"x"]}, '{"a":[1,"eA=="]}'), ([None], "[null]")],
    "BOOLEAN": [(True, True)],
    "BINARY": [(b"x", b"x")],
    "TINYINT": [(-128, -128)],
    "SMALLINT": [(32_767, 32_767)],
    "INT": [(-(2**31), -(2**31))],
    "BIGINT": [(2**63 - 1, 2**63 - 1)],
    "DOUBLE": [(1, 1.0), (1.5, 1.5)],
    "FLOAT": [(1.5, 1.5)],
    "TIMESTAMP": [
        (NOON, NOON_US),
        (NOON.replace(tzinfo=None), NOON_US),
        ("2026-11-21T12:00:00Z", NOON_US),
        ("2026-11-21T12:00:00.123456789Z", NOON_US + 123_456),
        ("2026-11-21T13:00:00+01:00", NOON_US),
        (1, 1_000_000),
        (1.25, 1_250_000),
        (-1.25, -1_250_000),
    ],
    "DATE": [("2026-11-21", date(2026, 11, 21))],
    "ARRAY<INT>": [([1, None], [1, None])],
    "MAP<STRING, INT>": [({"a": 1, "b": None}, [("a", 1), ("b", None)])],
    "STRUCT<a: INT, b: STRING>": [({"a": 1, "c": 2}, {"a": 1, "b": None})],
    "ARRAY<STRUCT<a: ARRAY<INT>>>": [([{"a": [1]}], [{"a": [1]}])],
}

NOT_FITTING: dict[str, list[Any]] = {
    "STRING": [1, b"x", {"a": object}],
    "BOOLEAN": [1],
    "BINARY": ["x"],
    "TINYINT": [128],
    "INT": [2**31],
    "BIGINT": [2**63, True, 1.0],
    "DOUBLE": [2**53 + 1, "1", True],
    "TIMESTAMP": ["soon", True, 2**60, 1e300, float("nan")],
    "DATE": ["21.11.2026", 1],
    "ARRAY<INT>": ["x", ["x"]],
    "MAP<STRING, INT>": [{1: 1}, {"a": "x"}, [1]],
    "STRUCT<a: INT>": [{"a": "x"}, 1],
}


class TestFit:
    @pytest.mark.parametrize("kind", FITTING)
    def test_what_fits(self, kind: str) -> None:
        fit = fit_of("x", type_of(kind))
        assert [fit(value) for value, _ in FITTING[kind]] == [fitting for _, fitting in FITTING[kind]]

    @pytest.mark.parametrize("kind", NOT_FITTING)
    def test_what_does_not_fit(self, kind: str) -> None:
        fit = fit_of("x", type_of(kind))
        for value in NOT_FITTING[kind]:
            with pytest.raises(MisfitError):
                fit(value)

    def test_what_a_struct_has_no_place_for(self) -> None:
        kind = type_of("ARRAY<STRUCT<a: STRUCT<b: INT>>>")
        value = [{"a": {"b": 1, "c": 2}}]
        assert fit_of("x", kind)(value) == [{"a": {"b": 1}}]
        with pytest.raises(MisfitError):
            fit_of("x", kind, whole=True)(value)
        assert fit_of("x", kind, whole=True)([{"a": {"b": 1}}]) == [{"a": {"b": 1}}]

    @pytest.mark.parametrize("kind", [DecimalType(), MapType(IntegerType(), IntegerType())])
    def test_types_that_no_message_has(self, kind: DataType) -> None:
        with pytest.raises(ColumnError, match="column x: a message has no values of type"):
            fit_of("x", kind)
        with pytest.raises(ColumnError, match=r"column x\.a: "):
            fit_of("x", StructType().add("a", kind))


TIME_TEXT = "2018-03-24T17:15:20.5Z"

KINDS: dict[str, list[Any]] = {
    "": [2**63, None, [], [None]],
    "BIGINT": [1, -(2**63), 2**63 - 1],
    "DOUBLE": [1.5],
    "BOOLEAN": [True],
    "STRING": ["x", {"a": 1}, ["x", 1], [[1]], [{}], [2**63], [object]],
    "BINARY": [b"x"],
    "TIMESTAMP": [Moment(TIME_TEXT), NOON],
    "ARRAY<TIMESTAMP>": [[Moment(TIME_TEXT)]],
    "ARRAY<BIGINT>": [[1, None]],
    "ARRAY<DOUBLE>": [[1, 1.5]],
    "ARRAY<STRING>": [["x"]],
}


class TestInference:
    @pytest.mark.parametrize("kind", KINDS)
    def test_kinds(self, kind: str) -> None:
        assert [kind_of(value) for value in KINDS[kind]] == [kind] * len(KINDS[kind])

    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ([TIME_TEXT, "2018-03-24T17:15:20+01:00"], "TIMESTAMP"),
            ([NOON, "2018-03-24T17:15:20Z"], "TIMESTAMP"),
            ([TIME_TEXT, "never"], "STRING"),
            ([TIME_TEXT, "-", TIME_TEXT], "STRING"),
            (["2018-03-24T17:15:20", "2018-03-24"], "STRING"),
            ([[TIME_TEXT]], "ARRAY<STRING>"),
            ([1, 2**40], "BIGINT"),
            ([2**40, 1.5], "DOUBLE"),
            ([[1], [1.5]], "ARRAY<DOUBLE>"),
            ([1, "x", "y"], "STRING"),
            ([1, 1.5, "x"], "DOUBLE"),
            ([None, True], "BOOLEAN"),
        ],
    )
    def test_fields(self, values: list[Any], kind: str) -> None:
        """The least kind that holds them; where they do not go together, that of most of them; in any order."""
        for ordered in (values, values[::-1]):
            one, other = Inference(), Inference()
            one.add([{"x": ordered[0]}])
            other.add({"x": value} for value in ordered[1:])
            one.merge(other)
            assert Inference(one.seen).kinds() == {"x": kind}

    def test_what_has_no_fields(self) -> None:
        seen = Inference()
        seen.add([1, ["x"], {1: 1}, {"x": None}, {}])
        assert seen.kinds() == {}


def rows_of(block: Block, schema: str | None = None, decode: Decode = "raw") -> tuple[list[dict[str, Any]], str]:
    made = RecordBatches(schema_of(schema) if schema else default_schema(decode), decode)
    return made.batch(block).to_pylist(), str(made.troubles)


class TestRecordBatches:
    def test_gaps_in_offsets(self) -> None:
        whole = block_of(*[(f"/{number % 2}", number) for number in range(5)])
        sparse = Block.parse(select(bytes(whole.data), 0, 5, bytes([1, 0])))
        rows, _ = rows_of(sparse, "offset BIGINT, topic STRING")
        assert rows == [{"offset": number, "topic": "/0"} for number in (0, 2, 4)]

    def test_values_and_times_are_not_copied(self) -> None:
        block = block_of(("/a", "x" * 1000))
        batch = RecordBatches(default_schema("raw"), "raw").batch(block)
        start = pa.py_buffer(block.data).address
        for column in ("value", "timestamp"):
            assert start <= batch.column(column).buffers()[-1].address < start + len(block.data)

    def test_small_blocks_are_joined(self) -> None:
        small = [block_of(*[("/a", number) for number in range(1000)], first=1000 * each) for each in range(10)]
        made = RecordBatches(schema_of("offset BIGINT"), "raw")
        batches = list(made.batches(small))
        assert [batch.num_rows for batch in batches] == [5000, 5000]
        assert batches[0].num_rows >= BATCH_LEAST_ROWS
        assert pa.Table.from_batches(batches).column("offset").to_pylist() == list(range(10_000))
        assert list(made.batches([])) == []

    def test_fields(self) -> None:
        block = block_of(
            ("/a", {"number": 1, "id.orig_h": "10.0.0.1", "more": [1]}),
            ("/a", {"number": "1", "name": 5}),
            ("/a", {"number": 2**31, 7: 8, "name": "x"}),
            ("/a", [1]),
        )
        rows, told = rows_of(block, "topic STRING, number INT, `id.orig_h` STRING, name STRING", "schema")
        assert [tuple(row.values()) for row in rows] == [
            ("/a", 1, "10.0.0.1", None),
            ("/a", None, None, None),
            ("/a", None, None, "x"),
            ("/a", None, None, None),
        ]
        assert told == "NULL, of 4 messages: 2 values of number do not fit, 1 values of name do not fit"

    def test_what_cannot_be_decoded(self) -> None:
        """Zeek's values become MessagePack; values as they came need not be any, fields do."""
        zeek = [packed_message("/z", data, broker=True) for data in (BROKER_42, b"\xff")]
        block = block_of_frames(*zeek, packed_message("/a", b"\xc1"), packed_message("/a", b""))
        rows, told = rows_of(block, "value BINARY")
        assert [row["value"] for row in rows] == [encode_value(42), None, b"\xc1", b""]
        assert told == "NULL, of 4 messages: 1 messages cannot be decoded"
        rows, told = rows_of(block, "number INT, value BINARY", "schema")
        assert [row["number"] for row in rows] == [None] * 4
        assert [row["value"] for row in rows_of(block, decode="json")[0]] == ["42", None, None, None]
        assert told == "NULL, of 4 messages: 3 messages cannot be decoded"

    def test_extensions_within_messages(self) -> None:
        """Zeek's own types are text as for WebSocket clients; unknown ones do not fit, and spoil nothing else."""
        address = msgpack.unpackb(msgpack.packb(ip_address("10.0.0.1"), default=default))
        unknown = msgpack.ExtType(99, b"x")
        rows, _ = rows_of(block_of(("/a", {"name": "a", "x": unknown})), "name STRING, x STRING", "schema")
        assert rows == [{"name": "a", "x": None}]
        assert rows_of(block_of(("/a", {"x": address})), "x STRING", "schema")[0] == [{"x": "10.0.0.1"}]

    @pytest.mark.parametrize(
        "kind", ["ARRAY<STRING>", "MAP<STRING, BIGINT>", "STRUCT<a: BIGINT, t: TIMESTAMP>", "DATE"]
    )
    def test_nested_types_are_what_spark_compares_with(self, kind: str) -> None:
        values = [["a"], {"a": 1}, {"a": 1, "t": 5}, "2026-11-21", None]
        batch = RecordBatches(schema_of(f"x {kind}"), "schema").batch(
            block_of(*[("/a", {"x": value}) for value in values])
        )
        batch.validate(full=True)
        assert batch.column("x").null_count < len(values)

    def test_tables_of_a_tier(self) -> None:
        """Their columns are taken as they are, in the order of the query, in pieces that are not too large."""
        count = 3 * 8_192
        blocks = [block_of(*[("/c", number) for number in range(8_192)], first=at) for at in range(7, 7 + count, 8_192)]
        table = Stripe(blocks).table.sort_by("offset")
        made = RecordBatches(default_schema("raw"), "raw")
        batches = list(made.table_batches([table]))
        assert [batch.num_rows for batch in batches] == [BATCH_MOST_ROWS, count - BATCH_MOST_ROWS]
        assert batches[0].schema == made.batch(blocks[0]).schema
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert rows == [row for block in blocks for row in made.batch(block).to_pylist()]
        some = RecordBatches(schema_of("topic STRING, offset BIGINT"), "raw")
        assert next(iter(some.table_batches([table]))).to_pylist()[1] == {"topic": "/c", "offset": 8}

    @pytest.mark.parametrize(
        ("schema", "decode"), [(None, "raw"), (None, "json"), ("offset BIGINT, id BIGINT", "schema")]
    )
    def test_tables_of_a_tier_are_decoded(self, schema: str | None, decode: Decode) -> None:
        frames = packed_message("/b", BROKER_42, broker=True), packed_message("/m", encode_value({"id": 5}))
        block = block_of_frames(*frames)
        made = RecordBatches(schema_of(schema) if schema else default_schema(decode), decode)
        (batch,) = made.table_batches([Stripe([block]).table.sort_by("offset")])
        assert (batch.to_pylist(), str(made.troubles)) == rows_of(block, schema, decode)


class TestRowsAsMessages:
    def messages(self, frames: list[tuple[bytes, int]]) -> list[tuple[str, Any]]:
        return [(topic, value) for some, count in frames for topic, value in decode_batch(Batch(some, count))[0]]

    def batch_of(self, topics: list[str], values: list[Any], kind: pa.DataType | None = None) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"topic": topics, "value": pa.array(values, kind)})

    def test_slices_and_large_types(self) -> None:
        batch = self.batch_of([f"/{n}" for n in range(10)], [encode_value(n) for n in range(10)], pa.binary())
        assert self.messages(frames_of(batch.slice(3, 2), None, "raw")) == [("/3", 3), ("/4", 4)]
        assert self.messages(frames_of(batch.slice(3, 2), "/t", "raw")) == [("/t", 3), ("/t", 4)]
        large = batch.cast(pa.schema([("topic", pa.large_string()), ("value", pa.large_binary())]))
        assert self.messages(frames_of(large, None, "raw")) == [(f"/{number}", number) for number in range(10)]
        assert frames_of(batch.slice(0, 0), None, "raw") == []

    @pytest.mark.parametrize("value", ["{", "1" * 30, "[" * 2000 + "]" * 2000])
    def test_what_is_no_json(self, value: str) -> None:
        with pytest.raises(BadRowError, match="a value for '/a' is no JSON text") as caught:
            frames_of(self.batch_of(["/b", "/a"], ["1", value]), None, "json")
        assert len(str(caught.value)) < 400

    def test_a_topic_that_no_frame_bears(self) -> None:
        with pytest.raises(BadRowError, match="the rows make no messages: a topic is longer"):
            frames_of(self.batch_of(["/" * 70_000], ["1"]), None, "json")
