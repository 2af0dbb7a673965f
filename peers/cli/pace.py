"""Pace: when each message of a replay is due.

```
record ─▶ Pace.pause_s(record) ─▶ Schedule.wait_s(pause, now) ─▶ sleep so long, 0 or less: send at once
```

`Rate` spaces messages evenly. `Recorded` keeps the pauses of the recording, divided by a factor. Real recordings are
not in order: long connections are written when they end, several writers interleave, a clock jumps. So `Recorded`
holds the latest time seen; earlier records follow without a pause, and a single pause is never longer than
`max_pause_s`. Where several records in a row lie far back, it was the clock that had jumped, and it is set back.

Knows no clock: times are arguments, in seconds. Owner: one replay. Cost: O(1) a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from hub.topics import printable
from peers.cli.template import FieldError

__all__ = ["MAX_PAUSE_S", "TIME_FIELDS", "Pace", "Rate", "Recorded", "Schedule", "time_s"]

TIME_FIELDS = ("ts", "_write_ts")
"""Where Zeek puts the time of an event, and the time at which it was written."""

MAX_PAUSE_S = 60.0
"""Default of the longest single pause: a night without traffic need not be sat through."""

_CATCH_UP_S = 1.0
"""How far a replay may run after its schedule and still catch up; what is beyond was a stall, and is forgotten."""

_FAR_BACK_S = 86_400.0
"""Records this much before the latest one are not just late: few connections last a day."""

_FAR_BACK_RECORDS = 8
"""So many of them in a row are the true time."""


class Pace(Protocol):
    """A rule that says how long a message is due after the one before it."""

    def pause_s(self, record: Mapping[str, Any]) -> float:
        """Return how long after the message before it this record is due, seconds, 0 or more.

        Raises:
            FieldError: The record bears no time.
        """

    def restart(self) -> None:
        """Forget the records so far, as the recording begins anew."""


class Rate:
    """The rule that so many messages are sent in each second.

    Args:
        messages_per_s: Above 0.
    """

    __slots__ = ("_pause_s",)

    def __init__(self, messages_per_s: float) -> None:
        self._pause_s = 1 / messages_per_s

    def pause_s(self, _: Mapping[str, Any]) -> float:
        """Return the same for every record."""
        return self._pause_s

    def restart(self) -> None:
        """Do nothing: the rule looks at no record."""


class Recorded:
    """The rule that the pauses are those of the recording, in the time of this replay.

    Args:
        speed: By how much faster than recorded, above 0.
        fields: Where the time stands: the first of these that a record has.
        max_pause_s: Longest single pause, seconds as they pass here.
    """

    __slots__ = ("_back_records", "_fields", "_latest_s", "_max_pause_s", "_speed")

    def __init__(
        self, speed: float = 1.0, fields: tuple[str, ...] = TIME_FIELDS, max_pause_s: float = MAX_PAUSE_S
    ) -> None:
        self._speed = speed
        self._fields = fields
        self._max_pause_s = max_pause_s
        # The latest time of all records so far; None before the first. It goes back where the clock had jumped.
        self._latest_s: float | None = None
        # How many records in a row lie far behind that.
        self._back_records = 0

    def pause_s(self, record: Mapping[str, Any]) -> float:
        """Return the pause before this record; raises `FieldError` if it bears no time."""
        at_s = self._time_s(record)
        latest_s = self._latest_s
        if latest_s is None:
            self._latest_s = at_s
            return 0.0
        if at_s > latest_s:
            self._latest_s = at_s
            self._back_records = 0
            return min((at_s - latest_s) / self._speed, self._max_pause_s)
        self._back_records = self._back_records + 1 if latest_s - at_s > _FAR_BACK_S else 0
        if self._back_records >= _FAR_BACK_RECORDS:
            self._latest_s = at_s
            self._back_records = 0
        return 0.0

    def restart(self) -> None:
        """Forget the records so far, as the recording begins anew."""
        self._latest_s = None
        self._back_records = 0

    def _time_s(self, record: Mapping[str, Any]) -> float:
        for field in self._fields:
            value = record.get(field)
            if value is not None:
                return time_s(value, field)
        raise FieldError(self._fields[0], "is missing, it bears the time; name another with --time-field")


class Schedule:
    """Turns pauses into waits, so that delays do not add up.

    Args:
        now_s: Any clock that does not go back.
    """

    __slots__ = ("_due_s",)

    def __init__(self, now_s: float) -> None:
        # When the last message was due, but never so long ago that it could not be caught up with.
        self._due_s = now_s

    def wait_s(self, pause_s: float, now_s: float) -> float:
        """Return how long to wait now, seconds; 0 or less if the message is due."""
        self._due_s = max(self._due_s + pause_s, now_s - _CATCH_UP_S)
        return self._due_s - now_s


def time_s(value: object, field: str) -> float:
    """Read a time: RFC 3339 text (without an offset: UTC), or seconds since 1970 as a number or as text.

    Raises:
        FieldError: It is none of these.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
        try:
            return _finite(float(value))
        except ValueError:
            pass
    raise FieldError(field, f"is no time: {printable(str(value))}; RFC 3339 text or seconds since 1970 are")


def _finite(seconds: float) -> float:
    if seconds - seconds != 0:
        raise ValueError
    return seconds
