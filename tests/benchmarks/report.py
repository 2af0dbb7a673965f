"""`Summary`: of all runs median and spread of every figure, and our goals; as tables, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console

from tests.benchmarks.brokers import FLOOR, OURS
from tests.benchmarks.workloads import BEST, WORKLOADS, Goal, Workload


@dataclass(frozen=True, slots=True)
class Run:
    workload: str
    contestant: str
    repeat: int
    figures: dict[str, float] = field(default_factory=dict)
    wrong: str = ""
    """What was seen, if messages were lost, repeated, exchanged or damaged."""
    failed: str = ""
    """Why it did not come to an end, if it did not."""


class Spread(NamedTuple):
    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Comparison:
    workload: str
    contestant: str
    goal: Goal
    ours: float
    theirs: float
    peer: str
    """Who that is: the goal's own, or the best one."""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.theirs else float("inf")

    @property
    def met(self) -> bool:
        return self.ratio <= self.goal.ratio


def ours(contestant: str) -> bool:
    return contestant == OURS or contestant.startswith(OURS + "-")


class Summary:
    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.faults = [run for run in runs if run.wrong or run.failed]
        values: dict[tuple[str, str], dict[str, list[float]]] = {}
        for run in runs:
            figures = values.setdefault((run.workload, run.contestant), {})
            for name, value in run.figures.items():
                figures.setdefault(name, []).append(value)
        self._spreads = {
            key: {name: Spread(median(of), min(of), max(of)) for name, of in figures.items()}
            for key, figures in values.items()
        }

    @property
    def workloads(self) -> list[Workload]:
        names = {workload for workload, _ in self._spreads}
        return [workload for workload in WORKLOADS if workload.name in names]

    def contestants(self, workload: str) -> list[str]:
        return [contestant for name, contestant in self._spreads if name == workload]

    def figures(self, workload: str, contestant: str) -> list[str]:
        return list(self._spreads.get((workload, contestant), {}))

    def spread(self, workload: str, contestant: str, figure: str) -> Spread | None:
        return self._spreads.get((workload, contestant), {}).get(figure)

    def best_peer(self, workload: str, figure: str) -> str:
        peers = {
            contestant: spread.median
            for contestant in self.contestants(workload)
            if not ours(contestant)
            and contestant != FLOOR
            and (spread := self.spread(workload, contestant, figure)) is not None
        }
        return min(peers, key=peers.__getitem__, default="")

    def comparisons(self) -> list[Comparison]:
        """Return where we stand, goal by goal; goals whose peers did not run are left out."""
        return [
            comparison
            for workload in self.workloads
            for contestant, goals in ((OURS, workload.goals), (OURS + "-batch", workload.batch_goals))
            for comparison in self._compared(workload, contestant, goals)
        ]

    def _compared(self, workload: Workload, contestant: str, goals: Iterable[Goal]) -> Iterable[Comparison]:
        for goal in goals:
            where = goal.workload or workload.name
            peer = self.best_peer(where, goal.figure) if goal.peer == BEST else goal.peer
            mine = self.spread(workload.name, contestant, goal.figure)
            theirs = self.spread(where, peer, goal.figure)
            if mine is not None and theirs is not None:
                yield Comparison(workload.name, contestant, goal, mine.median, theirs.median, peer)

    def disturbance(self) -> float:
        """Median CPU, in cores, that other processes used while something was measured."""
        loads = [run.figures["others_load"] for run in self.runs if "others_load" in run.figures]
        return median(loads) if loads else 0.0


def figure_text(name: str, value: float) -> str:
    if name == "peak_bytes":
        return f"{value / 2**20:,.1f}"
    if name.endswith("_load"):
        return f"{value:.0%}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def tell_faults(summary: Summary, console: Console) -> None:
    disturbance = summary.disturbance()
    if disturbance > _QUIET_LOAD:
        console.print(
            f"[yellow]The machine was not quiet: others used {disturbance:.2f} CPUs meanwhile. "
            "CPU figures are too high, latencies and rates are worth nothing.[/]"
        )
    for run in summary.faults:
        what = "LOST OR OUT OF ORDER" if run.wrong else "FAILED"
        text = f"{run.workload}, {run.contestant}, repeat {run.repeat}: {run.wrong or run.failed}"
        console.print(f"[bold red]{what}[/] {text}", highlight=False)


