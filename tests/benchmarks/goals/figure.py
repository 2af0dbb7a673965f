"""`Figure`: one number that the hub is to reach, what it is, and whether it is reached."""

from __future__ import annotations

import math
import statistics

import msgspec
from rich.table import Table
from rich.text import Text

from peers.bench.environment import Environment

__all__ = ["Figure", "Figures"]


class Figure(msgspec.Struct, frozen=True):
    """One of the goals."""

    name: str
    goal: float
    unit: str
    values: list[float]
    """One for each repeat."""
    at_least: bool = False
    """Whether more is better; else less is."""
    faults: list[str] = []
    """What was wrong beside the number, such as lost messages; then the goal is not reached."""
    remark: str = ""

    @property
    def measured(self) -> float:
        """The median; not a number if it could not be measured."""
        return statistics.median(self.values) if self.values else math.nan

    @property
    def reached(self) -> bool:
        """Whether the median is as good as the goal, and nothing else is wrong."""
        good = self.measured >= self.goal if self.at_least else self.measured <= self.goal
        return good and not self.faults


class Figures(msgspec.Struct, frozen=True):
    """All that were measured."""

    environment: Environment
    figures: list[Figure]

    def table(self) -> Table:
        """For a terminal."""
        table = Table("figure", box=None, pad_edge=False, header_style="bold")
        for column in ("goal", "measured", "lowest", "highest"):
            table.add_column(column, justify="right")
        table.add_column("unit")
        table.add_column("")
        for figure in self.figures:
            goal = f"{'≥' if figure.at_least else '≤'} {_shown(figure.goal)}"
            verdict = Text("ok", style="green") if figure.reached else Text("not reached", style="bold red")
            shown = map(
                _shown, (figure.measured, min(figure.values, default=math.nan), max(figure.values, default=math.nan))
            )
            table.add_row(Text(figure.name), goal, *shown, Text(figure.unit, style="dim"), verdict)
            for fault in figure.faults:
                table.add_row(Text(f"  {fault}", style="red"))
            if figure.remark:
                table.add_row(Text(f"  {figure.remark}", style="dim"))
        return table

    def json(self) -> bytes:
        """For programs."""
        document = {
            "benchmark": "targets",
            "version": 1,
            "environment": self.environment,
            "figures": [
                msgspec.structs.asdict(figure) | {"measured": figure.measured, "reached": figure.reached}
                for figure in self.figures
            ],
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=1)


def _shown(value: float) -> str:
    """Three digits that matter."""
    if math.isnan(value):
        return "-"
    magnitude = abs(value)
    if magnitude >= 100 or value == 0:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 1 else f"{value:.3f}"
