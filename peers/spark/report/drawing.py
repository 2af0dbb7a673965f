"""Rates over time as lines for a plot: one step a bucket, 0 where nothing came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from peers.console.line_plot import COLOURS, line_plot
from peers.spark.report.findings import OTHERS, Findings, Rate
from peers.spark.report.steps import time_ticks

__all__ = ["COLOURS", "drawn_names", "rates_drawing", "step_line"]

_STEPS_DRAWN = 720
"""A drawing is so many pixels wide: buckets beyond that are drawn together."""

_SECOND_US = 1_000_000


def drawn_names(rates: Iterable[Rate], order: Sequence[str]) -> list[str]:
    """Return which of the rates are drawn: as many as there are colours, in that order, `OTHERS` last."""
    there = {rate.name for rate in rates}
    return [name for name in (*order, OTHERS) if name in there][: len(COLOURS)]


def rates_drawing(findings: Findings, rates: Iterable[Rate], names: Sequence[str]) -> str:
    """Return an SVG of messages a second.

    Args:
        findings: Time and buckets.
        rates: By name and time.
        names: What to draw, each in its colour.
    """
    bucket_us = findings.bucket_us
    start_us = findings.total.first_us // bucket_us * bucket_us
    buckets = (findings.total.last_us - start_us) // bucket_us + 1
    together = -(-buckets // _STEPS_DRAWN)
    steps = -(-buckets // together)
    counts: dict[str, dict[int, int]] = {name: {} for name in names}
    for rate in rates:
        count = counts.get(rate.name)
        if count is not None:
            step = (rate.start_us - start_us) // bucket_us // together
            count[step] = count.get(step, 0) + rate.messages
    width_s = together * bucket_us / _SECOND_US
    lines = [step_line(counts[name], steps, width_s) for name in names]
    return line_plot(lines, "", "messages/s", time_ticks(start_us, start_us + int(steps * width_s * _SECOND_US)))


def step_line(counts: dict[int, int], steps: int, width_s: float) -> list[tuple[float, float]]:
    """Return a line of steps; where neighbours are equal, their common points are left out.

    Args:
        counts: Messages by the number of the step.
        steps: How many there are.
        width_s: Of each.
    """
    line: list[tuple[float, float]] = []
    for step in range(steps):
        height = counts.get(step, 0) / width_s
        if line and line[-1][1] == height:
            line.pop()
        else:
            line.append((step * width_s, height))
        line.append(((step + 1) * width_s, height))
    return line
