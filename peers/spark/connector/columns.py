"""The columns of a query: those of the record, and with `decode` the fields of messages that are maps."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from peers.spark.connector.options import ColumnError, Decode

RECORD_COLUMNS: dict[str, DataType] = {
    "offset": LongType(),
    "timestamp": TimestampType(),
    "topic": StringType(),
    "value": BinaryType(),
}


_KINDS: dict[str, DataType] = {
    "BIGINT": LongType(),
    "DOUBLE": DoubleType(),
    "BOOLEAN": BooleanType(),
    "BINARY": BinaryType(),
    "TIMESTAMP": TimestampType(),
    "STRING": StringType(),
}


def type_of(kind: str) -> DataType:
    """Return the type of a column for a kind of `Inference`."""
    if kind.startswith("ARRAY<"):
        return ArrayType(_KINDS[kind[6:-1]])
    return _KINDS[kind]


def fields_schema(kinds: Mapping[str, str]) -> StructType:
    """Return the columns of a query whose fields were looked up.

    Fields are left out whose name a column of the record has, or another field but for its case.
    """
    columns = [StructField(name, RECORD_COLUMNS[name]) for name in ("offset", "timestamp", "topic")]
    taken = set(RECORD_COLUMNS)
    for name, kind in kinds.items():
        if name and name.lower() not in taken:
            taken.add(name.lower())
            columns.append(StructField(name, type_of(kind)))
    return StructType(columns)


def default_schema(decode: Decode) -> StructType:
    """Return the columns of a query that names none."""
    return StructType([StructField(name, _type_of(name, decode)) for name in RECORD_COLUMNS])


def _type_of(name: str, decode: Decode) -> DataType:
    return StringType() if name == "value" and decode == "json" else RECORD_COLUMNS[name]


def is_field(column: StructField) -> bool:
    """Return whether a column is a field of the messages."""
    return column.name not in RECORD_COLUMNS


def checked_schema(schema: StructType, decode: Decode) -> StructType:
    """Return a user's schema, checked."""
    for column in schema.fields:
        if is_field(column):
            _check_field(column, decode)
        elif column.dataType != _type_of(column.name, decode):
            wanted = _type_of(column.name, decode).simpleString().upper()
            raise ColumnError(
                f"column {column.name} is {wanted}, not {column.dataType.simpleString().upper()}{_hint(column, decode)}"
            )
    return schema


def _check_field(column: StructField, decode: Decode) -> None:
    if decode == "raw":
        near = difflib.get_close_matches(column.name.lower(), RECORD_COLUMNS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ColumnError(
            f"there is no column {column.name}: {hint}there are {', '.join(RECORD_COLUMNS)}; "
            "with option decode=schema, other columns are fields of the messages"
        )
    if not column.nullable:
        raise ColumnError(f"column {column.name}: a message may lack the field, so that it cannot be NOT NULL")


def _hint(column: StructField, decode: Decode) -> str:
    if column.name == "value" and decode == "raw" and isinstance(column.dataType, StringType):
        return "; option decode=json gives its JSON text"
    return ""
