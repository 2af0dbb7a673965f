"""`Ring`, `Recent`: figures of the last ten minutes, of the whole hub, and of the connections and topics that do most.

```
each second: add(second, sample) ─▶ a ring of 600 points of 1 s
every 5 s:   mark, id → counters ─┬▶ the last two marks ─▶ `rates`: since the older one, 5 to 10 s ago
                                  └▶ Rings: a ring of 120 points of 5 s for each of the `KEPT` that did most
```

Point n begins n steps after the zero of the clock, so that points of several processes with one clock can be added up
(`merged`).
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain, islice
from operator import sub
from typing import Any, Final, Generic, NamedTuple, TypeVar


class Sample(NamedTuple):
    """Figures of the hub in one second, and its state at the end."""

    in_messages: float  # A second, from clients, other hubs and Zeeks
    in_bytes: float
    out_messages: float  # Written to them
    out_bytes: float
    dropped_messages: float  # Lost by them, for any reason
    queued_messages: float
    queued_bytes: float
    lag_s: float  # How late the event loop was
    cpu: float  # Processor time in a second, all threads: 1 is one processor
    memory_bytes: float
    connections: float


FIGURES: Final = Sample._fields

# Figures of which a point has the largest; of all others it has the mean
HEIGHTS: Final = frozenset({"queued_messages", "queued_bytes", "lag_s", "memory_bytes", "connections"})

# Figures of which several processes have the largest; of all others they have the sum
_LARGEST_OF_PROCESSES: Final = frozenset({"lag_s"})

_LATE: Final = 2  # How many points behind the others a process may be for them to wait for it


SPAN_S: Final = 600  # How far back the figures go

STEP_S: Final = 5  # Time from one mark of the counters of connections to the next

KEPT: Final = 256  # How many connections, or topics, have a ring: those that do most

PART: Final = 256  # How many are looked at in a turn: about 0.7 ms

# Counters of a connection, named as in `FIGURES`; the first three measure its activity
COUNTED: Final = ("in_messages", "out_messages", "dropped_messages", "out_bytes", "queued_messages", "queued_bytes")

Counters = tuple[int, int, int, int, int, int]  # The values of these

_NOTHING: Final[Counters] = (0, 0, 0, 0, 0, 0)

_LEAST_S: Final = 1.0  # Over less than this there is no rate

K = TypeVar("K", int, str)
T = TypeVar("T")


class Ring:
    """Points of a fixed length; the oldest makes room for the newest.

    A point is the mean of the seconds in it where the figure is a rate, and the largest of them where it is a height.
    Seconds that were not looked at are left out, and a point without any is not known.
    """

    __slots__ = ("_columns", "_figures", "_newest", "_points", "_seconds", "_step_s")

    def __init__(self, figures: Sequence[str] = FIGURES, step_s: int = 1) -> None:
        self._figures = figures
        self._step_s = step_s
        self._points = SPAN_S // step_s
        # For each figure its points, that with number n at n modulo their number; NaN where nothing is known.
        self._columns = [array("d", [math.nan]) * self._points for _ in figures]
        # The number of the newest point, to which further seconds may come; None before the first.
        self._newest: int | None = None
        # How many seconds there are in it so far.
        self._seconds = 0

    def add(self, second: int, sample: Sequence[float]) -> None:
        """Take in one second, or some of them together: a value for each figure."""
        number = second // self._step_s
        if self._newest is None or number > self._newest:
            self._begin(number)
        elif number < self._newest:
            return  # the clock went back: keep the newer point
        self._seconds += 1
        at = number % self._points
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
        points = self._points
        first = number - points + 1 if self._newest is None else max(self._newest + 1, number - points + 1)
        for one in range(first, number + 1):
            for column in self._columns:
                column[one % points] = math.nan
        self._newest, self._seconds = number, 0

    def behind(self, after: int | None = None) -> dict[str, Any]:
        """Return the points behind the one with a number, or all.

        Returns:
            A map: `step_s`, `points` (how many there are at most), `first` (the number of the first one that follows),
            `figures`: by the name of a figure its values, the newest last, None where it is not known. The newest point
            may change until its time is over.
        """
        points, newest = self._points, self._newest
        if newest is None:
            first, wanted = 0, range(0)
        else:
            oldest = newest - points + 1
            first = oldest if after is None else min(max(after + 1, oldest), newest + 1)
            wanted = range(first, newest + 1)
        return {
            "step_s": self._step_s,
            "points": points,
            "first": first,
            "figures": {
                name: [_known(column[one % points]) for one in wanted]
                for name, column in zip(self._figures, self._columns, strict=True)
            },
        }


class Rings(Generic[K]):
    """A ring for each of those, of many, that do most."""

    def __init__(self, figures: Sequence[str]) -> None:
        self._figures = figures
        self._rings: dict[K, Ring] = {}

    def add(
        self, second: int, found: Iterable[tuple[float, K, T]], values: Callable[[T], Sequence[float]]
    ) -> Iterator[None]:
        """Take in one point of all, in steps; those that did least lose their rings, if there are too many."""
        busiest: list[tuple[float, K, T]] = []
        rest = iter(found)
        while part := list(islice(rest, PART)):
            # One that has a ring counts twice, so that two that are nearly alike do not take turns.
            weighed = ((did * 2 + 1 if key in self._rings else did, key, one) for did, key, one in part)
            busiest = nlargest(KEPT, chain(busiest, weighed))
            yield
        self._rings = {key: self._rings.get(key) or Ring(self._figures, STEP_S) for _, key, _ in busiest}
        for _, key, one in busiest:
            self._rings[key].add(second, values(one))

    def behind(self, key: K) -> dict[str, Any] | None:
        ring = self._rings.get(key)
        return None if ring is None else ring.behind()


class Recent:
    """The rates of each connection, now and lately."""

    def __init__(self) -> None:
        # The time and the counters of the last two marks, by the id of a connection.
        self._marks: deque[tuple[float, dict[int, Counters]]] = deque(maxlen=2)
        self.rings: Rings[int] = Rings(COUNTED)

    def mark(self, now_s: float, counted: Iterable[tuple[int, Counters]]) -> Iterator[None]:
        last_s, last = self._marks[-1] if self._marks else (now_s, {})
        known: dict[int, Counters] = {}

        def changes() -> Iterator[tuple[float, int, tuple[Counters, Counters]]]:
            for key, now in counted:
                before = last.get(key, _NOTHING)
                known[key] = before if before == now else now  # idle connections share one tuple: no further memory
                yield now[0] + now[1] + now[2] - before[0] - before[1] - before[2], key, (before, now)

        if now_s > last_s:
            second = math.floor(now_s) - 1  # of the step that is over
            yield from self.rings.add(second, changes(), lambda one: _rates(*one, now_s - last_s))
        else:
            deque(changes(), maxlen=0)
        self._marks.append((now_s, known))

    def rates(self, key: int, since_s: float, now: Counters, now_s: float) -> dict[str, float] | None:
        """Return the rates of a connection, per second.

        Returns:
            By the names of `COUNTED`, without queues; `offered_messages` counts delivered and lost ones. None
            in its first second. `out_messages` can fall, since queued messages may be dropped.
        """
        marked_s, known = self._marks[0] if self._marks else (since_s, {})
        before = known.get(key)
        if before is None:  # it has come since then
            before, marked_s = _NOTHING, since_s
        seconds = now_s - marked_s
        if seconds < _LEAST_S:
            return None
        published, delivered, dropped, size_bytes, queued, _ = map(sub, now, before)
        return {
            "in_messages": rounded(published / seconds),
            "out_messages": rounded(max(0, delivered) / seconds),
            "dropped_messages": rounded(dropped / seconds),
            "out_bytes": rounded(size_bytes / seconds),
            "offered_messages": rounded(max(0, delivered + dropped + queued) / seconds),
        }


def _rates(before: Counters, now: Counters, seconds: float) -> list[float]:
    return [
        other if name in HEIGHTS else max(0, other - one) / seconds
        for name, one, other in zip(COUNTED, before, now, strict=True)
    ]


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the points of several processes together.

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
