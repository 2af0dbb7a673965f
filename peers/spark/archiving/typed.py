"""`TypedColumns`, `TypedRows`: the columns of the fields in a decoded archive, how they grow, and records as rows.

A field without a column gets one, behind the others. Columns never vanish or narrow; integers are BIGINT from the
start, for most readers take types from the first file that they find. A column has the name of its field, or
`field_topic` where a record has that name. Nothing of a message is lost: `_rest` has, as JSON, fields that have no
column or do not fit, a message that is no map, and `{"$msgpack": "<base64>"}`. Cost: 0.3 µs a column.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from hub.errors import UsageError
from peers.spark.archiving.state import EVENT_TIME, REST, SIZE
from peers.spark.connector.fields import Fit, MisfitError, fit_of, json_text, type_of
from peers.spark.connector.options import ColumnError
from peers.spark.connector.record_batches import UNREADABLE, arrow_schema

COLUMNS_LIMIT = 1_000
"""Of fields. A table of more is slow in every reader; all of Zeek's logs together have about as many."""

_TAKEN = frozenset({"offset", "timestamp", "topic", "value", EVENT_TIME, SIZE, REST, "date", "root", "batch", "table"})
_INSTEAD = "field_"
_UNFIT = re.compile(r"[ ,;{}()\n\t=]")

# Wider types, so that readers still take old files.
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
    declared: frozenset[str] = frozenset()
    """Columns of `--schema`; in these, numbers may be times."""

    @classmethod
    def of_state(cls, schema: Mapping[str, Any], fields: Mapping[str, str], declared: Collection[str] = ()) -> Self:
        """Return the columns that were stored as `schema.jsonValue()`, `fields` and `declared`."""
        return cls(StructType.fromJson(dict(schema)), dict(fields), frozenset(declared))

    def grown(
        self, kinds: Mapping[str, str], named: StructType | None = None, *, widens: bool
    ) -> tuple[TypedColumns, Growth]:
        """Return the columns that also hold fields of these kinds, as far as possible; types of `--schema` win."""
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
    column = _UNFIT.sub("_", name)
    return f"{_INSTEAD}{column}" if column.lower() in _TAKEN else column


def _field_of(column: str) -> str:
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


# Columns of these types take values of one Python type without looking at each.
_AS_THEY_ARE: dict[type[DataType], type] = {
    StringType: str,
    DoubleType: float,
    BooleanType: bool,
    BinaryType: bytes,
}

# The years 1 to 9999: the limits of a date.
_EARLIEST_US, _BEYOND_US = -62_135_596_800_000_000, 253_402_300_800_000_000


def typed_schema(columns: TypedColumns, event_time: str) -> StructType:
    """Return the columns of the files; `event_time` is the field of the event time, empty for none."""
    dated = [StructField(EVENT_TIME, TimestampType())] if event_time else []
    return StructType(
        [
            StructField("offset", LongType()),
            StructField("timestamp", TimestampType()),
            StructField("topic", StringType()),
            *dated,
            StructField(SIZE, IntegerType()),
            *columns.schema.fields,
            StructField(REST, StringType()),
        ]
    )


class _Fitting(NamedTuple):
    name: str
    fit: Fit
    plain: type | None
    """Values of this type need no fitting."""


class TypedRows:
    """Makes rows; counts messages with something in `_rest`, and those without an event time (`undated`)."""

    def __init__(self, columns: TypedColumns, event_time: str) -> None:
        self.rest = 0
        self.undated = 0
        self._event_time = event_time
        self._schema = arrow_schema(typed_schema(columns, event_time))
        self._fits = {
            one.name: _Fitting(
                columns.fields[one.name],
                fit_of(one.name, one.dataType, whole=True, strict_times=one.name not in columns.declared),
                _AS_THEY_ARE.get(type(one.dataType)),
            )
            for one in columns.schema.fields
        }
        self._known = frozenset(fitting.name for fitting in self._fits.values())

    def table(self, records: pa.Table, messages: list[Any]) -> pa.Table:
        schema, values = self._schema, records["value"]
        maps = [message if type(message) is dict else {} for message in messages]
        rests: dict[int, dict[Any, Any]] = {}
        made: dict[str, Any] = {name: records[name] for name in ("offset", "timestamp", "topic")}
        made[SIZE] = pc.fill_null(pc.binary_length(values), 0)
        if self._event_time:
            fit = fit_of(self._event_time, TimestampType())
            found = [_moment(message, self._event_time, fit) for message in maps]
            self.undated += found.count(None)
            made[EVENT_TIME] = pa.array(found, schema.field(EVENT_TIME).type)
        for column, fitting in self._fits.items():
            made[column] = pa.array(_fitted(maps, fitting, rests), schema.field(column).type)
        for number, message in enumerate(maps):
            if not message.keys() <= self._known:
                unknown = {
                    name: value for name, value in message.items() if name not in self._known and value is not None
                }
                if unknown:
                    rests.setdefault(number, {}).update(unknown)
        made[REST] = pa.array(self._texts(values, messages, rests), pa.string())
        return pa.Table.from_arrays([made[field.name].cast(field.type) for field in schema], schema=schema)

    def _texts(
        self, values: pa.ChunkedArray, messages: list[Any], rests: dict[int, dict[Any, Any]]
    ) -> list[str | None]:
        texts: list[str | None] = [None] * len(messages)
        for number, message in enumerate(messages):
            if type(message) is not dict:
                texts[number] = _text(message, values[number].as_py())
        for number, rest in rests.items():
            texts[number] = _text(rest, values[number].as_py())
        self.rest += len(texts) - texts.count(None)
        return texts


def _moment(message: dict[Any, Any], name: str, fit: Callable[[Any], Any]) -> int | None:
    value = message.get(name)
    if value is None:
        return None
    try:
        time_us: int = fit(value)
    except MisfitError:
        return None
    return time_us if _EARLIEST_US <= time_us < _BEYOND_US else None


def _fitted(maps: list[dict[Any, Any]], fitting: _Fitting, rests: dict[int, dict[Any, Any]]) -> list[Any]:
    """Return the values of a field; values that do not fit are added to the rest of their messages."""
    name, fit, plain = fitting
    values = [message.get(name) for message in maps]
    if plain is not None and set(map(type, values)) <= {plain, type(None)}:
        return values
    for number, value in enumerate(values):
        if value is not None:
            try:
                values[number] = fit(value)
            except MisfitError:
                values[number] = None
                rests.setdefault(number, {})[name] = value
    return values


def _text(rest: Any, body: bytes | None) -> str | None:
    if body is None:
        return None
    if rest is not UNREADABLE:
        try:
            return json_text(rest)
        except MisfitError:
            pass
    return json_text({"$msgpack": base64.b64encode(body).decode()})
