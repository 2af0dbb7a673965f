"""`Histogram`: latencies in buckets of equal relative width, in bounded memory whatever they are.

```
value (ns)       0  1 ... 255 | 256 257  258 259 ... | 512 ... 515  516 ... 519 ...     a power of two has 128 buckets
top of bucket    0  1 ... 255 |     257      259 ... |         515          519 ...
```

A percentile is at most 1/128 (0.8 %) above the true value, and never above the largest one, which is kept exactly.

Owner of the state: whoever made it. Cost: O(1) to record; a few thousand buckets at most, as values are below 2^64.
"""

from __future__ import annotations

from collections import Counter

__all__ = ["Histogram"]

_STEP_BITS = 7
"""There are 128 steps for each power of two, as in HdrHistogram with two significant digits."""


class Histogram:
    """Counts of values, which are whole numbers.

    Attributes:
        total: How many values were recorded.
        sum: Their sum.
        largest: The largest of them.
    """

    __slots__ = ("_counts", "largest", "sum", "total")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        """How many values each bucket has, by its top."""
        self.total = self.sum = self.largest = 0

    def record(self, value: int) -> None:
        """Count `value`; a negative one counts as 0 (two clocks never agree to the last nanosecond)."""
        value = max(value, 0)
        shift = max(0, value.bit_length() - _STEP_BITS - 1)
        self._counts[((value >> shift) + 1 << shift) - 1] += 1
        self.total += 1
        self.sum += value
        self.largest = max(self.largest, value)

    def add(self, other: Histogram) -> None:
        """Count everything that `other` has counted, too."""
        self._counts.update(other._counts)
        self.total += other.total
        self.sum += other.sum
        self.largest = max(self.largest, other.largest)

    def percentile(self, percent: float) -> int:
        """Return a value that `percent` (0 to 100) of all values do not exceed; 0 if nothing was recorded."""
        # This is exact arithmetic: 99.9 % of 1,000 values are 999 of them, whatever binary fractions say.
        wanted = max(1, -(-round(percent * 1_000_000) * self.total // 100_000_000))
        seen = 0
        for top, count in self.buckets():
            seen += count
            if seen >= wanted:
                return min(top, self.largest)
        return 0

    @property
    def mean(self) -> float:
        """The mean, exactly; 0 if nothing was recorded."""
        return self.sum / self.total if self.total else 0.0

    def buckets(self) -> list[tuple[int, int]]:
        """Return the largest value and the count of each bucket that is not empty, in ascending order."""
        return sorted(self._counts.items())
