"""`stream_report`: what the runs of a stream have shown, a row for each figure of a `Measurement`; no state."""

from __future__ import annotations

from collections.abc import Sequence

from peers.bench.environment import Environment
from peers.bench.measurement import Measurement
from peers.bench.plan import Plan
from peers.bench.report import Report, Row, medians

__all__ = ["stream_report"]

_BUSY_PERCENT = 90.0
_WAIT_PERCENT = 50.0
_FLAWS = frozenset({"lost", "told", "out_of_order"})

_ROWS: tuple[tuple[str, str, str, int], ...] = (
    ("published", "messages", "published", 0),
    ("delivered", "messages", "delivered", 0),
    ("lost", "messages", "lost", 0),
    ("told lost by the hub", "messages", "told", 0),
    ("out of order", "messages", "out_of_order", 0),
    ("elapsed", "s", "elapsed_s", 3),
    ("published", "messages/s", "published_per_s", 0),
    ("delivered", "messages/s", "delivered_per_s", 0),
    ("delivered", "MB/s", "delivered_mb_per_s", 2),
    ("hub CPU", "s", "hub_cpu_s", 3),
    ("hub CPU", "% of a core", "hub_cpu_percent", 1),
    ("hub CPU", "µs/published", "us_per_message", 3),
    ("hub CPU", "µs/delivered", "us_per_delivery", 3),
    ("hub memory", "MiB", "hub_memory_bytes", 1),
    ("hub memory, peak", "MiB", "hub_peak_bytes", 1),
    ("delivered", "messages/write of the hub", "messages_per_write", 1),
    ("delivered", "messages/read", "messages_per_read", 1),
    ("publishers' CPU", "% of a core", "publisher_busy_percent", 1),
    ("subscribers' CPU", "% of a core", "subscriber_busy_percent", 1),
    ("publishers waited", "% of the time", "window_wait_percent", 1),
)
"""Label, unit, field of `Measurement`, decimals."""

_LATE = ("publishers late, worst", "µs", "publisher_late_us", 0)
_LATENCY_ROWS = (
    ("latency, mean", "mean_us"),
    ("latency, p50", "p50_us"),
    ("latency, p90", "p90_us"),
    ("latency, p99", "p99_us"),
    ("latency, p99.9", "p999_us"),
    ("latency, worst", "max_us"),
)


def stream_report(plan: Plan, environment: Environment, runs: Sequence[Measurement]) -> Report:
    """Return what these runs show, with their median if there are several."""
    middle = medians(runs)
    latencies = [run.latency for run in runs if run.latency is not None]
    several = len(runs) > 1

    def row(label: str, unit: str, values: list[float], median: float, decimals: int) -> Row:
        shown = [*values, median] if several else values
        return Row.of(label, unit, [value / (1 << 20 if unit == "MiB" else 1) for value in shown], decimals)

    rows = []
    for label, unit, name, decimals in (*_ROWS, _LATE) if plan.rate else _ROWS:
        values = [getattr(run, name) for run in runs]
        made = row(label, unit, values, middle[name], decimals)
        rows.append(made._replace(bad=name in _FLAWS and any(values)))
    for label, name in _LATENCY_ROWS if "latency" in middle else ():
        rows.append(row(label, "µs", [getattr(one, name) for one in latencies], middle["latency"][name], 0))
    return Report(
        "stream",
        environment,
        plan,
        [*(f"run {number}" for number in range(1, len(runs) + 1)), "median"] if several else ["figure"],
        rows,
        {"runs": runs, "median": middle},
        all(run.flawless for run in runs),
        _remarks(runs),
    )


def _remarks(runs: Sequence[Measurement]) -> list[str]:
    """Return what a reader should know before trusting the figures."""
    told = {
        "messages arrived under another topic than they were sent to": any(run.misrouted for run in runs),
        "the hub closed connections of subscribers": any(run.disconnected for run in runs),
        "what the hub told of lost messages is not what was lost": any(run.told != run.lost for run in runs),
        "the load generators were near their limit: the rate may be theirs, not the hub's": any(
            max(run.publisher_busy_percent, run.subscriber_busy_percent) > _BUSY_PERCENT for run in runs
        ),
        "publishers mostly waited for subscribers to keep within their queue: a larger --queue-messages, or a machine "
        "with less else to do, may give a higher rate": any(run.window_wait_percent > _WAIT_PERCENT for run in runs),
    }
    return [remark for remark, holds in told.items() if holds]
