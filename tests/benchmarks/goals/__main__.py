"""Measure the goals of the project for its hub, each with a hub of its own.

    python -m tests.benchmarks.goals [--only one-topic --only churn-1000] [--repeat 3] [--scale 0.1] [--json FILE]

Exit code 0 if all are reached, 3 if not, 1 if they cannot be measured, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hub.errors import HubError
from peers.bench.environment import Environment
from peers.bench.plan import Plan
from peers.bench.worker import raise_descriptor_limit
from peers.cli.bench.output import EXIT_FLAWED, Output, shown_progress
from tests.benchmarks.goals.figure import figures_report
from tests.benchmarks.goals.goals import GOALS, run_goals
from tests.benchmarks.goals.scope import Scope


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], choices=GOALS, metavar="NAME", help=", ".join(GOALS))
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="measurements of each figure; the median counts"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="below 1: a quick look that proves nothing"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures; - is standard output")
    parser.add_argument("--hub-cpu", type=int, metavar="CPU", help="that the hub is bound to")
    parser.add_argument(
        "--load-cpu", type=int, action="append", default=[], metavar="CPU", help="of the load; repeatable"
    )
    parser.add_argument("--no-pin", action="store_true", help="bind nothing to a CPU")
    parser.add_argument("--hub-flag", action="append", default=[], metavar="FLAG", help="further flag of `hub run`")
    given = parser.parse_args()
    if given.repeat < 1 or not 0 < given.scale <= 1:
        parser.error("--repeat is 1 or more, --scale above 0 and at most 1")
    return given


def main() -> int:
    """Measure as the arguments say; return the exit code."""
    given = _arguments()
    raise_descriptor_limit()
    base = Plan(
        hub_cpu=given.hub_cpu, load_cpus=tuple(given.load_cpu), pin=not given.no_pin, hub_flags=tuple(given.hub_flag)
    )
    environment = Environment.here()
    try:
        base.check()
        with shown_progress(shown=True) as tell:
            figures = run_goals(Scope(base, given.repeat, given.scale, tell), given.only)
    except HubError as error:
        print(f"make bench: {error}", file=sys.stderr)  # noqa: T201 -- a program
        return 1
    remarks = [f"at a scale of {given.scale:g}: a quick look, no figures"] if given.scale < 1 else []
    report = figures_report(environment, base, figures, remarks)
    Output(json=given.json).write(report)
    return 0 if report.flawless else EXIT_FLAWED


if __name__ == "__main__":
    sys.exit(main())
