"""`Histogram`: latencies in buckets of equal relative width, in constant memory whatever they are.

```
value (ns)   0 1 2 ... 255 | 256 258 ... 510 | 512 516 ... 1020 | ...     each power of two in 128 equal steps
bucket       0 1 2 ... 255 | 256 257 ... 383 | 384 ...
```

A percentile is at most 1/128 (0.8 %) above the true value, and never above the largest one, which is kept exactly.

Owner of the state: whoever made it. Cost: O(1) to record, about 34 KiB.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Histogram"]

_STEP_BITS = 7
"""128 steps for each power of two, as HdrHistogram with two significant digits."""

_STEPS = 1 << _STEP_BITS
_BUCKETS = 34 * _STEPS
"""Up to 2**40 ns, 18 minutes; what is above counts as that."""

_LIMIT = (1 << 40) - 1


class Histogram:
    """Counts of values, whole numbers from 0."""

    __slots__ = ("_counts", "largest", "smallest", "sum", "total")

    total: int
    """How many values were recorded."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.total = 0
        self.sum = 0
        self.largest = 0
        self.smallest = -1
        """-1 while nothing was recorded."""

    def record(self, value: int, times: int = 1) -> None:
        """Count `value`; a negative one counts as 0 (two clocks never agree to the last nanosecond)."""
        value = min(max(value, 0), _LIMIT)
        self._counts[bucket_of(value)] += times
        self.total += times
        self.sum += value * times
        self.largest = max(self.largest, value)
        self.smallest = value if self.smallest < 0 else min(self.smallest, value)

    def add(self, other: Histogram) -> None:
        """Count everything that `other` has counted, too."""
        self._counts = [one + another for one, another in zip(self._counts, other._counts, strict=True)]
        self.total += other.total
        self.sum += other.sum
        self.largest = max(self.largest, other.largest)
        if other.smallest >= 0:
            self.smallest = other.smallest if self.smallest < 0 else min(self.smallest, other.smallest)

    def percentile(self, percent: float) -> int:
        """Return a value that `percent` of all values do not exceed.

        Args:
            percent: 0 to 100.

        Returns:
            The top of a bucket, at most 0.8 % above the true value; 0 if nothing was recorded.
        """
        # Exact arithmetic: 99.9 % of 1,000 values are 999 of them, whatever binary fractions say.
        wanted = max(1, -(-round(percent * 1_000_000) * self.total // 100_000_000))
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(top_of(bucket), self.largest)
        return 0

    @property
    def mean(self) -> float:
        """The mean, exact; 0 if nothing was recorded."""
        return self.sum / self.total if self.total else 0.0

    def buckets(self) -> list[tuple[int, int]]:
        """The buckets that are not empty: largest value, count; in ascending order."""
        return [(top_of(bucket), count) for bucket, count in enumerate(self._counts) if count]

    def dump(self) -> Dumped:
        """What `load` makes the same histogram of; fit for JSON."""
        counts = [(bucket, count) for bucket, count in enumerate(self._counts) if count]
        return counts, self.sum, self.smallest, self.largest

    @classmethod
    def load(cls, dumped: Dumped) -> Histogram:
        """Make a histogram of what `dump` returned."""
        histogram = cls()
        counts: Iterable[tuple[int, int]]
        counts, histogram.sum, histogram.smallest, histogram.largest = dumped
        for bucket, count in counts:
            histogram._counts[bucket] = count
            histogram.total += count
        return histogram


Dumped = tuple[list[tuple[int, int]], int, int, int]
"""Buckets and their counts, the sum, the smallest and the largest value."""


def bucket_of(value: int) -> int:
    """Return the number of the bucket that counts `value`."""
    shift = max(0, value.bit_length() - _STEP_BITS - 1)
    return (shift << _STEP_BITS) + (value >> shift)


def top_of(bucket: int) -> int:
    """Return the largest value that is counted in `bucket`."""
    shift = max(0, (bucket >> _STEP_BITS) - 1)
    return ((bucket - (shift << _STEP_BITS) + 1) << shift) - 1
