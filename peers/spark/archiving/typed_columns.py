"""`TypedColumns`: the columns that a decoded archive has of its messages, and how they grow.

| what comes | what becomes of it |
|---|---|
| a field that no column has | a column, behind the others; older files lack it, which readers take for NULL |
| a wider number in an INT or a FLOAT that was written down | the column widens to BIGINT or DOUBLE; older files stay |
| anything else that does not fit | stands in `_rest`, by the name of its field |

Columns never vanish, and never narrow. Integers are BIGINT from the start, for most readers take types from the first
file that they find. A column of an Iceberg table does not widen.

A column is called as its field, but where that cannot be: `field_topic` for a field `topic`, for that is a column of
the record; `_` for characters that Parquet tables do not take. A field whose name differs from another one only in
case, and one beyond `COLUMNS_LIMIT`, stands in `_rest`.

Values only; no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

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
from peers.spark.connector.columns import type_of
from peers.spark.connector.errors import ColumnError
from peers.spark.connector.fields import fit_of

__all__ = ["COLUMNS_LIMIT", "EVENT_TIME", "REST", "SIZE", "Growth", "TypedColumns"]

COLUMNS_LIMIT = 1_000
"""Of fields. A table of more is slow in every reader; so many have the messages of all of Zeek's logs together."""

EVENT_TIME = "event_time"
SIZE = "_bytes"
REST = "_rest"

_TAKEN = frozenset({"offset", "timestamp", "topic", "value", EVENT_TIME, SIZE, REST, "date", "root", "batch", "table"})
_INSTEAD = "field_"
_UNFIT = re.compile(r"[ ,;{}()\n\t=]")

_WIDER: dict[type[DataType], tuple[type[DataType], ...]] = {
    ByteType: (ShortType, IntegerType, LongType, DoubleType),
    ShortType: (IntegerType, LongType, DoubleType),
    IntegerType: (LongType, DoubleType),
    FloatType: (DoubleType,),
}
"""What a type may become, with readers that take old files for it."""


class Growth(NamedTuple):
    """What has changed."""

    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypedColumns:
    """Columns of fields."""

    schema: StructType = field(default_factory=StructType)
    fields: Mapping[str, str] = field(default_factory=dict)
    """The field of each column."""
    declared: frozenset[str] = frozenset()
    """Columns whose types somebody has written down; in these, numbers may be times."""

    @classmethod
    def of_state(cls, schema: Mapping[str, Any], fields: Mapping[str, str], declared: Collection[str] = ()) -> Self:
        """Return what `schema.jsonValue()`, `fields` and `declared` were stored of."""
        return cls(StructType.fromJson(dict(schema)), dict(fields), frozenset(declared))

    def grown(
        self, kinds: Mapping[str, str], named: StructType | None = None, *, widens: bool
    ) -> tuple[TypedColumns, Growth]:
        """Return the columns that also hold fields of these kinds, as far as that can be.

        Args:
            kinds: By field; see `peers.spark.connector.inference`.
            named: Columns whose types somebody has written down; they are taken in place of the kinds.
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
        """Return the columns with those that somebody has written down.

        Args:
            schema: Columns, called as those of an archive are.
            widens: Whether a column may widen.

        Raises:
            UsageError: A column cannot be, or is another one already.
        """
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
    """Return what the column of a field is called, empty for none."""
    column = _UNFIT.sub("_", name)
    return f"{_INSTEAD}{column}" if column.lower() in _TAKEN else column


def _field_of(column: str) -> str:
    """Return the field of a column that somebody has named."""
    name = column.removeprefix(_INSTEAD)
    return name if name.lower() in _TAKEN else column
