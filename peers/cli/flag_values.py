"""Values of flags: numbers, sizes and times, checked in the same words for all commands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from hub.errors import UsageError


class FlagError(UsageError):
    """A flag or an argument that makes no sense, alone or beside others."""


_WIRE_LIMIT = 2**63 - 1
"""The largest number of the wire protocol."""


def check_count(flag: str, count: int | None) -> None:
    """Raise `FlagError` unless a count, if given, is 1 or more."""
    if count is None:
        return
    if count < 1:
        raise FlagError(f"{flag} {count}: give 1 or more")
    if count > _WIRE_LIMIT:
        raise FlagError(f"{flag} {count}: give {_WIRE_LIMIT} or less")


def check_positive(flag: str, number: float | None, unit: str = "", hint: str = "") -> None:
    """Raise `FlagError`, with a hint, unless a number, if given, is above 0 (not `nan`)."""
    if number is not None and not number > 0:
        raise FlagError(f"{flag} {number:g}: give more than 0{' ' * bool(unit)}{unit}{'; ' * bool(hint)}{hint}")


_SECOND_US = 1_000_000

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_us: int) -> str:
    """Return the text of a time in µs since 1970 UTC."""
    seconds, rest_us = divmod(time_us, _SECOND_US)
    return f"{_second(seconds)}.{rest_us:06}Z"


@lru_cache(4096)
def _second(seconds: int) -> str:
    return (_BEGIN + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


def time_us_of(flag: str, text: str) -> int:
    """Return a time in ISO 8601 as µs since 1970 UTC, or raise `FlagError`."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{flag} {text!r}: give an offset, or a time such as 2026-11-21T12:00:00Z"
        raise FlagError(problem) from None
    return (with_zone(given) - _BEGIN) // timedelta(microseconds=1)


def with_zone(given: datetime) -> datetime:
    """Return a time with a zone: UTC where none was given."""
    return given if given.tzinfo else given.replace(tzinfo=UTC)
