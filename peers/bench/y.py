"""`hub bench scenario y`: pairs of numbers go through the hub to a service that adds and to one that multiplies.

The requester checks every result. All are processes that use the client library, as a user's programs do.
"""

from __future__ import annotations

import os
import secrets
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from types import NoneType
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from peers.bench.pairs import Ask, Asked, Setup, request, serve
from peers.bench.processes import HUB, HubPlan, PlanError, RunningHub, Work, Worker, option, read_usage
from peers.bench.report import Environment, Report, Row, medians
from peers.bench.stage import Told
from peers.transport.endpoints import Endpoint, Scheme

PROCESSES = ("requester", "hub", "adding", "multiplying")

_START_S = 60.0
_HUNG_S = 90.0
"""A requester that has not answered so long after its time has hung."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run. CPU is user and system time of a process, ns for each pair of the run, also for the services."""

    pairs: int
    wrong: int
    failed: int
    lost: int
    reasons: list[str]
    elapsed_s: float
    pairs_per_s: float
    p50_us: float
    """0 if more than one pair at a time was asked, as is `p99_us`."""
    p99_us: float
    requester_ns: float
    hub_ns: float
    """0 if the hub's process is not known."""
    adding_ns: float
    multiplying_ns: float
    all_ns: float

    @property
    def flawless(self) -> bool:
        return not (self.wrong or self.failed or self.lost)

    @classmethod
    def of(cls, asked: Asked, cpu_ns: dict[str, int]) -> Run:
        """Return the figures of a run, with the CPU time of each process."""
        elapsed_s = max(asked.elapsed_ns, 1) / 1e9
        figures: dict[str, Any] = {f"{name}_ns": used / max(1, asked.pairs) for name, used in cpu_ns.items()}
        figures |= {name: getattr(asked, name) for name in ("pairs", "wrong", "failed", "lost", "reasons")}
        return cls(
            elapsed_s=elapsed_s,
            pairs_per_s=(asked.pairs - asked.wrong - asked.failed - asked.lost) / elapsed_s,
            p50_us=asked.latency.percentile(50) / 1000,
            p99_us=asked.latency.percentile(99) / 1000,
            all_ns=sum(cpu_ns.values()) / max(1, asked.pairs),
            **figures,
        )


Mode = Literal["one", "many", "arrays", "shared"]

_ARRAYS = frozenset({"arrays", "shared"})
_OUTSTANDING_LIMIT = 65_536
"""The hub's default for requests that a client may have pending."""

_WARM_UP_S = 0.3

Runs = dict[Mode, list[Run]]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class YPlan(HubPlan):
    """The flags of the benchmark."""

    modes: Annotated[
        tuple[Mode, ...],
        option(
            "How pairs are sent; repeatable. one: each after the answer to the previous. many: --outstanding at once. "
            "arrays: as bytes. shared: as arrays in shared memory. Default: one and many.",
            name="--mode",
            show_default=False,
        ),
    ] = ("one", "many")
    outstanding: Annotated[int, option("many: pairs that wait for an answer.")] = 1_024
    batch: Annotated[int, option("arrays, shared: pairs made at a time.")] = 65_536
    batches: Annotated[int, option("arrays, shared: batches that wait for an answer.")] = 8
    transport: Annotated[Literal["unix", "tcp"], option("Transport of all connections to the hub.")] = "unix"
    seconds: Annotated[float, option("Time of each run.")] = 3.0
    pairs: Annotated[int, option("Pairs of each run, instead of a time.")] = 0
    repeat: Annotated[int, option("Runs of each mode; the median counts.")] = 3
    # An idle CPU takes longer to wake up than the work takes. A hub that runs already is not bound.
    pin: Annotated[
        bool, option("one: all processes share one CPU, as only one works at a time.", HUB, negative="--no-pin")
    ] = True

    def check(self) -> YPlan:
        """Return the plan; raise `PlanError`, which names the option, if it cannot be carried out."""
        self.check_hub(
            [
                ("outstanding", self.outstanding, 1, _OUTSTANDING_LIMIT),
                ("batch", self.batch, 1, 1 << 22),
                ("batches", self.batches, 1, 1_024),
                ("seconds", self.seconds, 0.001, 3_600),
                ("pairs", self.pairs, 0, 10**12),
                ("repeat", self.repeat, 1, 1_000),
            ]
        )
        if not self.modes or len(set(self.modes)) != len(self.modes):
            raise PlanError("--mode: each once")
        if _ARRAYS.intersection(self.modes) and find_spec("numpy") is None:
            raise PlanError("--mode: arrays need NumPy: pip install numpy")
        if "shared" in self.modes and self.transport != "unix":
            raise PlanError("--mode: memory can only be shared over a Unix socket, --transport unix")
        if len(self.urls) > 1 or not {Endpoint.parse(url).scheme for url in self.urls} <= {Scheme.TCP, Scheme.UNIX}:
            raise PlanError("--url: one tcp:// or unix:// url expected")
        return self


