"""The columns of a decoded archive: how they are called and how they grow."""

from __future__ import annotations

import pytest
from pyspark.sql.types import DoubleType, FloatType, IntegerType, LongType, StringType, StructType

from hub.errors import UsageError
from peers.spark.archiving import typed_columns
from peers.spark.archiving.typed_columns import Growth, TypedColumns


def types_of(columns: TypedColumns) -> dict[str, str]:
    """The type of each column."""
    return {column.name: column.dataType.simpleString() for column in columns.schema.fields}


def test_names() -> None:
    """Columns are called as their fields; where that cannot be, otherwise or not at all."""
    kinds = {"a.b": "INT", "topic": "STRING", "x y": "INT", "A.B": "INT", "": "INT", "x_y": "INT"}
    columns, growth = TypedColumns().grown(kinds, widens=True)
    assert growth.added == ("a.b", "field_topic", "x_y")
    assert columns.fields == {"a.b": "a.b", "field_topic": "topic", "x_y": "x y"}


def test_they_widen() -> None:
    """Integers become larger or reals, which readers take old files for; nothing else changes, and nothing goes."""
    columns, _ = TypedColumns().grown({"a": "INT", "b": "INT", "c": "BIGINT", "d": "STRING"}, widens=True)
    grown, growth = columns.grown({"a": "BIGINT", "b": "DOUBLE", "c": "DOUBLE", "d": "INT"}, widens=True)
    assert growth == Growth((), ("a", "b"))
    assert types_of(grown) == {"a": "bigint", "b": "double", "c": "bigint", "d": "string"}
    assert grown.grown({"a": "INT", "b": "INT"}, widens=True) == (grown, Growth())


def test_where_they_cannot_widen() -> None:
    """Integers are wide from the start."""
    columns, _ = TypedColumns().grown({"a": "INT", "b": "ARRAY<BIGINT>"}, widens=False)
    assert types_of(columns) == {"a": "bigint", "b": "array<bigint>"}
    assert columns.grown({"a": "DOUBLE", "b": "ARRAY<DOUBLE>"}, widens=False) == (columns, Growth())


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields beyond it get no column."""
    monkeypatch.setattr(typed_columns, "COLUMNS_LIMIT", 2)
    columns, growth = TypedColumns().grown(dict.fromkeys("abc", "INT"), widens=True)
    assert growth.added == ("a", "b")
    assert columns.grown({"c": "INT", "a": "BIGINT"}, widens=True)[1] == Growth((), ("a",))


def test_what_is_stored_comes_back() -> None:
    """Columns and the fields that they are of."""
    columns, _ = TypedColumns().grown({"a": "ARRAY<STRING>", "topic": "INT"}, widens=True)
    assert TypedColumns.of_state(columns.schema.jsonValue(), columns.fields) == columns


def test_columns_that_are_written_down() -> None:
    """Grow in the same way; a field called like a column of the record is named by that of its column."""
    schema = StructType().add("n", IntegerType()).add("field_topic", StringType()).add("f", FloatType())
    columns, growth = TypedColumns().named(schema, widens=True)
    assert growth.added == ("n", "field_topic", "f")
    assert columns.fields == {"n": "n", "field_topic": "topic", "f": "f"}
    wider, growth = columns.named(StructType().add("n", LongType()).add("f", DoubleType()), widens=True)
    assert growth.widened == ("n", "f")
    assert types_of(wider) == {"n": "bigint", "field_topic": "string", "f": "double"}
    with pytest.raises(UsageError, match="column n is BIGINT in this archive and cannot become INT"):
        wider.named(schema, widens=True)
    with pytest.raises(UsageError, match="column n is INT in this archive and cannot become BIGINT"):
        columns.named(StructType().add("n", LongType()), widens=False)
