"""Line plots as SVG, and the pages that they stand in: nothing but text, no scripts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 14, 34
_LABEL = 20  # half of a time of day
COLOURS = ("#2a78b8", "#c4572a", "#3c8f4e", "#8a5bb0", "#b08a1e", "#5f6b76")

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


def html_page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Return a page of these parts, which are HTML; empty ones are left out. `style` is added to that of all pages."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}{style}</style></head>\n"
        f"<body>\n{''.join(part + chr(10) for part in parts if part)}</body>\n</html>\n"
    )


def line_plot(lines: Sequence[Sequence[Point]], unit_x: str, unit_y: str, ticks_x: Sequence[tuple[float, str]]) -> str:
    """Draw lines from the origin of both axes."""
    most_x = max([1e-9, *(x for line in lines for x, _ in line)])
    ticks_y = round_ticks(max([1e-9, *(y for line in lines for _, y in line)]))
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
        anchor = "end" if x > _WIDTH - _RIGHT - _LABEL else "middle"  # a label in the middle of the edge is cut off
        drawn.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="{anchor}">{label} {unit_x}</text>')
    drawn.append(f'<text x="4" y="{_HEIGHT - 4}">{unit_y}</text>')
    for number, line in enumerate(lines):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        drawn.append(f'<polyline stroke="{COLOURS[number % len(COLOURS)]}" points="{points}"/>')
    return "\n".join([*drawn, "</svg>"])


def round_ticks(most: float) -> list[tuple[float, str]]:
    """Return about five round numbers from 0 up to `most`."""
    if most <= 0:
        return [(0.0, "0")]
    step = 10.0 ** math.floor(math.log10(most / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= 5)
    return [
        (number * step, f"{number * step:,.{max(0, -math.floor(math.log10(step)))}f}")
        for number in range(int(most / step + 1e-9) + 1)
    ]
