"""`Selection`: which messages of an archive are meant, by topics and times. No Spark here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from hub.errors import UsageError
from hub.topics import check_prefix, printable

__all__ = ["EVERYTHING", "Selection", "microseconds"]


class Selection(NamedTuple):
    """Which messages of an archive are meant; all without any."""

    prefixes: Sequence[str] = ()
    """Topics that start with one of these; the empty sequence means all."""
    start: datetime | None = None
    """Not before it; UTC unless it says otherwise."""
    end: datetime | None = None
    """Before it; the same."""

    def check(self) -> Selection:
        """Return it if it can mean anything.

        Raises:
            UsageError: A prefix that no hub would take, or an end that is not after the start.
        """
        for prefix in self.prefixes:
            check_prefix(prefix)
        if self.start is not None and self.end is not None and microseconds(self.start) >= microseconds(self.end):
            raise UsageError(f"--start, --end: {self.start} is not before {self.end}")
        return self

    def words(self) -> str:
        """Say what is selected."""
        said = [f"topics that begin with {' or '.join(map(printable, self.prefixes))}"] if self.prefixes else []
        if self.start is not None:
            said.append(f"from {self.start.isoformat()} on")
        if self.end is not None:
            said.append(f"before {self.end.isoformat()}")
        return ", ".join(said) or "everything"


EVERYTHING = Selection()
"""All of an archive."""


def microseconds(time: datetime) -> int:
    """Return µs since 1970 UTC; a time without a zone is UTC."""
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(time.timestamp()) * 1_000_000 + time.microsecond
