"""One HTML page with the figures of a benchmark and two plots: rate over time, and latency by percentile.

It needs nothing but itself: style and drawings are inline, there are no scripts. The JSON is in it, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from peers.bench.measurement import Latency, Measurement
from peers.bench.report import Report

__all__ = ["page"]

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 14, 34
_COLOURS = ("#2a78b8", "#c4572a", "#3c8f4e", "#8a5bb0", "#b08a1e", "#5f6b76")
_PERCENTS = (0, 50, 90, 99, 99.9, 99.99, 99.999)

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2730; --dim: #66737e; --line: #d6dde3; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4eaef; --dim: #94a1ac; --line: #36424c; --paper: #151b20; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 760px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
p, li { color: var(--dim); } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { padding: .15rem .5rem; border-bottom: 1px solid var(--line); text-align: right; }
td:first-child, th:first-child, td:nth-child(2), th:nth-child(2) { text-align: left; }
svg { width: 100%; height: auto; } svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg polyline { fill: none; stroke-width: 1.8; } pre { overflow-x: auto; }
"""

Point = tuple[float, float]


def page(report: Report) -> str:
    """Return the page."""
    plan = report.plan
    rate = f"{plan.rate:,.0f} messages/s" if plan.rate else "full speed"
    title = f"hub bench: {plan.publishers} → {plan.subscribers}, {plan.size} bytes, {plan.topics} topics, {rate}"
    columns = "".join(f"<th>{escape(column)}</th>" for column in report.columns())
    rows = "".join(
        f"<tr><td>{escape(label)}</td><td>{escape(unit)}</td>{''.join(f'<td>{value}</td>' for value in shown)}</tr>\n"
        for label, unit, shown in report.rows()
    )
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in report.remarks())
    latencies = [run.latency for run in report.runs if run.latency is not None]
    parts = [
        f"<h1>{escape(title)}</h1>\n<p>{escape(str(report.environment))}</p>",
        f"<ul>{remarks}</ul>" if remarks else "",
        f"<h2>Delivered over time</h2>\n{_rates(report.runs)}",
        f"<h2>Latency by percentile</h2>\n{_latencies(latencies)}" if latencies else "",
        f"<h2>Figures</h2>\n<table><tr><th></th><th>unit</th>{columns}</tr>\n{rows}</table>",
        f"<details><summary>JSON</summary><pre>{escape(report.json().decode())}</pre></details>",
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style></head>\n'
        f"<body>\n{''.join(part + chr(10) for part in parts if part)}</body>\n</html>\n"
    )


def _rates(runs: Sequence[Measurement]) -> str:
    """Deliveries a second, in each step between two samples."""
    lines = []
    for run in runs:
        line: list[Point] = []
        at_s, delivered = 0.0, 0
        for sample in run.samples:
            if sample.at_s > at_s:
                line.append((sample.at_s, max(0, sample.delivered - delivered) / (sample.at_s - at_s)))
                at_s, delivered = sample.at_s, sample.delivered
        lines.append([(0.0, line[0][1]), *line] if line else [(0.0, run.delivered_per_s)])
    return _plot(lines, "s", "messages/s", _ticks(max(x for line in lines for x, _ in line)))


def _latencies(latencies: Sequence[Latency]) -> str:
    """Each step to the right is ten times closer to all messages."""
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
    return _plot(lines, "", "µs", [tick for tick in ticks if tick[0] <= furthest])


def _plot(lines: Sequence[Sequence[Point]], unit_x: str, unit_y: str, ticks_x: Sequence[tuple[float, str]]) -> str:
    """Draw lines from the origin of both axes."""
    most_x = max([1e-9, *(x for line in lines for x, _ in line)])
    ticks_y = _ticks(max([1e-9, *(y for line in lines for _, y in line)]))
    most_y = max([ticks_y[-1][0], *(y for line in lines for _, y in line)])

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + x / most_x * (_WIDTH - _LEFT - _RIGHT)
        return across, _HEIGHT - _BOTTOM - y / most_y * (_HEIGHT - _TOP - _BOTTOM)

    drawn = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for value, label in ticks_y:
        x, y = place(0, value)
        drawn.append(f'<line class="grid" x1="{x:.1f}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for value, label in ticks_x:
        x, y = place(value, 0)
        drawn.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{label} {unit_x}</text>')
    drawn.append(f'<text x="4" y="{_HEIGHT - 4}">{unit_y}</text>')
    for number, line in enumerate(lines):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        drawn.append(f'<polyline stroke="{_COLOURS[number % len(_COLOURS)]}" points="{points}"/>')
    return "\n".join([*drawn, "</svg>"])


def _ticks(most: float) -> list[tuple[float, str]]:
    """About five round numbers from 0 up to `most`."""
    if most <= 0:
        return [(0.0, "0")]
    step = 10.0 ** math.floor(math.log10(most / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= 5)
    return [
        (number * step, f"{number * step:,.{max(0, -math.floor(math.log10(step)))}f}")
        for number in range(int(most / step + 1e-9) + 1)
    ]
