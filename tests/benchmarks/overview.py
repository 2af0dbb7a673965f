"""The picture of docs/performance.md: one line a workload, one dot a broker, on one logarithmic scale (SVG).

What each costs in server CPU for a delivered message; a step of the grid is a factor of ten.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

from contestants import FLOOR
from report import figure_text
from summary import Summary, ours
from workloads import Workload

__all__ = ["write_overview"]

_FIGURE = "cpu_us"
_LABEL, _WIDTH, _RIGHT = 380, 600, 30
_TOP, _STEP = 64, 28
_LEGEND = 180
_COLOURS = {
    "hub": "#0b7a75",
    "hub-before": "#8fb3b0",
    "hub-batch": "#5fc2bd",
    "hub-json": "#5fc2bd",
    "nats": "#c2452d",
    "zeromq": "#8256b8",
    "redis": "#d08a1d",
    "mosquitto": "#5b6b7d",
    FLOOR: "#b8bec6",
}


def write_overview(summary: Summary, about: dict[str, str], file: Path) -> None:
    """Write the file; nothing is written if no run has the figure."""
    workloads = [workload for workload in summary.workloads if _values(summary, workload)]
    if not workloads:
        return
    everything = [value for workload in workloads for value in _values(summary, workload).values()]
    low, high = math.floor(math.log10(min(everything))), math.ceil(math.log10(max(everything)))
    height = _TOP + len(workloads) * _STEP + 40
    width = _LABEL + _WIDTH + _RIGHT
    names = dict.fromkeys(name for workload in workloads for name in _values(summary, workload))
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#1d1f22">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="16" y="24" font-size="15">µs of server CPU a delivered message, {escape(about["date"])}</text>\n'
        f"{_legend(list(names))}{_grid(low, high, height)}"
        + "".join(_line(summary, workload, place, low, high) for place, workload in enumerate(workloads))
        + "</svg>\n"
    )


def _values(summary: Summary, workload: Workload) -> dict[str, float]:
    return {
        name: spread.median
        for name in summary.contestants(workload.name)
        if (spread := summary.spread(workload.name, name, _FIGURE)) is not None and spread.median > 0
    }


def _at(value: float, low: int, high: int) -> float:
    return _LABEL + (math.log10(value) - low) / max(high - low, 1) * _WIDTH


def _legend(names: list[str]) -> str:
    return "".join(
        f'<circle cx="{_LEGEND + place * 98}" cy="44" r="6" fill="{_COLOURS.get(name, "#000")}"/>'
        f'<text x="{_LEGEND + place * 98 + 10}" y="48">{escape(name)}</text>\n'
        for place, name in enumerate(names)
    )


def _grid(low: int, high: int, height: int) -> str:
    return "".join(
        f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{_TOP}" y2="{height - 30}" stroke="#d9dde2"/>'
        f'<text x="{x:.0f}" y="{height - 12}" text-anchor="middle">{10**power:g} µs</text>\n'
        for power in range(low, high + 1)
        for x in [_at(10**power, low, high)]
    )


def _line(summary: Summary, workload: Workload, place: int, low: int, high: int) -> str:
    y = _TOP + place * _STEP + _STEP / 2
    values = sorted(_values(summary, workload).items(), key=lambda item: ours(item[0]))  # ours last, on top
    dots = "".join(
        f'<circle cx="{_at(value, low, high):.1f}" cy="{y}" r="{7 if ours(name) else 6}" '
        f'fill="{_COLOURS.get(name, "#000")}" fill-opacity="0.9">'
        f"<title>{escape(name)}: {figure_text(_FIGURE, value)} µs</title></circle>"
        for name, value in values
    )
    return (
        f'<text x="{_LABEL - 14}" y="{y + 4}" text-anchor="end" font-size="12">{escape(_short(workload.title))}</text>'
        f'<line x1="{_LABEL}" x2="{_LABEL + _WIDTH}" y1="{y}" y2="{y}" stroke="#eef0f2"/>{dots}\n'
    )


def _short(title: str) -> str:
    return title.replace("10,000 topics in turn", "10,000 topics").replace("messages/s, one by one", "/s one by one")
