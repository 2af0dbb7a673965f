"""`TypedRows`: records of the journal as rows with typed columns.

```
offset, timestamp, topic, value ──▶ offset, timestamp, topic, event_time, _bytes, one column a field ..., _rest
```

Nothing of a message is lost. `_rest` has what is in no column, as JSON: an object with the fields that have none or do
not fit; the message itself where it is no map; `{"$msgpack": "<base64>"}` where JSON cannot express it. Cost: 0.3 µs a
column.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from peers.spark.archiving.state import EVENT_TIME, REST, SIZE
from peers.spark.archiving.typed_columns import TypedColumns
from peers.spark.connector.fields import Fit, MisfitError, fit_of, json_text
from peers.spark.connector.record_batches import UNREADABLE, arrow_schema

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
    """Makes rows.

    Attributes:
        rest: Messages with something in `_rest`.
        undated: Messages without an event time.
    """

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
        """Return the rows of records, whose values are these messages."""
        schema, values = self._schema, records["value"]
        maps = [message if type(message) is dict else {} for message in messages]
        rests: dict[int, dict[Any, Any]] = {}
        made: dict[str, Any] = {name: records[name] for name in ("offset", "timestamp", "topic")}
        made[SIZE] = pc.fill_null(pc.binary_length(values), 0)
        if self._event_time:
            made[EVENT_TIME] = self._event_times(maps, schema)
        for column, fitting in self._fits.items():
            made[column] = pa.array(_fitted(maps, fitting, rests), schema.field(column).type)
        _add_unknown(maps, self._known, rests)
        made[REST] = pa.array(self._texts(values, messages, rests), pa.string())
        return pa.Table.from_arrays([made[field.name].cast(field.type) for field in schema], schema=schema)

    def _event_times(self, maps: list[dict[Any, Any]], schema: pa.Schema) -> pa.Array:
        fit = fit_of(self._event_time, TimestampType())
        found = [_moment(message, self._event_time, fit) for message in maps]
        self.undated += found.count(None)
        return pa.array(found, schema.field(EVENT_TIME).type)

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


def _add_unknown(maps: list[dict[Any, Any]], known: frozenset[str], rests: dict[int, dict[Any, Any]]) -> None:
    """Add the fields without a column to the rest of their message, but for nil."""
    for number, message in enumerate(maps):
        if not message.keys() <= known:
            unknown = {name: value for name, value in message.items() if name not in known and value is not None}
            if unknown:
                rests.setdefault(number, {}).update(unknown)


def _text(rest: Any, body: bytes | None) -> str | None:
    if body is None:
        return None
    if rest is not UNREADABLE:
        try:
            return json_text(rest)
        except MisfitError:
            pass
    return json_text({"$msgpack": base64.b64encode(body).decode()})
