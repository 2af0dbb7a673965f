"""Values of messages as typed columns: what fits."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql.types import DataType, DecimalType, IntegerType, MapType, StructType

from peers.spark.connector.fields import MisfitError, fit_of
from peers.spark.connector.options import ColumnError
from tests.spark.connector.blocks import schema_of

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000

pytestmark = pytest.mark.usefixtures("spark")  # types are read by Java


def kind_of(name: str) -> DataType:
    return schema_of(f"x {name}")["x"].dataType


@pytest.mark.parametrize(
    ("kind", "value", "fitting"),
    [
        ("STRING", "x", "x"),
        ("STRING", {"a": [1, b"x"]}, '{"a":[1,"eA=="]}'),
        ("STRING", [None], "[null]"),
        ("BOOLEAN", True, True),
        ("BINARY", b"x", b"x"),
        ("TINYINT", -128, -128),
        ("SMALLINT", 32_767, 32_767),
        ("INT", -(2**31), -(2**31)),
        ("BIGINT", 2**63 - 1, 2**63 - 1),
        ("DOUBLE", 1, 1.0),
        ("DOUBLE", 1.5, 1.5),
        ("FLOAT", 1.5, 1.5),
        ("TIMESTAMP", NOON, NOON_US),
        ("TIMESTAMP", NOON.replace(tzinfo=None), NOON_US),
        ("TIMESTAMP", "2026-11-21T12:00:00Z", NOON_US),
        ("TIMESTAMP", "2026-11-21T12:00:00.123456789Z", NOON_US + 123_456),
        ("TIMESTAMP", "2026-11-21T13:00:00+01:00", NOON_US),
        ("TIMESTAMP", 1, 1_000_000),
        ("TIMESTAMP", 1.25, 1_250_000),
        ("TIMESTAMP", -1.25, -1_250_000),
        ("DATE", "2026-11-21", date(2026, 11, 21)),
        ("ARRAY<INT>", [1, None], [1, None]),
        ("MAP<STRING, INT>", {"a": 1, "b": None}, [("a", 1), ("b", None)]),
        ("STRUCT<a: INT, b: STRING>", {"a": 1, "c": 2}, {"a": 1, "b": None}),
        ("ARRAY<STRUCT<a: ARRAY<INT>>>", [{"a": [1]}], [{"a": [1]}]),
    ],
)
def test_what_fits(kind: str, value: Any, fitting: Any) -> None:
    assert fit_of("x", kind_of(kind))(value) == fitting


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("STRING", 1),
        ("STRING", b"x"),
        ("BOOLEAN", 1),
        ("BINARY", "x"),
        ("TINYINT", 128),
        ("INT", 2**31),
        ("BIGINT", 2**63),
        ("BIGINT", True),
        ("BIGINT", 1.0),
        ("STRING", {"a": object}),
        ("DOUBLE", 2**53 + 1),
        ("DOUBLE", "1"),
        ("DOUBLE", True),
        ("TIMESTAMP", "soon"),
        ("TIMESTAMP", True),
        ("TIMESTAMP", 2**60),
        ("TIMESTAMP", 1e300),
        ("TIMESTAMP", float("nan")),
        ("DATE", "21.11.2026"),
        ("DATE", 1),
        ("ARRAY<INT>", "x"),
        ("ARRAY<INT>", ["x"]),
        ("MAP<STRING, INT>", {1: 1}),
        ("MAP<STRING, INT>", {"a": "x"}),
        ("MAP<STRING, INT>", [1]),
        ("STRUCT<a: INT>", {"a": "x"}),
        ("STRUCT<a: INT>", 1),
    ],
)
def test_what_does_not_fit(kind: str, value: Any) -> None:
    with pytest.raises(MisfitError):
        fit_of("x", kind_of(kind))(value)


def test_what_a_struct_has_no_place_for() -> None:
    kind = kind_of("ARRAY<STRUCT<a: STRUCT<b: INT>>>")
    value = [{"a": {"b": 1, "c": 2}}]
    assert fit_of("x", kind)(value) == [{"a": {"b": 1}}]
    with pytest.raises(MisfitError):
        fit_of("x", kind, whole=True)(value)
    assert fit_of("x", kind, whole=True)([{"a": {"b": 1}}]) == [{"a": {"b": 1}}]


@pytest.mark.parametrize("kind", [DecimalType(), MapType(IntegerType(), IntegerType())])
def test_types_that_no_message_has(kind: DataType) -> None:
    with pytest.raises(ColumnError, match="column x: a message has no values of type"):
        fit_of("x", kind)
    with pytest.raises(ColumnError, match=r"column x\.a: "):
        fit_of("x", StructType().add("a", kind))
