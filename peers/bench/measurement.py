"""`Measurement`: the figures of one run of a stream, and how they follow from what was counted.

Measurements are frozen values, and fields of the JSON that `hub bench` writes: fields may be added, and one that
changes its meaning raises the version in `peers.bench.report`.

Not here: what several runs show together, which is in `peers.bench.stream`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from peers.bench.histogram import Histogram
from peers.bench.publisher import Published
from peers.bench.subscriber import Reported
from peers.bench.usage import Usage

__all__ = ["Latency", "Measurement", "Sample", "Window", "measured"]


class Sample(msgspec.Struct, frozen=True):
    """The run at one moment."""

    at_s: float
    """Time since the first message."""
    published: int
    delivered: int
    hub_cpu_s: float


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
    """The largest value (µs) and the count of each bucket that is not empty."""

    @classmethod
    def of(cls, histogram: Histogram) -> Latency:
        """Read the figures off a histogram of ns."""
        p50, p90, p99, p999 = (histogram.percentile(percent) / 1000 for percent in (50, 90, 99, 99.9))
        buckets = [(top / 1000, count) for top, count in histogram.buckets()]
        return cls(histogram.total, histogram.mean / 1000, p50, p90, p99, p999, histogram.largest / 1000, buckets)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One run. MB are 1,000,000 bytes of values, without topics and headers."""

    published: int
    expected: int
    """How many deliveries a hub without losses makes: `published` times subscribers."""
    delivered: int
    lost: int
    told: int
    """How many losses the hub told the subscribers."""
    out_of_order: int
    misrouted: int
    disconnected: int
    elapsed_s: float
    """The time from the first write of a publisher to the last read of a subscriber."""
    published_per_s: float
    delivered_per_s: float
    delivered_mb_per_s: float
    hub_cpu_s: float
    hub_cpu_percent: float
    """The hub's CPU in percent of one core."""
    us_per_message: float
    """Hub CPU for each published message, µs."""
    us_per_delivery: float
    """Hub CPU for each delivered message, µs."""
    hub_memory_bytes: int
    hub_peak_bytes: int
    messages_per_read: float
    """How much a subscriber reads at once: what the hub put together, and what came before it read again."""
    messages_per_write: float
    """How much the hub put together in a write; 0 if its calls are not known."""
    publisher_busy_percent: float
    """The CPU of all publishers, in percent of one core; the next field is that of all subscribers."""
    subscriber_busy_percent: float
    window_wait_percent: float
    """How much of the time the publishers waited for the subscribers, on average."""
    publisher_late_us: float
    """With a rate, how far behind its schedule a publisher was at worst."""
    latency: Latency | None = None
    samples: list[Sample] = []

    @property
    def flawless(self) -> bool:
        """Whether every message has arrived once and in order."""
        return not (self.lost or self.out_of_order or self.misrouted or self.told) and self.delivered == self.expected


class Window(NamedTuple):
    """The time that is measured, ns of the monotonic clock, and the hub before and after."""

    first_ns: int
    last_ns: int
    before: Usage
    after: Usage


def measured(
    window: Window, published: list[Published], reported: list[Reported], messages: int, size_bytes: int
) -> Measurement:
    """Work out the figures.

    Args:
        window: When the run was, and the hub before and after it.
        published: Answers of the publishers.
        reported: Answers of the subscribers' processes.
        messages: How many all publishers have sent.
        size_bytes: Size of a value.
    """
    counted = [one for answer in reported for one in answer.counted]
    before, after = window.before, window.after
    elapsed_s = max(window.last_ns - window.first_ns, 1) / 1e9
    delivered = sum(one.received for one in counted)
    cpu_s = (after.cpu_ns - before.cpu_ns) / 1e9
    writes = after.writes - before.writes
    latency = Histogram()
    for answer in reported:
        latency.add(answer.latency)
    return Measurement(
        published=messages,
        expected=messages * len(counted),
        delivered=delivered,
        lost=sum(one.lost for one in counted),
        told=sum(one.told for one in counted),
        out_of_order=sum(one.out_of_order for one in counted),
        misrouted=sum(one.misrouted for one in counted),
        disconnected=sum(1 for one in counted if one.closed),
        elapsed_s=elapsed_s,
        published_per_s=messages / elapsed_s,
        delivered_per_s=delivered / elapsed_s,
        delivered_mb_per_s=delivered * size_bytes / elapsed_s / 1e6,
        hub_cpu_s=cpu_s,
        hub_cpu_percent=100 * cpu_s / elapsed_s,
        us_per_message=cpu_s * 1e6 / messages,
        us_per_delivery=cpu_s * 1e6 / delivered if delivered else 0.0,
        hub_memory_bytes=after.memory_bytes,
        hub_peak_bytes=after.peak_bytes,
        messages_per_read=delivered / max(1, sum(one.reads for one in counted)),
        messages_per_write=delivered / writes if writes > len(counted) else 0.0,
        publisher_busy_percent=sum(one.cpu_ns for one in published) / elapsed_s / 1e7,
        subscriber_busy_percent=sum(one.cpu_ns for one in reported) / elapsed_s / 1e7,
        window_wait_percent=sum(one.waited_ns for one in published) / len(published) / elapsed_s / 1e7,
        publisher_late_us=max(one.latest_ns for one in published) / 1000,
        latency=Latency.of(latency) if latency.total else None,
    )
