"""The columns of a decoded archive: how they are called and how they grow."""

from __future__ import annotations

import pytest
from pyspark.sql.types import DoubleType, FloatType, IntegerType, LongType, StringType, StructType

from hub.errors import UsageError
from peers.spark.archiving import typed_columns
from peers.spark.archiving.typed_columns import Growth, TypedColumns


def types_of(columns: TypedColumns) -> dict[str, str]:
    return {column.name: column.dataType.simpleString() for column in columns.schema.fields}


def test_names() -> None:
    kinds = {"a.b": "BIGINT", "topic": "STRING", "x y": "BIGINT", "A.B": "BIGINT", "": "BIGINT", "x_y": "BIGINT"}
    columns, growth = TypedColumns().grown(kinds, widens=True)
    assert growth.added == ("a.b", "field_topic", "x_y")
    assert columns.fields == {"a.b": "a.b", "field_topic": "topic", "x_y": "x y"}


def test_integers_are_wide_from_the_start() -> None:
    columns, _ = TypedColumns().grown({"a": "BIGINT", "b": "ARRAY<BIGINT>", "c": "STRING"}, widens=True)
    assert types_of(columns) == {"a": "bigint", "b": "array<bigint>", "c": "string"}
    assert columns.grown({"a": "DOUBLE", "b": "ARRAY<DOUBLE>", "c": "BIGINT"}, widens=True) == (columns, Growth())


def test_columns_that_were_written_down_widen() -> None:
    """Integers become larger or reals, which readers take old files for; not where a table knows no widening."""
    columns, _ = TypedColumns().named(StructType().add("a", IntegerType()).add("b", IntegerType()), widens=True)
    grown, growth = columns.grown({"a": "BIGINT", "b": "DOUBLE"}, widens=True)
    assert growth == Growth((), ("a", "b"))
    assert types_of(grown) == {"a": "bigint", "b": "double"}
    assert columns.grown({"a": "BIGINT", "b": "DOUBLE"}, widens=False) == (columns, Growth())


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_columns, "COLUMNS_LIMIT", 2)
    columns, growth = TypedColumns().grown(dict.fromkeys("abc", "BIGINT"), widens=True)
    assert growth.added == ("a", "b")
    assert columns.grown({"c": "BIGINT", "a": "BIGINT"}, widens=True) == (columns, Growth())


def test_what_is_stored_comes_back() -> None:
    columns, _ = TypedColumns().grown({"a": "ARRAY<STRING>", "topic": "BIGINT"}, widens=True)
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
