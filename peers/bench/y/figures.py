"""`Run`: what one run in one mode has shown. `Figures`: all runs, as a table for people and as JSON for programs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from rich.table import Table
from rich.text import Text

from peers.bench.environment import Environment
from peers.bench.histogram import Histogram
from peers.bench.orders import Asked
from peers.bench.y.operation import Mode
from peers.bench.y.plan import Plan

__all__ = ["PROCESSES", "Figures", "Run"]

PROCESSES = ("requester", "hub", "adding", "multiplying")

_VERSION = 1
"""Of the JSON. Fields may be added; one that changes its meaning raises this."""

_OTHERS_PERCENT = 10.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run. CPU is what the system has charged to a process, user and kernel, ns for each pair of the run."""

    mode: Mode
    pairs: int
    wrong: int
    failed: int
    lost: int
    reasons: list[str]
    """Of failures."""
    elapsed_s: float
    pairs_per_s: float
    p50_us: float
    """0 but in mode `one`; so is `p99_us`."""
    p99_us: float
    requester_ns: float
    hub_ns: float
    """0 if its process is not known."""
    adding_ns: float
    """A service is asked for about half of the pairs; this is for each pair all the same, so that all can be added."""
    multiplying_ns: float
    others_percent: float
    """CPU that anything else on the machine has taken meanwhile, of one core; the hub too, if it is not known."""

    @property
    def flawless(self) -> bool:
        """Whether every pair got the one right result."""
        return not (self.wrong or self.failed or self.lost)

    @property
    def all_ns(self) -> float:
        """CPU of all processes for a pair."""
        return self.requester_ns + self.hub_ns + self.adding_ns + self.multiplying_ns

    @classmethod
    def of(cls, mode: Mode, asked: Asked, cpu_ns: dict[str, int]) -> Run:
        """Work out the figures.

        Args:
            mode: Of the run.
            asked: What the requester says.
            cpu_ns: Charged to each of `PROCESSES` meanwhile, and to the machine as a whole.
        """
        latency = Histogram.load(asked.latency)
        elapsed_s = max(asked.elapsed_ns, 1) / 1e9
        right = asked.pairs - asked.wrong - asked.failed - asked.lost
        each = {f"{name}_ns": cpu_ns[name] / max(1, asked.pairs) for name in PROCESSES}
        return cls(
            mode=mode,
            pairs=asked.pairs,
            wrong=asked.wrong,
            failed=asked.failed,
            lost=asked.lost,
            reasons=asked.reasons,
            elapsed_s=elapsed_s,
            pairs_per_s=right / elapsed_s,
            p50_us=latency.percentile(50) / 1000,
            p99_us=latency.percentile(99) / 1000,
            others_percent=max(0.0, cpu_ns["machine"] - sum(cpu_ns[name] for name in PROCESSES)) / elapsed_s / 1e7,
            **each,
        )


class _Row(NamedTuple):
    label: str
    unit: str
    value: Callable[[list[Run]], float]
    decimals: int = 0
    blank: bool = False
    """Whether 0 means that it is not known."""


def _median(name: str) -> Callable[[list[Run]], float]:
    return lambda runs: statistics.median(getattr(run, name) for run in runs)


def _sum(name: str) -> Callable[[list[Run]], float]:
    return lambda runs: sum(getattr(run, name) for run in runs)


_ERRORS = ("wrong", "failed", "lost")
_ROWS = (
    _Row("pairs", "pairs/s", _median("pairs_per_s")),
    _Row("pairs, lowest", "pairs/s", lambda runs: min(run.pairs_per_s for run in runs)),
    _Row("pairs, highest", "pairs/s", lambda runs: max(run.pairs_per_s for run in runs)),
    _Row("latency, p50", "µs", _median("p50_us"), 1, blank=True),
    _Row("latency, p99", "µs", _median("p99_us"), 1, blank=True),
    *(_Row(f"{name}'s CPU", "ns/pair", _median(f"{name}_ns"), 1, blank=True) for name in PROCESSES),
    _Row("CPU of all", "ns/pair", _median("all_ns"), 1),
    _Row("CPU of other work", "% of a core", _median("others_percent"), 1),
    _Row("pairs, all runs", "pairs", _sum("pairs")),
    *(_Row(name, "pairs", _sum(name)) for name in _ERRORS),
)


class Figures(msgspec.Struct, frozen=True):
    """All that was measured."""

    plan: Plan
    environment: Environment
    runs: dict[Mode, list[Run]]

    @property
    def flawless(self) -> bool:
        """Whether every pair got the one right result."""
        return all(run.flawless for runs in self.runs.values() for run in runs)

    def column(self, mode: Mode) -> str:
        """What stands over the figures of a mode."""
        plan = self.plan
        if mode == "one":
            return "one at a time"
        if mode == "many":
            return f"{plan.outstanding:,} outstanding"
        return f"batches of {plan.batch:,}{', shared memory' if plan.shared else ''}"

    def table(self) -> Table:
        """For a terminal: medians of the runs, and their extremes for the rate."""
        table = Table("", "unit", box=None, pad_edge=False, header_style="bold")
        for mode in self.runs:
            table.add_column(self.column(mode), justify="right")
        for row in _ROWS:
            values = [row.value(runs) for runs in self.runs.values()]
            shown = ["" if row.blank and not value else f"{value:,.{row.decimals}f}" for value in values]
            bad = row.label in _ERRORS and any(values)
            table.add_row(Text(row.label), Text(row.unit, style="dim"), *shown, style="bold red" if bad else "")
        return table

    def remarks(self) -> list[str]:
        """What a reader should know before trusting the figures."""
        said = []
        for mode, runs in self.runs.items():
            reasons = dict.fromkeys(reason for run in runs for reason in run.reasons)
            said += [f"{self.column(mode)}: {reason}" for reason in reasons]
        if not all(run.hub_ns for runs in self.runs.values() for run in runs):
            said.append("the hub's process is not known, so neither is its CPU time: --hub-pid tells it")
        if any(run.others_percent > _OTHERS_PERCENT for runs in self.runs.values() for run in runs):
            said.append("the machine had other work: compare CPU times, not rates, and repeat")
        return said

    def json(self) -> bytes:
        """For programs."""
        medians: dict[str, Any] = {
            mode: {
                name: statistics.median(getattr(run, name) for run in runs)
                for name in Run.__struct_fields__
                if isinstance(getattr(runs[0], name), int | float)
            }
            for mode, runs in self.runs.items()
        }
        document = {
            "benchmark": "y",
            "version": _VERSION,
            "environment": self.environment,
            "plan": self.plan,
            "runs": self.runs,
            "median": medians,
            "flawless": self.flawless,
            "remarks": self.remarks(),
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=1)
