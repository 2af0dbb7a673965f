"""One HTML page with the figures of a stream and two plots: rate over time, and latency by percentile.

The page needs nothing but itself: style and drawings are inline, there are no scripts. The JSON is in it, too. There is
no state here; how lines are drawn is in `peers.console.line_plot`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from peers.bench.measurement import Latency, Measurement
from peers.bench.plan import Plan
from peers.bench.report import Report
from peers.console.line_plot import Point, html_page, line_plot, round_ticks

__all__ = ["page"]

_PERCENTS = (0, 50, 90, 99, 99.9, 99.99, 99.999)


def page(plan: Plan, report: Report, runs: Sequence[Measurement]) -> str:
    """Return the page.

    Args:
        plan: What was asked for.
        report: What the runs have shown.
        runs: What is drawn.
    """
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
    """Draw deliveries a second, in each step between two samples."""
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