def run_y(plan: YPlan, tell: Told) -> Report:
    """Measure all modes of a plan; raise `BenchError` if it cannot be done, or a process has failed."""
    plan.check()
    environment, cpus = Environment.here(), os.sched_getaffinity(0)
    runs: Runs = {}
    with ExitStack() as stack:
        hub = plan.find_hub((plan.transport,))
        stack.callback(hub.stop)
        for mode in plan.modes:
            with ExitStack() as ending:
                workers: dict[str, Worker] = {}
                for name, (work, setup) in _works(plan, mode, hub.url("tcp"), f"/y/{secrets.token_hex(4)}").items():
                    workers[name] = worker = Worker(name, work, setup)
                    ending.callback(worker.stop)
                    worker.take(NoneType, _START_S)
                for pid in (
                    (hub.pid, *(worker.pid for worker in workers.values())) if plan.pin and not plan.urls else ()
                ):
                    os.sched_setaffinity(pid, {max(cpus)} if mode == "one" else cpus)
                outstanding = 1 if mode == "one" else plan.batches if mode in _ARRAYS else plan.outstanding
                _measure(hub, workers, Ask(plan.pairs, min(_WARM_UP_S, plan.seconds), outstanding))
                order, runs[mode] = Ask(plan.pairs, 0 if plan.pairs else plan.seconds, outstanding), []
                for number in range(1, plan.repeat + 1):
                    tell(f"{mode}, run {number} of {plan.repeat}")
                    runs[mode].append(_measure(hub, workers, order))
    return y_report(plan, environment, runs)


def _measure(hub: RunningHub, workers: dict[str, Worker], order: Ask) -> Run:
    def cpu_ns() -> dict[str, int]:
        return {name: read_usage(worker.pid).cpu_ns for name, worker in workers.items()} | {"hub": hub.usage().cpu_ns}

    before = cpu_ns()
    workers["requester"].order(order)
    asked = workers["requester"].take(Asked, order.seconds + _HUNG_S if order.seconds else None)
    after = cpu_ns()
    return Run.of(asked, {name: after[name] - before[name] for name in PROCESSES})


def _works(plan: YPlan, mode: Mode, url: str, topic: str) -> dict[str, tuple[Work, Any]]:
    """Return the functions of the requester and the services, and their set-ups."""
    if mode in _ARRAYS:
        from peers.bench import arrays  # noqa: PLC0415 -- NumPy is optional

        asking = arrays.ArraySetup(url, topic, mode == "shared", plan.batch, plan.batches)
        multiplying = asking._replace(operation=arrays.Operation.MULTIPLY)
        return {
            "adding": (arrays.serve_arrays, asking),
            "multiplying": (arrays.serve_arrays, multiplying),
            "requester": (arrays.request_arrays, asking),
        }
    setup = Setup(url, topic)
    adding, multiply = setup._replace(operation="add"), setup._replace(operation="multiply")
    return {"adding": (serve, adding), "multiplying": (serve, multiply), "requester": (request, setup)}


def _title(plan: YPlan, mode: Mode) -> str:
    if mode in _ARRAYS:
        return f"{mode}, {plan.batches} batches of {plan.batch:,}"
    return "one at a time" if mode == "one" else f"{plan.outstanding:,} outstanding"


def y_report(plan: YPlan, environment: Environment, runs: Runs) -> Report:
    columns = [_title(plan, mode) for mode in runs]

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
        remarks.append("the hub's process is not known, so its CPU time is missing: give --hub-pid")
    figures = {"runs": runs, "median": {mode: medians(each) for mode, each in runs.items()}}
    return Report("y", environment, plan, columns, rows, figures, all(run.flawless for run in every), remarks)
