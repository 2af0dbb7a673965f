"""The plot: one HTML file that needs nothing else, with a bar chart (SVG) for each workload and figure.

Bars are medians, whiskers the least and the most of the repeats. Every chart has its own scale from 0. Bars that
would dwarf all others are cut off, and their numbers say how long they are.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from statistics import median

from report import figure_text
from summary import Comparison, Spread, Summary, ours
from workloads import Workload

__all__ = ["write_html"]

_FIGURES = {
    "flood": (("cpu_us", "µs of server CPU a delivered message"),),
    "paced": (
        ("cpu_us", "µs of server CPU a delivered message"),
        ("p50_us", "µs, latency p50"),
        ("p99_us", "µs, latency p99"),
    ),
    "memory": (
        ("connection_bytes", "bytes of memory a connection"),
        ("subscription_bytes", "bytes of memory a subscription"),
    ),
}

_NAME, _WIDTH, _NUMBER = 90, 360, 190
_BAR, _STEP = 14, 22
_CUT_AT = 4.0
"""So many times as long as the middle one, bars are cut off."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1d1f22; --dim: #6b7078; --paper: #fff; --ours: #0b7a75; --peer: #a9b2bd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --dim: #969ca5; --paper: #16181b; --ours: #35b8b0; --peer: #58606b; }
}
body { margin: 2rem auto; max-width: 88rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
       font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 0; } p, dl, td, th { color: var(--dim); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dd { margin: 0; color: var(--ink); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 41rem), 1fr)); gap: 1.6rem 1rem; }
figure { margin: 0; } figcaption { color: var(--dim); font-size: .85rem; margin-bottom: .3rem; }
svg { max-width: 100%; height: auto; } text { fill: var(--ink); font-size: 12px; font-variant-numeric: tabular-nums; }
.peer { fill: var(--peer); } .ours { fill: var(--ours); } .dim { fill: var(--dim); }
line { stroke: var(--ink); stroke-width: 1.2; } .cut { stroke: var(--paper); stroke-width: 4; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } td, th { padding: .15rem .9rem .15rem 0;
       text-align: left; } td { color: var(--ink); } .missed { color: #c2452d; font-weight: 600; }
"""


def write_html(summary: Summary, about: dict[str, str], file: Path) -> None:
    """Write the file."""
    charts = [
        _chart(summary, workload, name, unit)
        for workload in summary.workloads
        for name, unit in _FIGURES[workload.kind]
        if any(summary.spread(workload.name, one, name) for one in summary.contestants(workload.name))
    ]
    terms = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in about.items())
    file.write_text(
        "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>topichub beside other brokers</title><style>{_STYLE}</style>\n"
        "<h1>topichub beside other brokers</h1>\n"
        "<p>Shorter is better everywhere. Bars: median; whiskers: least and most of the repeats.</p>\n"
        f"<dl>{terms}</dl>\n<div class=charts>\n{''.join(charts)}</div>\n{_goals(summary.comparisons())}</html>\n"
    )


def _chart(summary: Summary, workload: Workload, name: str, unit: str) -> str:
    spreads = {
        contestant: spread
        for contestant in summary.contestants(workload.name)
        if (spread := summary.spread(workload.name, contestant, name)) is not None
    }
    scale = _scale(spreads)
    rows = "".join(
        _bar(place, contestant, spread, name, scale) for place, (contestant, spread) in enumerate(spreads.items())
    )
    width, height = _NAME + _WIDTH + _NUMBER, len(spreads) * _STEP
    return (
        f"<figure><h2>{escape(workload.title)}</h2><figcaption>{escape(workload.name)}: {escape(unit)}</figcaption>"
        f"<svg viewBox='0 0 {width} {height}' width={width} height={height} role=img>{rows}</svg></figure>\n"
    )


def _scale(spreads: dict[str, Spread]) -> float:
    """Return the value at the right end."""
    longest = max(spread.most for spread in spreads.values())
    middle = median(spread.median for spread in spreads.values())
    return (min(longest, middle * _CUT_AT) if middle > 0 else longest) or 1.0


def _bar(place: int, contestant: str, spread: Spread, name: str, scale: float) -> str:
    middle = place * _STEP + _STEP / 2
    length, least, most = (_NAME + min(max(value, 0) / scale, 1) * _WIDTH for value in spread)
    kind = "ours" if ours(contestant) else "peer"
    cut = (
        f"<line class=cut x1={length - 24:.1f} x2={length - 16:.1f} y1={middle + 9} y2={middle - 9} />"
        if spread.median > scale
        else f"<line x1={least:.1f} x2={most:.1f} y1={middle} y2={middle} />"
    )
    number = figure_text(name, spread.median)
    between = f"{figure_text(name, spread.least)} to {figure_text(name, spread.most)}"
    return (
        f"<text x={_NAME - 8} y={middle + 4} text-anchor=end>{escape(contestant)}</text>"
        f"<rect class={kind} x={_NAME} y={middle - _BAR / 2} width={max(length - _NAME, 1):.1f} height={_BAR} rx=2 />"
        f"{cut}<text x={max(length, most) + 8:.1f} y={middle + 4}>{number} "
        f"<tspan class=dim>{between}</tspan></text>"
    )


def _goals(comparisons: list[Comparison]) -> str:
    if not comparisons:
        return ""
    rows = "".join(
        f"<tr><td>{escape(one.workload)}<td>{escape(one.contestant)}<td>{escape(one.goal.figure)}"
        f"<td>{figure_text(one.goal.figure, one.ours)}<td>{figure_text(one.goal.figure, one.theirs)} "
        f"{escape(one.peer)} {escape(one.goal.workload)}<td>{one.ratio:.3f}<td>≤ {one.goal.ratio:g}"
        f"<td class={'met' if one.met else 'missed'}>{'met' if one.met else 'missed'}"
        for one in comparisons
    )
    head = "".join(f"<th>{title}" for title in ("workload", "", "figure", "ours", "theirs", "ratio", "goal", ""))
    return f"<h2>Goals</h2><table><tr>{head}{rows}</table>\n"
