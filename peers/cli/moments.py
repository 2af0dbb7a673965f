"""Times as the commands write and read them: RFC 3339 in UTC with microseconds, `2026-11-21T12:00:00.000137Z`.

One rule holds for all commands: a time without a zone is UTC. So what is written by one (`hub sub --from-offset`, `hub
journal export`) can be given to another (`--from-time`, `--start`, `--end`), on any machine.

Cost: 0.3 µs, 1 µs where the second is new.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from peers.cli.errors import FlagError

__all__ = ["moment", "time_us_of", "with_zone"]

_SECOND_US = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_us: int) -> str:
    """Return the text of a time that is given in µs since 1970 UTC."""
    seconds, rest_us = divmod(time_us, _SECOND_US)
    return f"{_second(seconds)}.{rest_us:06}Z"


@lru_cache(4096)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


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
    return (with_zone(given) - _EPOCH) // timedelta(microseconds=1)


def with_zone(given: datetime) -> datetime:
    """Return a time that has a zone: UTC where none was given."""
    return given if given.tzinfo else given.replace(tzinfo=UTC)
