"""`Report`: what `hub bench` found, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from peers.bench.environment import Environment
from peers.bench.measurement import Measurement, Stalled, medians
from peers.bench.plan import Plan

__all__ = ["ROWS", "Report"]

_VERSION = 1
"""Of the JSON. Fields may be added; one that changes its meaning raises this."""

Format = Callable[[float], str]


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _decimals(count: int) -> Format:
    return lambda value: f"{value:,.{count}f}"


def _mebibytes(value: float) -> str:
    return f"{value / 1048576:,.1f}"


ROWS: tuple[tuple[str, str, str, Format], ...] = (
    ("published", "messages", "published", _whole),
    ("delivered", "messages", "delivered", _whole),
    ("lost", "messages", "lost", _whole),
    ("told lost by the hub", "messages", "told", _whole),
    ("out of order", "messages", "out_of_order", _whole),
    ("elapsed", "s", "elapsed_s", _decimals(3)),
    ("published", "messages/s", "published_per_s", _whole),
    ("delivered", "messages/s", "delivered_per_s", _whole),
    ("delivered", "MB/s", "delivered_mb_per_s", _decimals(2)),
    ("hub CPU", "s", "hub_cpu_s", _decimals(3)),
    ("hub CPU, user", "s", "hub_user_s", _decimals(2)),
    ("hub CPU, system", "s", "hub_system_s", _decimals(2)),
    ("hub CPU", "% of a core", "hub_cpu_percent", _decimals(1)),
    ("hub CPU", "µs/published", "us_per_message", _decimals(3)),
    ("hub CPU", "µs/delivered", "us_per_delivery", _decimals(3)),
    ("hub memory", "MiB", "hub_memory_bytes", _mebibytes),
    ("hub memory, peak", "MiB", "hub_peak_bytes", _mebibytes),
    ("delivered", "messages/write of the hub", "messages_per_write", _decimals(1)),
    ("delivered", "messages/read", "messages_per_read", _decimals(1)),
    ("publishers' CPU", "% of a core", "publisher_busy_percent", _decimals(1)),
    ("subscribers' CPU", "% of a core", "subscriber_busy_percent", _decimals(1)),
    ("publishers waited", "% of the time", "window_wait_percent", _decimals(1)),
)
"""Label, unit, field of `Measurement`, how it is written."""

_RATE_ROWS: tuple[tuple[str, str, str, Format], ...] = (
    ("publishers late, worst", "µs", "publisher_late_us", _whole),
    ("bursts not alone", "bursts", "joined_bursts", _whole),
)
_LATENCY_ROWS: tuple[tuple[str, str], ...] = (
    ("latency, mean", "mean_us"),
    ("latency, p50", "p50_us"),
    ("latency, p90", "p90_us"),
    ("latency, p99", "p99_us"),
    ("latency, p99.9", "p999_us"),
    ("latency, worst", "max_us"),
)


class Report(msgspec.Struct, frozen=True):
    """A benchmark that was run."""

    plan: Plan
    environment: Environment
    runs: list[Measurement]
    stalled: Stalled | None = None

    @property
    def medians(self) -> dict[str, Any]:
        """The median of each figure over the runs."""
        return medians(self.runs)

    def rows(self) -> list[tuple[str, str, list[str]]]:
        """Label, unit, and the figure of each run; behind them the median if there are several."""
        middle = self.medians
        rows = []
        for label, unit, name, write in ROWS + (_RATE_ROWS if self.plan.rate else ()):
            values = [getattr(run, name) for run in self.runs]
            rows.append((label, unit, [write(value) for value in self._with_median(values, middle[name])]))
        if "latency" in middle:
            for label, name in _LATENCY_ROWS:
                values = [getattr(run.latency, name) for run in self.runs]
                shown = [_whole(value) for value in self._with_median(values, middle["latency"][name])]
                rows.append((label, "µs", shown))
        return rows

    def _with_median(self, values: list[float], median: float) -> list[float]:
        return [*values, median] if len(values) > 1 else values

    def columns(self) -> list[str]:
        """What stands over the figures."""
        runs = [f"run {number}" for number in range(1, len(self.runs) + 1)]
        return [*runs, "median"] if len(runs) > 1 else ["figure"]

    def table(self) -> Table:
        """For a terminal."""
        table = Table("", "unit", box=None, pad_edge=False, header_style="bold")
        for column in self.columns():
            table.add_column(column, justify="right")
        for label, unit, shown in self.rows():
            bad = label in {"lost", "told lost by the hub", "out of order"} and any(value != "0" for value in shown)
            table.add_row(Text(label), Text(unit, style="dim"), *shown, style="bold red" if bad else "")
        return table

    def remarks(self) -> list[str]:
        """What a reader should know before trusting the figures."""
        said = []
        if any(run.misrouted for run in self.runs):
            said.append("messages arrived under another topic than they were sent to")
        if any(run.disconnected for run in self.runs):
            said.append("the hub closed connections of subscribers")
        if any(run.told != run.lost for run in self.runs):
            said.append("what the hub told of lost messages is not what was lost")
        if any(max(run.publisher_busy_percent, run.subscriber_busy_percent) > _BUSY_PERCENT for run in self.runs):
            said.append("the load generators were near their limit: the rate may be theirs, not the hub's")
        if any(run.window_wait_percent > _WAIT_PERCENT for run in self.runs):
            said.append(
                "publishers mostly waited for subscribers to keep within their queue: a larger --queue-messages, or a "
                "machine with less else to do, may give a higher rate"
            )
        if self.environment.load > _LOAD:
            said.append("the machine had other work: compare CPU times, not rates, and repeat")
        if self.stalled is not None:
            said.append(_stalled(self.stalled))
        return said

    def json(self) -> bytes:
        """For programs."""
        document = {
            "benchmark": "stream",
            "version": _VERSION,
            "environment": self.environment,
            "plan": self.plan,
            "runs": self.runs,
            "median": self.medians,
            "stalled": self.stalled,
            "flawless": all(run.flawless for run in self.runs),
            "remarks": self.remarks(),
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=1)


_BUSY_PERCENT = 90.0
_WAIT_PERCENT = 50.0
_LOAD = 0.5


def _stalled(stalled: Stalled) -> str:
    text = (
        f"{stalled.subscribers:,} stalled subscribers got {stalled.received:,} messages when they read again and "
        f"missed {stalled.lost:,}; the hub told them of {stalled.told:,}"
    )
    if stalled.closed:
        text += f" and disconnected {stalled.closed:,}: {stalled.reason}"
    return text if stalled.accounted else f"{text}, which is not the same"
