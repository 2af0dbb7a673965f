"""`Figure`: one number that the hub is to reach; `Scope`: how thoroughly it is measured."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from peers.bench.measurement import Measurement
from peers.bench.report import Environment, Report, Row
from peers.bench.stage import Plan, Told

TOO_SLOW = "the machine is too busy"
"""What is found fault with where a client could not do what it was to do in time."""


class Scope(NamedTuple):
    base: Plan
    """It says the CPUs and the flags of the hub."""
    repeat: int
    """How often each figure is measured."""
    scale: float
    """It is 1 for what the goals say, and less for a quick look, whose figures are no figures."""
    tell: Told

    def plan(self, **fields: Any) -> Plan:
        return dataclasses.replace(self.base, **fields)

    def scaled(self, count: float, least: int = 1) -> int:
        return max(least, round(count * self.scale))


def in_pairs(repeat: int, measure: Callable[[bool], Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """Measure without something and with it, by turns; each repeat begins with the other one."""
    runs: dict[bool, list[Measurement]] = {False: [], True: []}
    for number in range(repeat):
        for is_with in (number % 2 == 1, number % 2 == 0):
            runs[is_with].append(measure(is_with))
    return runs[False], runs[True]


def faults(runs: Iterable[Measurement]) -> list[str]:
    return [
        f"{run.delivered:,} of {run.expected:,} delivered, {run.lost:,} lost ({run.told:,} told), "
        f"{run.out_of_order:,} out of order"
        for run in runs
        if not run.flawless
    ]


class Figure(msgspec.Struct, frozen=True):
    name: str
    goal: float
    unit: str
    values: list[float]
    """What was measured, a value for each repeat."""
    at_least: bool = False
    """Whether more is better, else less is."""
    faults: list[str] = []
    """What was wrong beside the number, such as lost messages; then the goal is not reached."""
    remark: str = ""

    @property
    def measured(self) -> float:
        return statistics.median(self.values) if self.values else math.nan

    @property
    def reached(self) -> bool:
        good = self.measured >= self.goal if self.at_least else self.measured <= self.goal
        return good and not self.faults


def figures_report(environment: Environment, plan: Plan, figures: list[Figure], remarks: list[str]) -> Report:
    rows = []
    for figure in figures:
        goal = f"{'≥' if figure.at_least else '≤'} {_shown(figure.goal)}"
        lowest, highest = (most(figure.values, default=math.nan) for most in (min, max))
        shown = [goal, *map(_shown, (figure.measured, lowest, highest)), "ok" if figure.reached else "not reached"]
        rows.append(Row(figure.name, figure.unit, shown, bad=not figure.reached))
        rows += [Row(f"  {fault}", "", (), bad=True) for fault in figure.faults]
        if figure.remark:
            rows.append(Row(f"  {figure.remark}", "", ()))
    every = [
        msgspec.structs.asdict(figure) | {"measured": figure.measured, "reached": figure.reached} for figure in figures
    ]
    reached = all(figure.reached for figure in figures)
    columns = ("goal", "measured", "lowest", "highest", "")
    return Report("targets", environment, plan, columns, rows, {"figures": every}, reached, remarks)


def _shown(value: float) -> str:
    if math.isnan(value):
        return "-"
    magnitude = abs(value)
    if magnitude >= 100 or value == 0:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 1 else f"{value:.3f}"
