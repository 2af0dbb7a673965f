"""`Recent`: how fast the counters of each of many connections grow: now, and over the last ten minutes.

```
mark, every STEP_S: id → counters ─┬─▶ the last two marks ─▶ `rates`: since the older one, 5 to 10 s ago
                                   └─▶ `Rings`: a ring for each of the `KEPT` that did most ─▶ `behind`
```

No clock: times are arguments, seconds. Memory: up to 500 bytes for each connection, and 6 KB for each ring. Cost: 3 µs
a connection at each mark, in steps of `PART`. Not here: who looks, and when (`peers.node.pulse`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import chain, islice
from operator import sub
from typing import Any, Final, Generic, TypeVar

from hub.history import HEIGHTS, SPANS, Ring, rounded

__all__ = ["COUNTED", "KEPT", "PART", "STEP_S", "Counters", "Recent", "Rings"]

_SPAN: Final = SPANS[1]

STEP_S: Final = _SPAN.step_s
"""Time from one mark to the next, seconds."""

KEPT: Final = 256
"""How many connections, or topics, have a ring: those that do most."""

PART: Final = 256
"""How many are looked at in a turn: about 0.7 ms."""

COUNTED: Final = ("in_messages", "out_messages", "dropped_messages", "out_bytes", "queued_messages", "queued_bytes")
"""What is counted of a connection, as `hub.history.FIGURES` call it; the first three say how much it does."""

Counters = tuple[int, int, int, int, int, int]
"""The values of these."""

_NOTHING: Final[Counters] = (0, 0, 0, 0, 0, 0)

_LEAST_S: Final = 1.0
"""Over less than this no rate is told."""

K = TypeVar("K", int, str)
T = TypeVar("T")


class Rings(Generic[K]):
    """A ring for each of those, of many, that do most."""

    __slots__ = ("_figures", "_rings")

    def __init__(self, figures: Sequence[str]) -> None:
        self._figures = figures
        self._rings: dict[K, Ring] = {}

    def add(
        self, second: int, found: Iterable[tuple[float, K, T]], values: Callable[[T], Sequence[float]]
    ) -> Iterator[None]:
        """Take in what all were like, in steps; those that did least lose their rings, if there are too many.

        Args:
            second: Of the point.
            found: How much each did, by which they are compared, its key, and from what its values are made.
            values: Makes them: one for each figure.
        """
        busiest: list[tuple[float, K, T]] = []
        rest = iter(found)
        while part := list(islice(rest, PART)):
            # One that has a ring counts twice, so that two that are nearly alike do not take turns.
            weighed = ((did * 2 + 1 if key in self._rings else did, key, one) for did, key, one in part)
            busiest = nlargest(KEPT, chain(busiest, weighed))
            yield
        self._rings = {key: self._rings.get(key) or Ring(_SPAN, self._figures) for _, key, _ in busiest}
        for _, key, one in busiest:
            self._rings[key].add(second, values(one))

    def behind(self, key: K) -> dict[str, Any] | None:
        """Return the points of one, as `hub.history.History.behind` does; None if it has no ring."""
        ring = self._rings.get(key)
        return None if ring is None else ring.behind(None)


class Recent:
    """What each connection does, and has done lately."""

    __slots__ = ("_marks", "rings")

    def __init__(self) -> None:
        # The time and the counters of the last two marks, by the id of a connection.
        self._marks: deque[tuple[float, dict[int, Counters]]] = deque(maxlen=2)
        self.rings: Rings[int] = Rings(COUNTED)

    def mark(self, now_s: float, counted: Iterable[tuple[int, Counters]]) -> Iterator[None]:
        """Take note of what all have counted, in steps."""
        last_s, last = self._marks[-1] if self._marks else (now_s, {})
        known: dict[int, Counters] = {}

        def changes() -> Iterator[tuple[float, int, tuple[Counters, Counters]]]:
            for key, now in counted:
                before = last.get(key, _NOTHING)
                known[key] = before if before == now else now  # what is idle takes no further memory
                yield now[0] + now[1] + now[2] - before[0] - before[1] - before[2], key, (before, now)

        if now_s > last_s:
            second = math.floor(now_s) - 1  # of the step that is over
            yield from self.rings.add(second, changes(), lambda one: _rates(*one, now_s - last_s))
        else:
            deque(changes(), maxlen=0)
        self._marks.append((now_s, known))

    def rates(self, key: int, since_s: float, now: Counters, now_s: float) -> dict[str, float] | None:
        """Return what a connection does a second.

        Args:
            key: Its id.
            since_s: When it began.
            now: What it has counted until now.
            now_s: The time.

        Returns:
            By the names of `COUNTED`, without what waits; `offered_messages` came for it, whatever became of them.
            None in its first second. What was delivered can be less than before, since what waits may be dropped.
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
    """Return what each counter grew by in a second; of heights, how high they are."""
    return [
        other if name in HEIGHTS else max(0, other - one) / seconds
        for name, one, other in zip(COUNTED, before, now, strict=True)
    ]