def write_json(summary: Summary, about: dict[str, str], settings: dict[str, Any], file: Path) -> None:
    medians = {
        workload.name: {
            contestant: {
                name: spread._asdict()
                for name in summary.figures(workload.name, contestant)
                if (spread := summary.spread(workload.name, contestant, name)) is not None
            }
            for contestant in summary.contestants(workload.name)
        }
        for workload in summary.workloads
    }
    goals = [asdict(one) | {"ratio": one.ratio, "met": one.met} for one in summary.comparisons()]
    whole = {
        "about": about,
        "settings": settings,
        "others_load": summary.disturbance(),
        "summary": medians,
        "goals": goals,
        "runs": [asdict(run) for run in summary.runs],
    }
    file.write_text(json.dumps(whole, indent=1) + "\n")


_QUIET_LOAD = 0.1
"""If others use more CPU than this, in cores, the figures are not worth much."""

_TABLES: tuple[tuple[str, str], ...] = (
    ("cpu_us", "µs of server CPU a delivered message"),
    ("p50_us", "latency p50, µs"),
    ("p99_us", "latency p99, µs"),
    ("connection_bytes", "memory of a connection, bytes"),
    ("subscription_bytes", "memory of a subscription, bytes"),
)


def markdown(summary: Summary, about: dict[str, str]) -> str:
    """Return the tables of docs/performance.md: medians with their spread, ratios to the best peer, goals."""
    parts = [_table(summary, figure, heading) for figure, heading in _TABLES]
    parts.append(_goals(summary))
    parts.append("".join(f"* {name}: {text}\n" for name, text in about.items()))
    return "\n".join(part for part in parts if part)


def _table(summary: Summary, figure: str, heading: str) -> str:
    workloads = [workload for workload in summary.workloads if any(_measured(summary, workload, figure))]
    if not workloads:
        return ""
    present = {name for workload in workloads for name in _measured(summary, workload, figure)}
    order = dict.fromkeys(name for workload in summary.workloads for name in summary.contestants(workload.name))
    contestants = [name for name in order if name in present]
    head = _row([heading, *contestants, "hub ÷ best peer"]) + _row(["---"] * (len(contestants) + 2))
    return head + "".join(_row(_cells(summary, workload, figure, contestants)) for workload in workloads)


def _measured(summary: Summary, workload: Workload, figure: str) -> Iterator[str]:
    for name in summary.contestants(workload.name):
        if summary.spread(workload.name, name, figure) is not None:
            yield name


def _cells(summary: Summary, workload: Workload, figure: str, contestants: Sequence[str]) -> list[str]:
    cells = [workload.title]
    for name in contestants:
        spread = summary.spread(workload.name, name, figure)
        if spread is None:
            cells.append("")
            continue
        text = figure_text(figure, spread.median)
        bold = f"**{text}**" if ours(name) else text
        cells.append(f"{bold} ({figure_text(figure, spread.least)} to {figure_text(figure, spread.most)})")
    best = summary.spread(workload.name, summary.best_peer(workload.name, figure), figure)
    mine = summary.spread(workload.name, "hub", figure)
    cells.append(f"{mine.median / best.median:.2f}" if mine is not None and best is not None else "")
    return cells


def _goals(summary: Summary) -> str:
    comparisons = summary.comparisons()
    if not comparisons:
        return ""
    titles = {workload.name: workload.title for workload in summary.workloads}
    rows = [
        _row(
            [
                titles[one.workload] + (" (batches)" if one.contestant != "hub" else ""),
                one.goal.figure.removesuffix("_us"),
                f"≤ {one.goal.ratio:g} of {one.peer} {one.goal.workload}".rstrip(),
                f"{one.ratio:.3f}",
                "" if one.met else "**missed**",
            ]
        )
        for one in comparisons
    ]
    return _row(["goal", "figure", "at most", "ratio", ""]) + _row(["---"] * 5) + "".join(rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
