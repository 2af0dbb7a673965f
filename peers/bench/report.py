"""`Report`: the figures of a benchmark as a table, as JSON, and for a stream as a page with plots."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
import platform
import statistics
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.table import Table
from rich.text import Text

from hub import __version__
from peers.bench.measurement import Latency, Measurement
from peers.bench.stage import Plan
from peers.console.line_plot import Point, html_page, line_plot, round_ticks


class Environment(msgspec.Struct, frozen=True):
    """The machine and its software.

    Attributes:
        at: Time, UTC.
        hot_loop: Whether the hub's hot loop is the compiled one.
        cpus: CPUs that this process may use.
        load: Load average of the minute before; above 0 the machine had other work.
    """

    at: str
    topichub: str
    python: str
    loop: str
    hot_loop: str
    kernel: str
    cpu: str
    cpus: int
    load: float

    @classmethod
    def here(cls) -> Environment:
        loop, cpu = "asyncio's own loop", platform.machine()
        with suppress(importlib.metadata.PackageNotFoundError):
            loop = f"uvloop {importlib.metadata.version('uvloop')}"
        with suppress(OSError, IndexError):
            cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("model name\t: ")[1].partition("\n")[0]
        return cls(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            topichub=f"topichub {__version__}",
            python=f"{platform.python_implementation()} {platform.python_version()}",
            loop=loop,
            hot_loop="compiled hot loop" if importlib.util.find_spec("hub.messages._runs") else "hot loop in Python",
            kernel=f"{platform.system()} {platform.release()}",
            cpu=cpu,
            cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            load=round(os.getloadavg()[0], 2),
        )

    def __str__(self) -> str:
        what = (self.topichub, self.hot_loop, self.python, self.loop, self.kernel, self.cpu)
        return f"{', '.join(what)}, {self.cpus} CPUs, load before {self.load:.2f}, {self.at}"


_VERSION = 2
"""Of the JSON; a field that goes or changes its meaning raises it."""


_LOAD = 0.5
_BUSY = "the machine had other work: compare CPU times, not rates, and repeat"


class Row(NamedTuple):
    """One line of a table."""

    label: str
    unit: str
    shown: Sequence[str]
    bad: bool = False

    @classmethod
    def of(cls, label: str, unit: str, values: Sequence[float], decimals: int = 0, *, bad: bool = False) -> Row:
        return cls(label, unit, [f"{value:,.{decimals}f}" for value in values], bad)


class Report(NamedTuple):
    """A benchmark that was run."""

    benchmark: str
    environment: Environment
    plan: Plan | object
    columns: Sequence[str]
    rows: Sequence[Row]
    figures: dict[str, Any]
    flawless: bool
    said: Sequence[str] = ()

    @property
    def remarks(self) -> list[str]:
        return [*self.said, *([_BUSY] if self.environment.load > _LOAD else [])]

    def table(self) -> Table:
        table = Table("", "unit", box=None, pad_edge=False, header_style="bold")
        for column in self.columns:
            table.add_column(column, justify="right")
        for row in self.rows:
            table.add_row(Text(row.label), Text(row.unit, style="dim"), *row.shown, style="bold red" if row.bad else "")
        return table

    def json(self) -> bytes:
        document = {
            "benchmark": self.benchmark,
            "version": _VERSION,
            "environment": self.environment,
            "plan": self.plan,
            **self.figures,
            "flawless": self.flawless,
            "remarks": self.remarks,
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=1)


def medians(runs: Sequence[msgspec.Struct]) -> dict[str, Any]:
    """Return the median of each figure by itself, also of nested ones, such as latencies."""
    found: dict[str, Any] = {}
    for name in runs[0].__struct_fields__:
        values = [getattr(run, name) for run in runs]
        if all(isinstance(value, int | float) for value in values):
            found[name] = statistics.median(values)
        elif all(isinstance(value, msgspec.Struct) for value in values):
            found[name] = medians(values)
    return found


_BUSY_PERCENT = 90.0
_WAIT_PERCENT = 50.0
_FLAWS = frozenset({"lost", "told", "out_of_order"})

_ROWS: tuple[tuple[str, str, str, int], ...] = (
    ("published", "messages", "published", 0),
    ("delivered", "messages", "delivered", 0),
    ("lost", "messages", "lost", 0),
    ("losses reported by the hub", "messages", "told", 0),
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
    told = {
        "messages arrived under another topic than they were sent to": any(run.misrouted for run in runs),
        "the hub closed connections of subscribers": any(run.disconnected for run in runs),
        "the hub's reports of lost messages are wrong": any(run.told != run.lost for run in runs),
        "the load generators were near their limit: the rate may be theirs, not the hub's": any(
            max(run.publisher_busy_percent, run.subscriber_busy_percent) > _BUSY_PERCENT for run in runs
        ),
        "publishers mostly waited for subscribers to keep within their queue: a larger --queue-messages, or a machine "
        "with less else to do, may give a higher rate": any(run.window_wait_percent > _WAIT_PERCENT for run in runs),
    }
    return [remark for remark, holds in told.items() if holds]


_PERCENTS = (0, 50, 90, 99, 99.9, 99.99, 99.999)


def page(plan: Plan, report: Report, runs: Sequence[Measurement]) -> str:
    rate = f"{plan.rate:,.0f} messages/s" if plan.rate else "full speed"
    title = f"hub bench: {plan.publishers} → {plan.subscribers}, {plan.size} bytes, {plan.topics} topics, {rate}"
    columns = "".join(f"<th>{escape(column)}</th>" for column in report.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in (row.label, row.unit, *row.shown))}</tr>\n"
        for row in report.rows
    )
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in report.remarks)
    latencies = [run.latency for run in runs if run.latency is not None]
    parts = [
        f"<h1>{escape(title)}</h1>\n<p>{escape(str(report.environment))}</p>",
        f"<ul>{remarks}</ul>" if remarks else "",
        f"<h2>Delivered over time</h2>\n{_rates(runs)}",
        f"<h2>Latency by percentile</h2>\n{_latencies(latencies)}" if latencies else "",
        f"<h2>Figures</h2>\n<table><tr><th></th><th>unit</th>{columns}</tr>\n{rows}</table>",
        f"<details><summary>JSON</summary><pre>{escape(report.json().decode())}</pre></details>",
    ]
    return html_page(title, parts)


def _rates(runs: Sequence[Measurement]) -> str:
    lines = []
    for run in runs:
        line: list[Point] = []
        at_s, delivered = 0.0, 0
        for sample in run.samples:
            if sample.at_s > at_s:
                line.append((sample.at_s, max(0, sample.delivered - delivered) / (sample.at_s - at_s)))
                at_s, delivered = sample.at_s, sample.delivered
        lines.append([(0.0, line[0][1]), *line] if line else [(0.0, run.delivered_per_s)])
    return line_plot(lines, "s", "messages/s", round_ticks(max(x for line in lines for x, _ in line)))


def _latencies(latencies: Sequence[Latency]) -> str:
    """Draw latencies so that each step to the right is ten times closer to all messages."""
    lines = []
    for latency in latencies:
        seen, line = 0, [(0.0, latency.buckets[0][0])]
        for top_us, count in latency.buckets:
            # A percentile is drawn where it is reached; all messages would be infinitely far to the right.
            seen += count
            share = min(seen / latency.messages, 1 - 0.5 / latency.messages)
            line.append((-math.log10(1 - share), top_us))
        lines.append(line)
    furthest = max(x for line in lines for x, _ in line)
    ticks = [(-math.log10(1 - percent / 100), f"{percent:g} %") for percent in _PERCENTS]
    return line_plot(lines, "", "µs", [tick for tick in ticks if tick[0] <= furthest])
