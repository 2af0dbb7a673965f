"""`Inference`: of which types the fields of messages are, from messages that were seen.

| a field holds | kind |
|---|---|
| integers of 64 bits | BIGINT |
| reals, also among integers | DOUBLE |
| true and false; bytes | BOOLEAN; BINARY |
| timestamps of msgpack and of a Zeek | TIMESTAMP |
| RFC 3339 text, with a zone, and no other text | TIMESTAMP |
| text; other values of a Zeek that are text for browsers | STRING |
| arrays of one kind of these | ARRAY<...> |
| maps, and all other arrays: their JSON text | STRING |

Where values of a field do not go together (text and numbers), the kind that most of them have is taken. What is nil
tells nothing. A kind is the name of a type of Spark. No I/O, no Spark.

Owner: whoever looks at messages; what several have seen is put together with `merge`. Cost: 0.25 µs a field, beside
other work on the machine; more where no two messages have the same fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from peers.spark.connector.fields import Moment, is_time_text

_SCALARS: dict[type, str] = {
    bool: "BOOLEAN",
    float: "DOUBLE",
    bytes: "BINARY",
    datetime: "TIMESTAMP",
    Moment: "TIMESTAMP",
    dict: "STRING",
}
_NUMBERS = frozenset({"BIGINT", "DOUBLE"})
_FAMILIES = (_NUMBERS, frozenset({"ARRAY<BIGINT>", "ARRAY<DOUBLE>"}))
"""Kinds that go together: the last of them by this order holds the others."""

_ORDER = ("BIGINT", "DOUBLE", "ARRAY<BIGINT>", "ARRAY<DOUBLE>")
_BIGINT = 1 << 63


_TIME_TEXT = "TIME TEXT"
"""Text that is a time: TIMESTAMP where a field has no other text, else STRING."""


def kind_of(value: Any) -> str:
    """Return the kind of a value; empty for what has none: nil, empty arrays, integers of more than 64 bits."""
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
    """Counts kinds.

    Args:
        seen: Values of each kind, of each field.
    """

    def __init__(self, seen: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.seen: dict[str, Counter[str]] = {name: Counter(kinds) for name, kinds in (seen or {}).items()}

    def add(self, messages: Iterable[Any]) -> None:
        """Look at messages; what is no map has no fields.

        Those with the same fields are looked at column by column, for most have values of one type in each.
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
        """Put together what two have seen."""
        for name, kinds in other.seen.items():
            self.seen.setdefault(name, Counter()).update(kinds)

    def kinds(self) -> dict[str, str]:
        """Return the kind of each field, in the order in which they were seen."""
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
    """Return the kind of the family that most values have."""
    kinds = Counter(kinds)
    if times := kinds.pop(_TIME_TEXT, 0):
        kinds["STRING" if "STRING" in kinds else "TIMESTAMP"] += times
    families: Counter[frozenset[str]] = Counter()
    for kind, count in kinds.items():
        families[_family(kind)] += count
    chosen = min(families, key=lambda family: (-families[family], sorted(family)))
    present = chosen & kinds.keys()
    return max(present, key=_ORDER.index) if len(present) > 1 else next(iter(present))


def _family(kind: str) -> frozenset[str]:
    return next((family for family in _FAMILIES if kind in family), frozenset({kind}))
