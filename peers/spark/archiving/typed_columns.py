"""`TypedColumns`: the columns of the fields in a decoded archive, and how they grow.

A field without a column gets one, behind the others; older files lack it, which readers take for NULL. An INT or a
FLOAT of `--schema` widens to BIGINT or DOUBLE. Other values that do not fit go to `_rest`, by the name of their field.

Columns never vanish and never narrow. Integers are BIGINT from the start, for most readers take types from the first
file that they find. A column of an Iceberg table does not widen.

A column has the name of its field; but a field `topic` becomes `field_topic`, for that is a column of the record, and
`_` stands for characters that Parquet tables do not take. A field whose name differs from another one only in case, and
a field beyond `COLUMNS_LIMIT`, goes to `_rest`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from hub.errors import UsageError
from peers.spark.archiving.state import EVENT_TIME, REST, SIZE
from peers.spark.connector.columns import type_of
from peers.spark.connector.fields import fit_of
from peers.spark.connector.options import ColumnError
from peers.spark.connector.record_batches import arrow_schema

COLUMNS_LIMIT = 1_000
"""Of fields. A table of more is slow in every reader; all of Zeek's logs together have about as many."""

_TAKEN = frozenset({"offset", "timestamp", "topic", "value", EVENT_TIME, SIZE, REST, "date", "root", "batch", "table"})
_INSTEAD = "field_"
_UNFIT = re.compile(r"[ ,;{}()\n\t=]")

# What a type may become, so that readers still take old files.
_WIDER: dict[type[DataType], tuple[type[DataType], ...]] = {
    ByteType: (ShortType, IntegerType, LongType, DoubleType),
    ShortType: (IntegerType, LongType, DoubleType),
    IntegerType: (LongType, DoubleType),
    FloatType: (DoubleType,),
}


class Growth(NamedTuple):
    """Columns that are new or wider."""

    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypedColumns:
    """Columns of fields."""

    schema: StructType = field(default_factory=StructType)
    fields: Mapping[str, str] = field(default_factory=dict)
    """The field of each column."""
    declared: frozenset[str] = frozenset()
    """Columns of `--schema`; in these, numbers may be times."""

    @classmethod
    def of_state(cls, schema: Mapping[str, Any], fields: Mapping[str, str], declared: Collection[str] = ()) -> Self:
        """Return the columns that were stored as `schema.jsonValue()`, `fields` and `declared`."""
        return cls(StructType.fromJson(dict(schema)), dict(fields), frozenset(declared))

    def grown(
        self, kinds: Mapping[str, str], named: StructType | None = None, *, widens: bool
    ) -> tuple[TypedColumns, Growth]:
        """Return the columns that also hold fields of these kinds, as far as possible.

        Args:
            kinds: By field; see `peers.spark.connector.fields`.
            named: Columns of `--schema`; their types win.
            widens: Whether a column may widen.
        """
        wished = []
        types = {column.name: column.dataType for column in named.fields} if named else {}
        by_field = {name: column for column, name in self.fields.items()}
        taken = {column.lower() for column in self.fields}
        for name, kind in kinds.items():
            column = by_field.get(name) or _column_for(name)
            if column and (name in by_field or column.lower() not in taken):
                taken.add(column.lower())
                wished.append((column, name, types.get(column) or type_of(kind)))
        return self._with(wished, types, widens=widens)

    def named(self, schema: StructType, *, widens: bool) -> tuple[TypedColumns, Growth]:
        """Return the columns with those of `--schema`."""
        for column in schema.fields:
            if column.name.lower() in _TAKEN or _UNFIT.search(column.name):
                raise UsageError(
                    f"--schema: {column.name!r} cannot be the name of a field's column; {_INSTEAD}topic stands for a "
                    "field topic, and _ for what Parquet does not take"
                )
            try:
                fit_of(column.name, column.dataType)
            except ColumnError as error:
                raise UsageError(f"--schema: {error}") from error
        wished = [(column.name, _field_of(column.name), column.dataType) for column in schema.fields]
        new, growth = self._with(wished, schema.names, widens=widens)
        for name, _, kind in wished:
            if new.schema[name].dataType != kind:
                held = new.schema[name].dataType.simpleString().upper()
                raise UsageError(
                    f"--schema: column {name} is {held} in this archive and cannot become "
                    f"{kind.simpleString().upper()}: begin another archive"
                )
        return new, growth

    def _with(
        self, wished: list[tuple[str, str, DataType]], declared: Collection[str], *, widens: bool
    ) -> tuple[TypedColumns, Growth]:
        columns = {column.name: column.dataType for column in self.schema.fields}
        fields = dict(self.fields)
        added, widened = [], []
        for column, name, kind in wished:
            held = columns.get(column)
            if held is None:
                if len(columns) < COLUMNS_LIMIT:
                    columns[column], fields[column] = kind, name
                    added.append(column)
            elif widens and type(kind) in _WIDER.get(type(held), ()):
                columns[column] = kind
                widened.append(column)
        schema = StructType([StructField(name, kind) for name, kind in columns.items()])
        declared = self.declared | (fields.keys() & set(declared))
        return TypedColumns(schema, fields, declared), Growth(tuple(added), tuple(widened))


def _column_for(name: str) -> str:
    """Return the name of the column of a field."""
    column = _UNFIT.sub("_", name)
    return f"{_INSTEAD}{column}" if column.lower() in _TAKEN else column


def _field_of(column: str) -> str:
    """Return the field of a column of `--schema`."""
    name = column.removeprefix(_INSTEAD)
    return name if name.lower() in _TAKEN else column


# Parquet's own place for the columns of all files: Spark looks there, pandas and pyarrow take it as an argument.
_COMMON = "_common_metadata"

_FOLDERS = (("date", pa.date32()), ("root", pa.string()), ("batch", pa.int64()))


def schema_of(text: str) -> StructType:
    """Return the schema of `--schema`: `query STRING, rtt DOUBLE`, or the output of `df.schema.json()`."""
    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(msgspec.json.decode(text))
        schema = StructType.fromDDL(" ".join(text.split()))
    except (PySparkException, ValueError, KeyError, TypeError) as error:
        said = str(error).strip().partition("\n")[0]
        raise UsageError(f"--schema: columns expected such as query STRING, rtt DOUBLE: {said}") from error
    if not isinstance(schema, StructType):
        raise UsageError("--schema: columns expected such as query STRING, rtt DOUBLE")
    return schema


def write_common_schema(folder: Path, schema: StructType) -> None:
    """Write the columns of the files and of the names of folders; readers find the old file or the new one."""
    path = folder / _COMMON
    new = folder / f".{_COMMON}.new"
    try:
        pq.write_metadata(pa.schema([*arrow_schema(schema), *(pa.field(*each) for each in _FOLDERS)]), new)
        os.replace(new, path)  # noqa: PTH105 -- as for the state beside it
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
