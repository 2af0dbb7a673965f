"""Measure the goals of the project for its hub, each with a hub of its own.

    python -m tests.benchmarks.goals [--only one-topic --only churn-1000] [--repeat 3] [--scale 0.1] [--json FILE]

Exit code 0 if all are reached, 3 if not, 1 if they cannot be measured, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from hub.errors import HubError
from hub.limits import Overflow
from peers.bench.processes import BenchError, raise_descriptor_limit
from peers.bench.report import Environment
from peers.bench.stage import Plan
from peers.cli.bench import EXIT_FLAWED, Output, shown_progress
from tests.benchmarks.goals.figure import Figure, Scope, figures_report
from tests.benchmarks.goals.journal import beside_history, confirmed, history, live, written
from tests.benchmarks.goals.memory import connections, stalled, stalled_queues, subscriptions
from tests.benchmarks.goals.streams import churn, fan_out, idle, streams

GOALS: dict[str, Callable[[Scope], list[Figure]]] = {
    "one-topic": partial(streams, topics=1, goal_us=0.4),
    "topics-16": partial(streams, topics=16, goal_us=0.8),
    "topics-10000": partial(streams, topics=10_000, goal_us=1.2),
    "batches-16": partial(streams, values=16, goal_us=0.05),
    "batches-100": partial(streams, values=100, goal_us=0.05),
    "batches-600": partial(streams, values=600, goal_us=0.05),
    "idle": partial(idle, goal_percent=2),
    "websocket": partial(fan_out, burst=1, goal_us=6),
    "websocket-coalesced": partial(fan_out, burst=16, goal_us=1),
    "memory-websocket": partial(connections, transport="ws", goal_kib=12),
    "memory-tcp": partial(connections, transport="tcp", goal_kib=8),
    "memory-subscription": partial(subscriptions, goal_bytes=450),
    "memory-stalled": partial(stalled_queues, goal_mib=130),
    "churn-1000": partial(churn, pairs_per_s=1000, goal_percent=5),
    "churn-2000": partial(churn, pairs_per_s=2000, goal_percent=5),
    "stalled-drop-oldest": partial(stalled, overflow=Overflow.DROP_OLDEST, goal_percent=95),
    "stalled-drop-newest": partial(stalled, overflow=Overflow.DROP_NEWEST, goal_percent=95),
    "stalled-disconnect": partial(stalled, overflow=Overflow.DISCONNECT, goal_percent=95),
    "journal-live": partial(live, goal_percent=60),
    "journal-written": partial(written, goal_per_s=600_000),
    "journal-confirmed": partial(confirmed, frames_per_s=10_000, values=1, percentile=50, goal_ms=25),
    "journal-confirmed-frames": partial(confirmed, frames_per_s=1_000, values=100, percentile=99, goal_ms=25),
    "journal-read": partial(history, goal_per_s=1_000_000),
    "journal-beside": partial(beside_history, goal_times=2),
}
"""Each measures one or more figures. 64 KiB, what a client library sends at once, hold about 600 values of 100 bytes.
A churn of 2,000/s can be read as 2,000 requests, or as 2,000 subscriptions and as many ends of them: both are here."""


def run_goals(scope: Scope, names: Iterable[str]) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        try:
            figures += GOALS[name](scope)
        except BenchError as error:  # the others are worth having all the same
            figures.append(Figure(name, math.nan, "", [], faults=[f"not measured: {error}"]))
    return figures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], choices=GOALS, metavar="NAME", help=", ".join(GOALS))
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="of each figure; the median counts")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="below 1: a quick look, no figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures; - is standard output")
    parser.add_argument("--no-pin", action="store_true", help="bind nothing to a CPU")
    parser.add_argument("--hub-flag", action="append", default=[], metavar="FLAG", help="further flag of `hub run`")
    given = parser.parse_args()
    if given.repeat < 1 or not 0 < given.scale <= 1:
        parser.error("--repeat is 1 or more, --scale above 0 and at most 1")
    return given


def main() -> int:
    given = _arguments()
    raise_descriptor_limit()
    base = Plan(pin=not given.no_pin, hub_flags=tuple(given.hub_flag))
    environment = Environment.here()
    try:
        base.check()
        with shown_progress() as tell:
            figures = run_goals(Scope(base, given.repeat, given.scale, tell), given.only or GOALS)
    except HubError as error:
        print(f"make bench: {error}", file=sys.stderr)  # noqa: T201 -- a program
        return 1
    remarks = [f"at a scale of {given.scale:g}: a quick look, no figures"] if given.scale < 1 else []
    report = figures_report(environment, base, figures, remarks)
    Output(json=given.json).write(report)
    return 0 if report.flawless else EXIT_FLAWED


if __name__ == "__main__":
    sys.exit(main())
