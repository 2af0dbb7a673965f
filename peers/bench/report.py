"""`Report`: what a benchmark has found: a table for people, and JSON for programs; the same for all benchmarks.

A report is a frozen value. What stands in it is up to the benchmark: `stream`, `idle_peers`, `y`, and the goals in
`tests/benchmarks`. Not here: the page with plots (`plot`), and where the output goes (`peers.cli.bench`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from rich.table import Table
from rich.text import Text

from peers.bench.environment import Environment

__all__ = ["Report", "Row", "medians"]

_VERSION = 2
"""The version of the JSON. Fields may be added; one that goes or changes its meaning raises this."""


_LOAD = 0.5
_BUSY = "the machine had other work: compare CPU times, not rates, and repeat"


class Row(NamedTuple):
    """One line of a table."""

    label: str
    unit: str
    shown: Sequence[str]
    """The figures, one for each column."""
    bad: bool = False
    """Whether it tells of something that should not be."""

    @classmethod
    def of(cls, label: str, unit: str, values: Sequence[float], decimals: int = 0, *, bad: bool = False) -> Row:
        """Write out numbers with so many decimals."""
        return cls(label, unit, [f"{value:,.{decimals}f}" for value in values], bad)


class Report(NamedTuple):
    """A benchmark that was run."""

    benchmark: str
    """Its name, for programs."""
    environment: Environment
    plan: msgspec.Struct
    columns: Sequence[str]
    """What stands over the figures."""
    rows: Sequence[Row]
    figures: dict[str, Any]
    """What the JSON has in place of the table."""
    flawless: bool
    """Whether nothing is wrong with what was measured."""
    said: Sequence[str] = ()
    """What the benchmark says of itself; see `remarks`."""

    @property
    def remarks(self) -> list[str]:
        """What a reader should know before trusting the figures."""
        return [*self.said, *([_BUSY] if self.environment.load > _LOAD else [])]

    def table(self) -> Table:
        """Return the table for a terminal."""
        table = Table("", "unit", box=None, pad_edge=False, header_style="bold")
        for column in self.columns:
            table.add_column(column, justify="right")
        for row in self.rows:
            table.add_row(Text(row.label), Text(row.unit, style="dim"), *row.shown, style="bold red" if row.bad else "")
        return table

    def json(self) -> bytes:
        """Return the figures for programs."""
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
    """Return the median of each figure by itself; figures of figures, such as latencies, have their own medians."""
    found: dict[str, Any] = {}
    for name in runs[0].__struct_fields__:
        values = [getattr(run, name) for run in runs]
        if all(isinstance(value, int | float) for value in values):
            found[name] = statistics.median(values)
        elif all(isinstance(value, msgspec.Struct) for value in values):
            found[name] = medians(values)
    return found
