"""`Histogram`: how often something was how large, in a few buckets with fixed bounds.

Owner: whoever measures. No clock: what is observed is an argument. Invariants: counts only grow, and their sum is how
often something was observed; what is as large as a bound counts to the bucket that it closes, as Prometheus has it.

Cost: a binary search and two additions, about 0.2 µs, for each observation; memory for as many numbers as there are
bounds. Not here: the Prometheus form (`peers.node.metrics`), percentiles of a benchmark (`peers.bench`).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

__all__ = ["Histogram", "HistogramStatistics"]


class HistogramStatistics(NamedTuple):
    """A histogram at one moment."""

    bounds: tuple[float, ...]
    """The largest value of each bucket but the last one, which has none."""
    counts: tuple[int, ...]
    """How many values fell into each bucket, one more than there are bounds."""
    total: float
    """All values added up."""


class Histogram:
    """Values by their size.

    Args:
        bounds: Upper bounds of the buckets, ascending; what is above the last one has a bucket of its own.
    """

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def statistics(self) -> HistogramStatistics:
        """Return what was counted so far."""
        return HistogramStatistics(self._bounds, tuple(self._counts), self._total)
