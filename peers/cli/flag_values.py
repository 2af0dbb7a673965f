"""What flags hold: numbers, sizes and times, checked in the same words for all commands; `FlagError` where they do not.

One rule holds for all commands: a time without a zone is UTC. So what is written by one can be given to another, on any
machine. Not a number (`nan`) is within no range.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from hub.errors import UsageError
from hub.sizes import parse_size


class FlagError(UsageError):
    """A flag or an argument that makes no sense, alone or beside others."""


_WIRE_LIMIT = 2**63 - 1
"""The largest number that a hub can be asked for."""


def check_count(flag: str, count: int | None) -> None:
    """Check that a count is 1 or more, where one was given.

    Raises:
        FlagError: It is not.
    """
    if count is None:
        return
    if count < 1:
        raise FlagError(f"{flag} {count}: give 1 or more")
    if count > _WIRE_LIMIT:
        raise FlagError(f"{flag} {count}: give {_WIRE_LIMIT} or less")


def check_positive(flag: str, number: float | None, unit: str = "", hint: str = "") -> None:
    """Check that a number is above 0, where one was given.

    Args:
        flag: What it was given to.
        number: The number.
        unit: What it counts, such as "seconds".
        hint: What else helps, after a semicolon.

    Raises:
        FlagError: It is not.
    """
    if number is not None and not number > 0:
        raise FlagError(f"{flag} {number:g}: give more than 0{' ' * bool(unit)}{unit}{'; ' * bool(hint)}{hint}")


def size_of(flag: str, text: str) -> int:
    """Return how many bytes a text such as `64MiB` means.

    Raises:
        FlagError: It means none, or less than 1.
    """
    try:
        size_bytes = parse_size(text)
    except ValueError as error:
        raise FlagError(f"{flag} {text!r}: {error}") from error
    if size_bytes < 1:
        raise FlagError(f"{flag} {text!r}: give 1 or more")
    if size_bytes > _WIRE_LIMIT:
        raise FlagError(f"{flag} {text!r}: give {_WIRE_LIMIT} bytes or less")
    return size_bytes


_SECOND_US = 1_000_000

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_us: int) -> str:
    """Return the text of a time that is given in µs since 1970 UTC."""
    seconds, rest_us = divmod(time_us, _SECOND_US)
    return f"{_second(seconds)}.{rest_us:06}Z"


@lru_cache(4096)
def _second(seconds: int) -> str:
    return (_BEGIN + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


def time_us_of(flag: str, text: str) -> int:
    """Return the time that a text names; without a zone it is UTC.

    Args:
        flag: What it was given to, for the error.
        text: A date, or a date and a time, as ISO 8601 and RFC 3339 have them.

    Returns:
        µs since 1970 UTC.

    Raises:
        FlagError: The text names none.
    """
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{flag} {text!r}: give an offset, or a time such as 2026-11-21T12:00:00Z"
        raise FlagError(problem) from None
    return (with_zone(given) - _BEGIN) // timedelta(microseconds=1)


def with_zone(given: datetime) -> datetime:
    """Return a time that has a zone: UTC where none was given."""
    return given if given.tzinfo else given.replace(tzinfo=UTC)
