"""Round widths of time: of buckets, and of the marks on an axis. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["BUCKETS_WISHED", "bucket_for", "time_ticks"]

BUCKETS_WISHED = 240
"""Buckets over the whole time if nobody says how wide they are to be: three pixels each in a drawing."""

_MARKS = 7
_SECOND_US = 1_000_000
_DAY_S = 86_400
_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, _DAY_S)


def bucket_for(length_us: int) -> int:
    """Return a round width of buckets, µs, for a stretch of time."""
    return _width_s(length_us, BUCKETS_WISHED) * _SECOND_US


def _width_s(length_us: int, parts: int) -> int:
    """Return the least round width of which not more than `parts` are as long as that; whole days in the end."""
    least_s = length_us / _SECOND_US / parts
    return next((width for width in _WIDTHS_S if width >= least_s), -int(-least_s // _DAY_S) * _DAY_S)


def time_ticks(start_us: int, end_us: int) -> list[tuple[float, str]]:
    """Return marks on an axis of time: seconds after its start, and what is written there."""
    width_s = _width_s(end_us - start_us, _MARKS)
    written = "%H:%M:%S" if width_s < 60 else "%H:%M" if width_s < _DAY_S else "%Y-%m-%d"
    start_s, end_s = start_us / _SECOND_US, end_us / _SECOND_US
    first = int(-(-start_s // width_s)) * width_s
    return [
        (at - start_s, f"{datetime.fromtimestamp(at, UTC):{written}}") for at in range(first, int(end_s) + 1, width_s)
    ]
