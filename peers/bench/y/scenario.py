"""`run_y`: the scenario from its `Plan` to its report. A run that does not count comes before the first of each mode.

Owner of the state: the command. Cost: `repeat` runs of each mode.
"""

from __future__ import annotations

import os
import secrets
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from typing import Literal

from peers.bench.environment import Environment
from peers.bench.errors import PlanError
from peers.bench.report import Report, Row, medians
from peers.bench.running_hub import HubPlan
from peers.bench.stage import Told
from peers.bench.y.asking import Ask
from peers.bench.y.cast import PROCESSES, Cast, Run
from peers.bench.y.workers import Setup, request, serve
from peers.transport.endpoints import Endpoint, Scheme

__all__ = ["MODES", "Mode", "Plan", "Runs", "Transport", "run_y", "y_report"]

Mode = Literal["one", "many"]
"""Whether each pair is asked when the one before is answered, or many at a time."""

Transport = Literal["unix", "tcp"]
MODES: tuple[Mode, ...] = ("one", "many")

_OUTSTANDING_LIMIT = 65_536
"""What a hub lets a client have pending, unless told otherwise."""

_WARM_UP_S = 0.3

Runs = dict[Mode, list[Run]]


class Plan(HubPlan, frozen=True, kw_only=True):
    """One benchmark."""

    modes: tuple[Mode, ...] = MODES
    transport: Transport = "unix"
    """How all are connected to a hub that is started."""
    outstanding: int = 1_024
    """Pairs that are asked and not yet answered, in mode `many`."""
    seconds: float = 3.0
    """How long each run is."""
    pairs: int = 0
    """How many pairs each run has, instead of a time."""
    repeat: int = 3
    """Runs of each mode; the median counts."""
    pin: bool = True
    """Whether all processes share one CPU in mode `one`, where only one of them has something to do at a time: an idle
    CPU takes longer to wake up than the work takes. This does not hold for a hub that runs already."""

    def check(self) -> Plan:
        """Return the plan, if it can be carried out.

        Raises:
            PlanError: It cannot; the text names the option.
        """
        self.check_hub(
            [
                ("outstanding", self.outstanding, 1, _OUTSTANDING_LIMIT),
                ("seconds", self.seconds, 0.001, 3_600),
                ("pairs", self.pairs, 0, 10**12),
                ("repeat", self.repeat, 1, 1_000),
            ]
        )
        if not self.modes or len(set(self.modes)) != len(self.modes):
            raise PlanError(f"--mode: each once, of {', '.join(MODES)}")
        if len(self.urls) > 1 or not {Endpoint.parse(url).scheme for url in self.urls} <= {Scheme.TCP, Scheme.UNIX}:
            raise PlanError("--url: one tcp:// or unix:// url expected")
        return self


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
            cast.measure(Ask(plan.pairs, min(_WARM_UP_S, plan.seconds), outstanding))
            order, runs[mode] = Ask(plan.pairs, 0 if plan.pairs else plan.seconds, outstanding), []
            for number in range(1, plan.repeat + 1):
                tell(f"{mode}, run {number} of {plan.repeat}")
                runs[mode].append(cast.measure(order))
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
    figures = {"runs": runs, "median": {mode: medians(each) for mode, each in runs.items()}}
    return Report("y", environment, plan, columns, rows, figures, all(run.flawless for run in every), remarks)
