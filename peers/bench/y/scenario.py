"""`run_y`: the scenario from its plan to its report. A run that does not count comes before the first one of each mode.

Owner of the state: the command. Cost: `repeat` runs of each mode.
"""

from __future__ import annotations

import os
import secrets
import statistics
from collections.abc import Callable
from contextlib import ExitStack

from peers.bench.environment import Environment
from peers.bench.report import Report, Row, medians
from peers.bench.stage import Told
from peers.bench.y.asking import Ask
from peers.bench.y.cast import PROCESSES, Cast, Run
from peers.bench.y.plan import Mode, Plan
from peers.bench.y.workers import Setup, request, serve

__all__ = ["Runs", "run_y", "y_report"]

_WARM_UP_S = 0.3
_OTHERS_PERCENT = 10.0

Runs = dict[Mode, list[Run]]


def run_y(plan: Plan, tell: Told) -> Report:
    """Measure all modes of a plan.

    Args:
        plan: What to do.
        tell: Told of each run.

    Raises:
        BenchError: It cannot be done, or a process has failed.
    """
    plan.check()
    environment, cpus = Environment.here(), os.sched_getaffinity(0)
    runs: Runs = {}
    with ExitStack() as stack:
        hub = plan.find_hub((plan.transport,))
        stack.callback(hub.stop)
        setup = Setup(hub.url("tcp"), f"/y/{secrets.token_hex(4)}")
        adding, multiplying = setup._replace(operation="add"), setup._replace(operation="multiply")
        works = {"adding": (serve, adding), "multiplying": (serve, multiplying), "requester": (request, setup)}
        cast = Cast(stack, hub, works)
        for mode in plan.modes:
            for pid in cast.pids if plan.pin and not plan.urls else ():
                os.sched_setaffinity(pid, {max(cpus)} if mode == "one" else cpus)
            outstanding = 1 if mode == "one" else plan.outstanding
            warm_up = Ask(plan.pairs, min(_WARM_UP_S, plan.seconds), outstanding)
            cast.measure(warm_up, tell(f"{mode}, warming up"))
            order = Ask(plan.pairs, 0 if plan.pairs else plan.seconds, outstanding)
            told = [f"{mode}, run {number} of {plan.repeat}" for number in range(1, plan.repeat + 1)]
            runs[mode] = [cast.measure(order, tell(what)) for what in told]
    return y_report(plan, environment, runs)


def y_report(plan: Plan, environment: Environment, runs: Runs) -> Report:
    """Return what the runs show: a column for each mode."""
    columns = ["one at a time" if mode == "one" else f"{plan.outstanding:,} outstanding" for mode in runs]

    def row(label: str, unit: str, figure: Callable[[list[Run]], float], decimals: int = 0) -> Row:
        return Row.of(label, unit, [figure(each) for each in runs.values()], decimals)

    def median(name: str) -> Callable[[list[Run]], float]:
        return lambda each: statistics.median(getattr(run, name) for run in each)

    def known(label: str, unit: str, name: str) -> Row:
        made = row(label, unit, median(name), 1)
        return made._replace(shown=["" if shown == "0.0" else shown for shown in made.shown])

    def count(name: str) -> Row:
        made = row(name, "pairs", lambda each: sum(getattr(run, name) for run in each))
        return made._replace(bad=any(shown != "0" for shown in made.shown))

    every = [run for each in runs.values() for run in each]
    rows = [
        row("pairs", "pairs/s", median("pairs_per_s")),
        row("pairs, lowest", "pairs/s", lambda each: min(run.pairs_per_s for run in each)),
        row("pairs, highest", "pairs/s", lambda each: max(run.pairs_per_s for run in each)),
        known("latency, p50", "µs", "p50_us"),
        known("latency, p99", "µs", "p99_us"),
        *(known(f"{name}'s CPU", "ns/pair", f"{name}_ns") for name in PROCESSES),
        row("CPU of all", "ns/pair", median("all_ns"), 1),
        row("CPU of other work", "% of a core", median("others_percent"), 1),
        row("pairs, all runs", "pairs", lambda each: sum(run.pairs for run in each)),
        *(count(name) for name in ("wrong", "failed", "lost")),
    ]
    remarks = [
        f"{column}: {reason}"
        for column, each in zip(columns, runs.values(), strict=True)
        for reason in dict.fromkeys(reason for run in each for reason in run.reasons)
    ]
    if not all(run.hub_ns for run in every):
        remarks.append("the hub's process is not known, so neither is its CPU time: --hub-pid tells it")
    if any(run.others_percent > _OTHERS_PERCENT for run in every):
        remarks.append("the machine had other work: compare CPU times, not rates, and repeat")
    figures = {"runs": runs, "median": {mode: medians(each) for mode, each in runs.items()}}
    return Report("y", environment, plan, columns, rows, figures, all(run.flawless for run in every), remarks)
