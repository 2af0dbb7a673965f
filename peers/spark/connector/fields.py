"""Fields of messages as typed columns: which values fit a type (`fit_of`), and the types of fields (`Inference`).

A kind is the name of the type of a field. Where values of a field do not go together (text and numbers), the kind of
most of them wins; nil has none. Cost of `Inference`: 0.25 µs a field.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from peers.spark.connector.options import ColumnError, Decode

Fit = Callable[[Any], Any]
"""Returns the value for Arrow of a value that is not None."""

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}

# Beyond it, reals skip integers.
_EXACT = 1 << 53

_US = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP_LIMIT_US = 2**63


is_time_text = re.compile(
    r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-][0-2]\d:[0-5]\d)", re.ASCII
).fullmatch
"""Matches RFC 3339 text with a zone."""


def _plain(value: Any) -> str:
    if type(value) is Moment:
        return str(value)
    raise TypeError


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


class Moment(str):
    """A time of a Zeek: RFC 3339 text with nanoseconds, which fits STRING and TIMESTAMP."""

    __slots__ = ()


class MisfitError(ValueError):
    """A value does not fit the type of its column."""


def json_text(value: Any) -> str:
    """Return a value of a message as JSON: bytes as base64, times as RFC 3339."""
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MisfitError from error


def fit_of(name: str, kind: DataType, *, whole: bool = False, strict_times: bool = False) -> Fit:
    """Return the function that brings values into a type.

    Args:
        name: Of the column, for errors.
        kind: Its type.
        whole: Whether a map with more fields than a STRUCT does not fit, rather than losing them.
        strict_times: Whether a TIMESTAMP takes only timestamps and RFC 3339 text with a zone.
    """
    if type(kind) in _BITS:
        return _integer(_BITS[type(kind)])
    if strict_times and isinstance(kind, TimestampType):
        return _strict_timestamp
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    if isinstance(kind, ArrayType):
        return _array(fit_of(name, kind.elementType, whole=whole, strict_times=strict_times))
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return _map(fit_of(name, kind.valueType, whole=whole))
    if isinstance(kind, StructType):
        fits = {one.name: fit_of(f"{name}.{one.name}", one.dataType, whole=whole) for one in kind.fields}
        return _struct(fits, whole=whole)
    raise ColumnError(f"column {name}: a message has no values of type {kind.simpleString().upper()}")


def _exactly(kind: type) -> Fit:
    def fit(value: Any) -> Any:
        if type(value) is not kind:
            raise MisfitError
        return value

    return fit


def _integer(bits: int) -> Fit:
    least, beyond = -(1 << bits - 1), 1 << bits - 1

    def fit(value: Any) -> int:
        if type(value) is not int or not least <= value < beyond:
            raise MisfitError
        return value

    return fit


def _real(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int or not -_EXACT <= value <= _EXACT:
        raise MisfitError
    return float(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if type(value) not in {dict, list}:
        raise MisfitError
    return json_text(value)


def _timestamp(value: Any) -> int:
    """Return µs since 1970 UTC."""
    time_us: int
    if type(value) is datetime:
        time_us = _microseconds(value)
    elif isinstance(value, str):
        time_us = _microseconds(_parsed(datetime, value))
    elif type(value) is int:
        time_us = value * _US
    elif type(value) is float and abs(value) < _TIMESTAMP_LIMIT_US // _US:
        time_us = round(value * _US)
    else:
        raise MisfitError
    if not -_TIMESTAMP_LIMIT_US <= time_us < _TIMESTAMP_LIMIT_US:
        raise MisfitError
    return time_us


def _strict_timestamp(value: Any) -> int:
    if type(value) in {int, float} or (type(value) is str and not is_time_text(value)):
        raise MisfitError
    return _timestamp(value)


def _microseconds(moment: datetime) -> int:
    past = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH
    return (past.days * 86_400 + past.seconds) * _US + past.microseconds


def _day(value: Any) -> date:
    if type(value) is not str:
        raise MisfitError
    day: date = _parsed(date, value)
    return day


def _parsed(kind: Any, text: str) -> Any:
    try:
        return kind.fromisoformat(text)
    except ValueError as error:
        raise MisfitError from error


def _array(fit: Fit) -> Fit:
    def fit_all(value: Any) -> list[Any]:
        if type(value) is not list:
            raise MisfitError
        return [None if item is None else fit(item) for item in value]

    return fit_all


def _map(fit: Fit) -> Fit:
    def fit_all(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not dict or any(type(key) is not str for key in value):
            raise MisfitError
        return [(key, None if item is None else fit(item)) for key, item in value.items()]

    return fit_all


def _struct(fits: dict[str, Fit], *, whole: bool) -> Fit:
    def fit_all(value: Any) -> dict[str, Any]:
        if type(value) is not dict or (whole and not value.keys() <= fits.keys()):
            raise MisfitError
        return {name: None if (item := value.get(name)) is None else fit(item) for name, fit in fits.items()}

    return fit_all


_PLAIN: dict[type[DataType], Fit] = {
    StringType: _text,
    BooleanType: _exactly(bool),
    BinaryType: _exactly(bytes),
    DoubleType: _real,
    FloatType: _real,
    TimestampType: _timestamp,
    DateType: _day,
}


# Of which types the fields of messages are, from messages that were seen.


_SCALARS: dict[type, str] = {
    bool: "BOOLEAN",
    float: "DOUBLE",
    bytes: "BINARY",
    datetime: "TIMESTAMP",
    Moment: "TIMESTAMP",
    dict: "STRING",
}
_NUMBERS = frozenset({"BIGINT", "DOUBLE"})
# Kinds that go together: the last of them by this order holds the others.
_FAMILIES = (_NUMBERS, frozenset({"ARRAY<BIGINT>", "ARRAY<DOUBLE>"}))

_ORDER = ("BIGINT", "DOUBLE", "ARRAY<BIGINT>", "ARRAY<DOUBLE>")
_BIGINT = 1 << 63


# Text that is a time: TIMESTAMP where a field has no other text, else STRING.
_TIME_TEXT = "TIME TEXT"


def kind_of(value: Any) -> str:
    kind = type(value)
    if kind is int:
        return "BIGINT" if -_BIGINT <= value < _BIGINT else ""
    if kind is list:
        return _array_kind(value)
    if kind is str:
        return _TIME_TEXT if is_time_text(value) else "STRING"
    return _SCALARS.get(kind, "")


def _array_kind(items: list[Any]) -> str:
    present = [item for item in items if item is not None]
    if not present:
        return ""
    if any(type(item) in {dict, list} for item in present):
        return "STRING"
    kinds = {"STRING" if type(item) is str else kind_of(item) for item in present}
    if kinds <= _NUMBERS:
        return "ARRAY<DOUBLE>" if "DOUBLE" in kinds else "ARRAY<BIGINT>"
    kind = kinds.pop()
    return "STRING" if kinds or not kind else f"ARRAY<{kind}>"


class Inference:
    """Counts the kinds of fields."""

    def __init__(self, seen: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.seen: dict[str, Counter[str]] = {name: Counter(kinds) for name, kinds in (seen or {}).items()}

    def add(self, messages: Iterable[Any]) -> None:
        """Look at messages; only maps have fields.

        Maps with the same fields are looked at column by column, for most have values of one type in each.
        """
        shapes: dict[tuple[Any, ...], list[Any]] = {}
        for message in messages:
            if type(message) is dict and message:
                shapes.setdefault(tuple(message), []).append(message.values())
        for names, rows in shapes.items():
            for name, column in zip(names, zip(*rows, strict=True), strict=True):
                if type(name) is str:
                    self._add_column(name, column)

    def _add_column(self, name: str, values: tuple[Any, ...]) -> None:
        kinds: Counter[str] = Counter()
        for kind, count in Counter(map(type, values)).items():
            if kind in _SCALARS:
                kinds[_SCALARS[kind]] += count
            else:
                kinds.update(_kinds([value for value in values if type(value) is kind]))
        kinds = +kinds
        del kinds[""]
        if kinds:
            self.seen.setdefault(name, Counter()).update(kinds)

    def merge(self, other: Inference) -> None:
        for name, kinds in other.seen.items():
            self.seen.setdefault(name, Counter()).update(kinds)

    def kinds(self) -> dict[str, str]:
        """Return the kind of each field, in the order of their appearance."""
        return {name: _most(kinds) for name, kinds in self.seen.items()}


def _kinds(values: list[Any]) -> Counter[str]:
    """Return how many values of one type are of which kind."""
    if type(values[0]) is int and min(values) >= -_BIGINT and max(values) < _BIGINT:
        return Counter({"BIGINT": len(values)})
    if type(values[0]) is str and not is_time_text(values[0]):
        times = sum(1 for value in values if value[10:11] == "T" and is_time_text(value))
        return Counter({"STRING": len(values) - times, _TIME_TEXT: times})
    return Counter(map(kind_of, values))


def _most(kinds: Counter[str]) -> str:
    kinds = Counter(kinds)
    if times := kinds.pop(_TIME_TEXT, 0):
        kinds["STRING" if "STRING" in kinds else "TIMESTAMP"] += times
    families: Counter[frozenset[str]] = Counter()
    for kind, count in kinds.items():
        families[next((family for family in _FAMILIES if kind in family), frozenset({kind}))] += count
    chosen = min(families, key=lambda family: (-families[family], sorted(family)))
    present = chosen & kinds.keys()
    return max(present, key=_ORDER.index) if len(present) > 1 else next(iter(present))


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
    if kind.startswith("ARRAY<"):
        return ArrayType(_KINDS[kind[6:-1]])
    return _KINDS[kind]


def fields_schema(kinds: Mapping[str, str]) -> StructType:
    """Return the columns of inferred fields, except those whose name, without case, a column has already."""
    columns = [StructField(name, RECORD_COLUMNS[name]) for name in ("offset", "timestamp", "topic")]
    taken = set(RECORD_COLUMNS)
    for name, kind in kinds.items():
        if name and name.lower() not in taken:
            taken.add(name.lower())
            columns.append(StructField(name, type_of(kind)))
    return StructType(columns)


def default_schema(decode: Decode) -> StructType:
    return StructType([StructField(name, _type_of(name, decode)) for name in RECORD_COLUMNS])


def _type_of(name: str, decode: Decode) -> DataType:
    return StringType() if name == "value" and decode == "json" else RECORD_COLUMNS[name]


def is_field(column: StructField) -> bool:
    return column.name not in RECORD_COLUMNS


def checked_schema(schema: StructType, decode: Decode) -> StructType:
    """Return a user's schema; raise `ColumnError` if it cannot be read."""
    for column in schema.fields:
        name, kind = column.name, column.dataType
        if not is_field(column):
            wanted = _type_of(name, decode)
            if kind != wanted:
                is_text = name == "value" and decode == "raw" and isinstance(kind, StringType)
                hint = "; option decode=json gives its JSON text" if is_text else ""
                raise ColumnError(f"column {name} is {_sql(wanted)}, not {_sql(kind)}{hint}")
        elif decode == "raw":
            near = difflib.get_close_matches(name.lower(), RECORD_COLUMNS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ColumnError(
                f"there is no column {name}: {hint}there are {', '.join(RECORD_COLUMNS)}; "
                "with option decode=schema, other columns are fields of the messages"
            )
        elif not column.nullable:
            raise ColumnError(f"column {name}: a message may lack the field, so that it cannot be NOT NULL")
    return schema


def _sql(kind: DataType) -> str:
    return kind.simpleString().upper()
