"""Fields of messages as typed columns: what fits, and as what (`decode=schema`).

| type | takes |
|---|---|
| STRING | text; of a Zeek's values those that are text for browsers: addresses, ports ...; JSON of maps and arrays |
| BIGINT, INT, SMALLINT, TINYINT | integers within its range |
| DOUBLE, FLOAT | reals, and integers that a DOUBLE holds exactly |
| BOOLEAN | true and false |
| BINARY | bytes |
| TIMESTAMP | timestamps, RFC 3339 text, seconds since 1970 UTC |
| DATE | text such as 2026-11-21 |
| ARRAY, MAP<STRING, ...>, STRUCT | arrays and maps whose items fit |

What does not fit is NULL, and counted. No I/O, no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
    StructType,
    TimestampType,
)

from peers.spark.connector.errors import ColumnError

Fit = Callable[[Any], Any]
"""Returns what Arrow takes for a value that is not None."""

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}

_EXACT = 1 << 53
"""Beyond it, reals pass over integers."""

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
    """A time of a Zeek: its text, RFC 3339 with nanoseconds, which a column of STRING takes as well as TIMESTAMP."""

    __slots__ = ()


class MisfitError(ValueError):
    """A value is not of the type of its column."""


def json_text(value: Any) -> str:
    """Return a value of a message as JSON: bytes as base64, times as RFC 3339.

    Raises:
        MisfitError: It has no such form.
    """
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MisfitError from error


def fit_of(name: str, kind: DataType, *, whole: bool = False, strict_times: bool = False) -> Fit:
    """Return what brings values into a type.

    Args:
        name: Of the column, for errors.
        kind: Its type.
        whole: Whether a map with more than a STRUCT has a place for does not fit, rather than losing it.
        strict_times: Whether a TIMESTAMP takes only timestamps and RFC 3339 text with a zone.

    Raises:
        ColumnError: There are no values of that type.
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
