"""`Histogram` and `Measurement`: latencies in bounded memory, and the figures of one run of a stream.

Measurements are fields of the JSON that `hub bench` writes; its version is in `peers.bench.report`.
"""

from __future__ import annotations

from collections import Counter

import msgspec

_STEP_BITS = 7
"""There are 128 steps for each power of two, as in HdrHistogram with two significant digits."""


class Histogram:
    """Counts of whole numbers, their total, sum and largest."""

    __slots__ = ("_counts", "largest", "sum", "total")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.total = self.sum = self.largest = 0

    def record(self, value: int) -> None:
        """Count `value`, a negative one as 0 (two clocks never agree to the last nanosecond)."""
        value = max(value, 0)
        shift = max(0, value.bit_length() - _STEP_BITS - 1)
        self._counts[((value >> shift) + 1 << shift) - 1] += 1
        self.total += 1
        self.sum += value
        self.largest = max(self.largest, value)

    def add(self, other: Histogram) -> None:
        self._counts.update(other._counts)
        self.total += other.total
        self.sum += other.sum
        self.largest = max(self.largest, other.largest)

    def percentile(self, percent: float) -> int:
        """Return a value that `percent` (0 to 100) of all values do not exceed; 0 if nothing was recorded."""
        # Exact: 99.9 % of 1,000 values are 999 of them, although 99.9 is no binary fraction.
        wanted = max(1, -(-round(percent * 1_000_000) * self.total // 100_000_000))
        seen = 0
        for top, count in self.buckets():
            seen += count
            if seen >= wanted:
                return min(top, self.largest)
        return 0

    @property
    def mean(self) -> float:
        return self.sum / self.total if self.total else 0.0

    def buckets(self) -> list[tuple[int, int]]:
        """Return the largest value and the count of each bucket that is not empty, in ascending order."""
        return sorted(self._counts.items())


class Sample(msgspec.Struct, frozen=True):
    """Counters at one moment, in s since the first message."""

    at_s: float
    published: int
    delivered: int


class Latency(msgspec.Struct, frozen=True):
    """The time from when a message was to be sent to the end of the read that brought it, µs."""

    messages: int
    mean_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    p999_us: float
    max_us: float
    buckets: list[tuple[float, int]]

    @classmethod
    def of(cls, histogram: Histogram) -> Latency:
        """Return the figures of a histogram of ns."""
        p50, p90, p99, p999 = (histogram.percentile(percent) / 1000 for percent in (50, 90, 99, 99.9))
        buckets = [(top / 1000, count) for top, count in histogram.buckets()]
        return cls(histogram.total, histogram.mean / 1000, p50, p90, p99, p999, histogram.largest / 1000, buckets)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One run. MB are 1,000,000 bytes of values, without topics and headers."""

    published: int
    expected: int
    """`published` times subscribers."""
    delivered: int
    lost: int
    told: int
    out_of_order: int
    misrouted: int
    disconnected: int
    elapsed_s: float
    published_per_s: float
    delivered_per_s: float
    delivered_mb_per_s: float
    hub_cpu_s: float
    hub_cpu_percent: float
    us_per_message: float
    us_per_delivery: float
    """Hub CPU for each delivered message, µs; the field before: for each published one."""
    hub_memory_bytes: int
    hub_peak_bytes: int
    messages_per_read: float
    messages_per_write: float
    """0 if the hub's calls of `write` are not known."""
    publisher_busy_percent: float
    """The CPU of all publishers, in percent of one core; the next field is that of all subscribers."""
    subscriber_busy_percent: float
    window_wait_percent: float
    publisher_late_us: float
    """With a rate, how far behind its schedule a publisher was at worst."""
    latency: Latency | None = None
    samples: list[Sample] = []

    @property
    def flawless(self) -> bool:
        """Whether every message arrived once and in order."""
        return not (self.lost or self.out_of_order or self.misrouted or self.told) and self.delivered == self.expected
