"""`History`: what the hub as a whole has done, over the last minute, ten minutes, hour and day.

```
add(second, sample) ─▶ 1m   60 points of   1 s ─┐
                       10m 120 points of   5 s  ├─ a ring each: the oldest point makes room for the newest
                       1h  120 points of  30 s  │
                       1d  288 points of 300 s ─┘
```

Points are numbered by the clock that `add` is given: point n of a span begins n steps after the zero of that clock. So
points of several processes with one clock belong together where their numbers agree, and `merged` adds them up.

A point is the mean of the seconds in it where the figure is a rate, and the largest of them where it is a height
(`HEIGHTS`): a queue that was full for a second is seen in the day, too. Seconds that were not looked at are left out,
and a point without any is not known.

Owner: whoever looks once a second. No clock, no I/O. Memory: 588 points of eight bytes for each of the eleven figures,
`SIZE_BYTES`, however many connections and messages there are. Cost: some 10 µs a second. Not here: where samples come
from (`peers.node.pulse`), how it is asked (`peers.admin.history`).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["FIGURES", "HEIGHTS", "SIZE_BYTES", "SPANS", "History", "Ring", "Sample", "Span", "merged", "rounded"]


class Sample(NamedTuple):
    """What the hub did in one second, and how it stood at the end of it."""

    in_messages: float
    """Messages that were taken from clients, other hubs and Zeeks, in a second."""
    in_bytes: float
    out_messages: float
    """Messages that were written to them."""
    out_bytes: float
    dropped_messages: float
    """Messages that they lost, for whatever reason."""
    queued_messages: float
    queued_bytes: float
    lag_s: float
    """How late the event loop was, seconds: how long somebody waits for it who does not wait for anybody else."""
    cpu: float
    """Processor time in a second, all threads: 1 is one processor."""
    memory_bytes: float
    connections: float


FIGURES: Final = Sample._fields

HEIGHTS: Final = frozenset({"queued_messages", "queued_bytes", "lag_s", "memory_bytes", "connections"})
"""Figures of which a point has the largest; of all others it has the mean."""

_LARGEST_OF_PROCESSES: Final = frozenset({"lag_s"})
"""Figures of which several processes have the largest; of all others they have the sum."""


_LATE: Final = 2
"""How many points behind the others a process may be for them to wait for it."""


class Span(NamedTuple):
    """How far back a ring goes, and how finely."""

    name: str
    step_s: int
    points: int


SPANS: Final = (Span("1m", 1, 60), Span("10m", 5, 120), Span("1h", 30, 120), Span("1d", 300, 288))

SIZE_BYTES: Final = sum(span.points for span in SPANS) * len(FIGURES) * array("d").itemsize
"""What all rings take: 51,744 bytes."""


class Ring:
    """The points of one span.

    Args:
        span: Which.
        figures: What is known of each point, some of `FIGURES`.
    """

    __slots__ = ("_columns", "_figures", "_newest", "_seconds", "_span")

    def __init__(self, span: Span, figures: Sequence[str] = FIGURES) -> None:
        self._span = span
        self._figures = figures
        # For each figure its points, that with number n at n modulo their number; NaN where nothing is known.
        self._columns = [array("d", [math.nan]) * span.points for _ in figures]
        # The number of the newest point, to which further seconds may come; None before the first.
        self._newest: int | None = None
        # How many seconds there are in it so far.
        self._seconds = 0

    def add(self, second: int, sample: Sequence[float]) -> None:
        """Take in what one second was like, or some of them together: a value for each figure."""
        number = second // self._span.step_s
        if self._newest is None or number > self._newest:
            self._begin(number)
        elif number < self._newest:
            return  # a clock that goes back: what is newer stays
        self._seconds += 1
        at = number % self._span.points
        for name, column, value in zip(self._figures, self._columns, sample, strict=True):
            before = column[at]
            if math.isnan(before):
                column[at] = value
            elif name in HEIGHTS:
                column[at] = max(before, value)
            else:
                column[at] = before + (value - before) / self._seconds

    def _begin(self, number: int) -> None:
        """Make room for a point, and for those between it and the newest, of which nothing is known."""
        points = self._span.points
        first = number - points + 1 if self._newest is None else max(self._newest + 1, number - points + 1)
        for one in range(first, number + 1):
            for column in self._columns:
                column[one % points] = math.nan
        self._newest, self._seconds = number, 0

    def behind(self, after: int | None) -> dict[str, Any]:
        """Return the points behind the one with a number, or all: see `History.behind`."""
        span, newest = self._span, self._newest
        if newest is None:
            first, wanted = 0, range(0)
        else:
            oldest = newest - span.points + 1
            first = oldest if after is None else min(max(after + 1, oldest), newest + 1)
            wanted = range(first, newest + 1)
        return {
            "span": span.name,
            "step_s": span.step_s,
            "points": span.points,
            "first": first,
            "figures": {
                name: [_known(column[one % span.points]) for one in wanted]
                for name, column in zip(self._figures, self._columns, strict=True)
            },
        }


class History:
    """The rings of all spans."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        self._rings = {span.name: Ring(span) for span in SPANS}

    def add(self, second: int, sample: Sample) -> None:
        """Take in what one second was like.

        Args:
            second: Its number, by a clock that does not go back.
            sample: What is known of it.
        """
        for ring in self._rings.values():
            ring.add(second, sample)

    def behind(self, span: str, after: int | None = None) -> dict[str, Any]:
        """Return what is known of a span.

        Args:
            span: The name of one of `SPANS`.
            after: Points up to this number are left out.

        Returns:
            A map: `span`, `step_s`, `points` (how many there are at most), `first` (the number of the first one that
            follows), `figures`: by the name of a figure its values, the newest last, None where it is not known. The
            newest point may change until its time is over.
        """
        return self._rings[span].behind(after)


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several processes have done together, from what each returns of the same span.

    Points that one of them has not come to yet are left out, so that no sum lacks one; unless it is `_LATE` points
    behind, and may not come to them at all.
    """
    names = list(parts[0]["figures"])
    ends = [part["first"] + len(part["figures"][names[0]]) for part in parts]
    end = min(one for one in ends if one >= max(ends) - _LATE)
    first = min((part["first"] for part, one in zip(parts, ends, strict=True) if one), default=0)
    first = min(max(first, end - parts[0]["points"]), end)
    figures = {name: [_together(parts, name, number) for number in range(first, end)] for name in names}
    return {**parts[0], "first": first, "figures": figures}


def _together(parts: Sequence[Mapping[str, Any]], name: str, number: int) -> float | None:
    found = []
    for part in parts:
        values, at = part["figures"][name], number - part["first"]
        if 0 <= at < len(values) and values[at] is not None:
            found.append(values[at])
    put_together: Callable[[list[float]], float] = max if name in _LARGEST_OF_PROCESSES else sum
    return rounded(put_together(found)) if found else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else rounded(value)


def rounded(value: float) -> float:
    """Return a value that is written in few characters: six decimals are microseconds."""
    return int(value) if value == int(value) else round(value, 6 if abs(value) < 1 else 1)
