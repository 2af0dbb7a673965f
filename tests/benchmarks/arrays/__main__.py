"""Measure pairs of numbers that travel in arrays. The exit code is 0 if every pair got its result, 3 if not."""

from __future__ import annotations

import argparse
import secrets
import statistics
import sys
from contextlib import ExitStack

from hub.errors import HubError
from peers.bench.environment import Environment
from peers.bench.report import Report, Row, medians
from peers.bench.y.asking import Ask
from peers.bench.y.cast import PROCESSES, Cast, Run
from peers.bench.y.scenario import Plan
from peers.cli.bench.output import EXIT_FLAWED, Output, shown_progress
from tests.benchmarks.arrays.records import Operation
from tests.benchmarks.arrays.workers import ArraySetup, request, serve

_WARM_UP_S = 0.3


def _measure(given: argparse.Namespace, plan: Plan) -> list[Run]:
    with shown_progress(shown=True) as tell, ExitStack() as stack:
        hub = plan.find_hub((plan.transport,))
        stack.callback(hub.stop)
        topic = f"/arrays/{secrets.token_hex(4)}"
        setup = ArraySetup(hub.url("tcp"), topic, given.shared, given.batch, given.batches)
        multiplying = setup._replace(operation=Operation.MULTIPLY)
        works = {"adding": (serve, setup), "multiplying": (serve, multiplying), "requester": (request, setup)}
        cast = Cast(stack, hub, works)
        cast.measure(Ask(plan.pairs, _WARM_UP_S, given.batches))
        order = Ask(plan.pairs, 0 if plan.pairs else plan.seconds, given.batches)
        runs = []
        for number in range(1, plan.repeat + 1):
            tell(f"run {number} of {plan.repeat}")
            runs.append(cast.measure(order))
        return runs


def _report(given: argparse.Namespace, plan: Plan, environment: Environment, runs: list[Run]) -> Report:
    names = (
        "pairs_per_s",
        *(f"{name}_ns" for name in PROCESSES),
        "all_ns",
        "wrong",
        "failed",
        "lost",
    )
    rows = []
    for name in names:
        values = [getattr(run, name) for run in runs]
        unit = "pairs/s" if name == "pairs_per_s" else "ns/pair" if name.endswith("_ns") else "pairs"
        bad = name in {"wrong", "failed", "lost"} and any(values)
        decimals = 1 if name.endswith("_ns") else 0
        rows.append(Row.of(name, unit, [*values, statistics.median(values)], decimals, bad=bad))
    how = f"batches of {given.batch:,}, {given.batches} outstanding{', shared memory' if given.shared else ''}"
    columns = [*(f"run {number + 1}" for number in range(len(runs))), "median"]
    figures = {"runs": runs, "median": medians(runs), "how": how}
    reasons = dict.fromkeys(reason for run in runs for reason in run.reasons)
    flawless = all(run.flawless for run in runs)
    return Report("arrays", environment, plan, columns, rows, figures, flawless, [how, *reasons])


def main() -> int:
    """Measure as the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(prog="arrays", description=(__doc__ or "").partition(".")[0])
    parser.add_argument("--shared", action="store_true", help="arrays travel in shared memory, over a Unix socket")
    parser.add_argument("--transport", choices=("unix", "tcp"), default="unix")
    parser.add_argument("--batch", type=int, default=65_536, help="pairs that are made at a time")
    parser.add_argument("--batches", type=int, default=8, help="batches asked and not yet answered")
    parser.add_argument("--seconds", type=float, default=3.0, help="time of each run")
    parser.add_argument("--pairs", type=int, default=0, help="pairs of each run, instead of a time")
    parser.add_argument("--repeat", type=int, default=3, help="runs; the median counts")
    parser.add_argument("--json", dest="output", type=lambda path: Output(json=path), default=Output())
    given = parser.parse_args()
    if given.shared and given.transport != "unix":
        parser.error("--shared: memory can only be shared over a Unix socket")
    environment = Environment.here()
    plan = Plan(transport=given.transport, seconds=given.seconds, pairs=given.pairs, repeat=given.repeat)
    try:
        report = _report(given, plan, environment, _measure(given, plan.check()))
    except HubError as error:
        print(f"arrays: {error}", file=sys.stderr)  # noqa: T201 -- a program
        return 1
    given.output.write(report)
    return 0 if report.flawless else EXIT_FLAWED


if __name__ == "__main__":
    sys.exit(main())
