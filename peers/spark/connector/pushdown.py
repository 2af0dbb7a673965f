"""Filters of a query that the hub can help with: which topics, from which offset or time on. No I/O.

Invariant: what is narrowed here holds every row that the filters let through; Spark checks them all again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

__all__ = ["Narrowing", "narrowing"]

_TOPICS_LIMIT = 1_000
"""Most topics of an IN that are told to the hub."""


class Narrowing(NamedTuple):
    """What is left to be read."""

    topics: tuple[str, ...]
    start: int = 0
    end: int | None = None
    since_ms: int | None = None
    """ms since 1970 UTC. There is no such end: where the hub's clock was set back, older records stand behind newer
    ones."""


def narrowing(filters: Sequence[Filter], topics: tuple[str, ...]) -> Narrowing:
    """Return what rows that pass all filters have in common.

    Args:
        filters: All must be true.
        topics: Prefixes that the options ask for.
    """
    found = Narrowing(topics)
    for each in filters:
        found = _narrowed(found, each)
    return found


def _narrowed(found: Narrowing, each: Filter) -> Narrowing:
    match each:
        case StringStartsWith(("topic",), str(prefix)):
            found = found._replace(topics=_both(found.topics, (prefix,)))
        case EqualTo(("topic",), str(topic)):
            found = found._replace(topics=_both(found.topics, (topic,)))
        case In(("topic",), values) if len(values) <= _TOPICS_LIMIT and all(type(value) is str for value in values):
            found = found._replace(topics=_both(found.topics, tuple(values)))
        case EqualTo(("offset",), int(offset)):
            found = _between(found, offset, offset + 1)
        case GreaterThan(("offset",), int(offset)):
            found = _between(found, offset + 1, None)
        case GreaterThanOrEqual(("offset",), int(offset)):
            found = _between(found, offset, None)
        case LessThan(("offset",), int(offset)):
            found = _between(found, 0, offset)
        case LessThanOrEqual(("offset",), int(offset)):
            found = _between(found, 0, offset + 1)
        case GreaterThan(("timestamp",), datetime() as moment) | GreaterThanOrEqual(
            ("timestamp",), datetime() as moment
        ):
            found = found._replace(since_ms=max(found.since_ms or 0, _milliseconds(moment)))
    return found


def _between(found: Narrowing, start: int, end: int | None) -> Narrowing:
    ends = [known for known in (found.end, end) if known is not None]
    return found._replace(start=max(found.start, start), end=min(ends, default=None))


def _both(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Return prefixes of the topics that have one of each; more may have them."""
    both = [
        max(one, other, key=len) for one in some for other in others if one.startswith(other) or other.startswith(one)
    ]
    return tuple(dict.fromkeys(both)) or others


def _milliseconds(moment: datetime) -> int:
    """Return the ms since 1970 UTC, rounded down, for Spark gives µs."""
    return int(moment.timestamp() * 1000)
