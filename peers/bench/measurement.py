"""`Measurement`: the figures of one run, and how they follow from what was counted."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

import msgspec

from peers.bench.histogram import Histogram
from peers.bench.orders import Published, Reported
from peers.bench.tally import Counted
from peers.bench.usage import Usage

__all__ = ["PERCENTILES", "Latency", "Measurement", "Sample", "Stalled", "Window", "measured", "medians"]

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99, 100.0)


class Sample(msgspec.Struct, frozen=True):
    """The run at one moment."""

    at_s: float
    """Since the first message."""
    published: int
    delivered: int
    hub_cpu_s: float


class Latency(msgspec.Struct, frozen=True):
    """From the intended time of sending to the end of the read that brought the message, µs."""

    messages: int
    mean_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    p999_us: float
    max_us: float
    buckets: list[tuple[float, int]]
    """Largest value (µs) and count of each bucket that is not empty."""

    @classmethod
    def of(cls, histogram: Histogram) -> Latency:
        """Read them off a histogram of ns."""
        p50, p90, p99, p999 = (histogram.percentile(percent) / 1000 for percent in (50, 90, 99, 99.9))
        buckets = [(top / 1000, count) for top, count in histogram.buckets()]
        return cls(histogram.total, histogram.mean / 1000, p50, p90, p99, p999, histogram.largest / 1000, buckets)


class Stalled(msgspec.Struct, frozen=True):
    """What became of the subscribers that did not read, once they read again."""

    subscribers: int
    received: int
    lost: int
    told: int
    closed: int
    """How many the hub has disconnected."""
    reason: str = ""
    """What it told the first of those."""

    @property
    def accounted(self) -> bool:
        """Whether the hub told of all losses, by number or by closing the connection."""
        return self.told == self.lost or self.closed == self.subscribers


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Rates are of 1,000,000 bytes; sizes of values only, without topics and headers."""

    published: int
    expected: int
    """Deliveries that a hub without losses makes: `published` times subscribers."""
    delivered: int
    lost: int
    told: int
    """Losses that the hub told the subscribers."""
    out_of_order: int
    misrouted: int
    disconnected: int
    elapsed_s: float
    """From the first write of a publisher to the last read of a subscriber."""
    published_per_s: float
    delivered_per_s: float
    delivered_mb_per_s: float
    hub_cpu_s: float
    hub_user_s: float
    hub_system_s: float
    hub_cpu_percent: float
    """Of one core."""
    us_per_message: float
    """Hub CPU for each published message, µs."""
    us_per_delivery: float
    """Hub CPU for each delivered message, µs."""
    hub_memory_bytes: int
    hub_peak_bytes: int
    messages_per_read: float
    """Of a subscriber: how much the hub put together, and how much came before the subscriber read again."""
    messages_per_write: float
    """Of the hub: how much it put together. 0 if its calls are not known."""
    publisher_busy_percent: float
    """CPU of all publishers, of one core."""
    subscriber_busy_percent: float
    window_wait_percent: float
    """How much of the time the publishers waited for the subscribers, on average."""
    publisher_late_us: float
    """With a rate: how far behind its schedule a publisher was at worst."""
    joined_bursts: int
    """With a rate: bursts that were not a write of their own, because they were late."""
    latency: Latency | None = None
    samples: list[Sample] = []

    @property
    def flawless(self) -> bool:
        """Whether every message arrived once and in order."""
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
        window: When, and at what cost for the hub.
        published: Answers of the publishers.
        reported: Answers of the subscribers' processes.
        messages: Sent by all publishers.
        size_bytes: Of a value.
    """
    counted = [one for answer in reported for one in answer.counted]
    elapsed_s = max(window.last_ns - window.first_ns, 1) / 1e9
    delivered = _sum(counted, "received")
    cpu_s = (window.after.cpu_ns - window.before.cpu_ns) / 1e9
    ticks = (window.after.user_ns - window.before.user_ns, window.after.system_ns - window.before.system_ns)
    user_s = cpu_s * ticks[0] / sum(ticks) if sum(ticks) else 0.0
    writes = window.after.writes - window.before.writes
    latency = Histogram()
    for answer in reported:
        latency.add(Histogram.load(answer.latency))
    return Measurement(
        published=messages,
        expected=messages * len(counted),
        delivered=delivered,
        lost=_sum(counted, "lost"),
        told=_sum(counted, "told"),
        out_of_order=_sum(counted, "out_of_order"),
        misrouted=_sum(counted, "misrouted"),
        disconnected=sum(1 for one in counted if one.closed),
        elapsed_s=elapsed_s,
        published_per_s=messages / elapsed_s,
        delivered_per_s=delivered / elapsed_s,
        delivered_mb_per_s=delivered * size_bytes / elapsed_s / 1e6,
        hub_cpu_s=cpu_s,
        hub_user_s=user_s,
        hub_system_s=cpu_s - user_s if sum(ticks) else 0.0,
        hub_cpu_percent=100 * cpu_s / elapsed_s,
        us_per_message=cpu_s * 1e6 / messages,
        us_per_delivery=cpu_s * 1e6 / delivered if delivered else 0.0,
        hub_memory_bytes=window.after.memory_bytes,
        hub_peak_bytes=window.after.peak_bytes,
        messages_per_read=delivered / max(1, _sum(counted, "reads")),
        messages_per_write=delivered / writes if writes > len(counted) else 0.0,
        publisher_busy_percent=sum(one.cpu_ns for one in published) / elapsed_s / 1e7,
        subscriber_busy_percent=sum(one.cpu_ns for one in reported) / elapsed_s / 1e7,
        window_wait_percent=sum(one.waited_ns for one in published) / len(published) / elapsed_s / 1e7,
        publisher_late_us=max(one.latest_ns for one in published) / 1000,
        joined_bursts=sum(one.joined_bursts for one in published),
        latency=Latency.of(latency) if latency.total else None,
    )


def medians(runs: list[Measurement]) -> dict[str, Any]:
    """Return the median of each figure over the runs; of latencies, the median of each percentile."""
    middle: dict[str, Any] = {}
    for name in Measurement.__struct_fields__:
        values = [getattr(run, name) for run in runs]
        if all(isinstance(value, int | float) for value in values):
            middle[name] = statistics.median(values)
    latencies = [run.latency for run in runs if run.latency is not None]
    if latencies:
        middle["latency"] = {
            name: statistics.median(getattr(one, name) for one in latencies)
            for name in Latency.__struct_fields__
            if name != "buckets"
        }
    return middle


def _sum(counted: list[Counted], name: str) -> int:
    return sum(getattr(one, name) for one in counted)
