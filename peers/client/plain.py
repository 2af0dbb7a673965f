"""Whether a value travels unchanged: msgspec would turn a UUID into text and a set into a list, silently.

The check costs about a tenth of the encoding with the compiled twin, and as much as the encoding without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any
from uuid import UUID

import msgpack
import msgspec

_SCALARS = frozenset({NoneType, bool, int, float, str, bytes})

_CONVERTED = (Enum, Decimal, UUID, set, frozenset, date, time, timedelta, msgpack.ExtType)
"""What msgspec turns into something else."""


def pure_is_plain(value: object) -> bool:
    """Return whether a value and all that it holds are of the types that msgpack itself has.

    Those are None, bool, int, float, str, bytes, list, tuple and dict, but no subclasses. The value must not hold
    itself.
    """
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind is dict:
            waiting += each
            waiting += each.values()
        elif kind is list or kind is tuple:
            waiting += each
        elif kind not in _SCALARS:
            return False
    return True


def check_convertible(value: object) -> None:
    """Check that nothing in a value would arrive as another type.

    Raises:
        TypeError: Something would, or is a `datetime` without a zone; the text says what to write instead.
    """
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        match each:
            case datetime() if each.tzinfo is None:
                raise TypeError(f"{each!r} has no zone: give it one, as datetime.now(UTC) or value.astimezone() have")
            case datetime():
                pass
            case _ if isinstance(each, _CONVERTED):
                raise TypeError(f"{_shown(each)} would become another type: convert it, as by {_advice(each)}")
            case _:
                waiting += _held(each)


def _held(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, msgspec.Struct):
        return (getattr(value, name) for name in value.__struct_fields__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, field.name) for field in dataclasses.fields(value))
    return ()


def _shown(value: object) -> str:
    return f"{type(value).__name__} {str(value)[:80]!r}"


def _advice(value: object) -> str:
    match value:
        case Enum():
            return "value.value"
        case set() | frozenset():
            return "sorted(value)"
        case timedelta():
            return "value.total_seconds()"
        case date() | time():
            return "value.isoformat()"
        case msgpack.ExtType():
            return "msgspec.msgpack.Ext(value.code, value.data)"
        case _:
            return "str(value)"


try:
    from peers.client._plain import is_plain as is_plain  # noqa: PLC0414 -- for importers
except ImportError:  # not built: no compiler was there
    is_plain = pure_is_plain
