"""`Summary`: of all runs the median and the spread of every figure, and how we compare to our goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from contestants import FLOOR, OURS
from measure import Run
from workloads import BEST, WORKLOADS, Goal, Workload

__all__ = ["Comparison", "Spread", "Summary", "ours"]


class Spread(NamedTuple):
    """One figure over the repeats."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One goal, and where we stand."""

    workload: str
    contestant: str
    goal: Goal
    ours: float
    theirs: float
    peer: str
    """Who that is: the goal's own, or the best one."""

    @property
    def ratio(self) -> float:
        """The ratio of ours to theirs."""
        return self.ours / self.theirs if self.theirs else float("inf")

    @property
    def met(self) -> bool:
        """Whether the ratio is good enough."""
        return self.ratio <= self.goal.ratio


def ours(contestant: str) -> bool:
    """Whether a contestant of that name is the hub, in whatever way."""
    return contestant == OURS or contestant.startswith(OURS + "-")


class Summary:
    """The runs, put together.

    Args:
        runs: All of them; those without figures count as faults.
    """

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
        """The workloads that were run."""
        names = {workload for workload, _ in self._spreads}
        return [workload for workload in WORKLOADS if workload.name in names]

    def contestants(self, workload: str) -> list[str]:
        """Who took part, ours first."""
        return [contestant for name, contestant in self._spreads if name == workload]

    def figures(self, workload: str, contestant: str) -> list[str]:
        """Return the names of what was measured."""
        return list(self._spreads.get((workload, contestant), {}))

    def spread(self, workload: str, contestant: str, figure: str) -> Spread | None:
        """Return one figure, None if there is none."""
        return self._spreads.get((workload, contestant), {}).get(figure)

    def best_peer(self, workload: str, figure: str) -> str:
        """Return the peer with the least of a figure, empty if there is none."""
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
