"""`hub bench`: the flags are a plan, which `peers.bench` measures; then the output."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter
from rich.console import Console

from peers.bench.processes import PlanError
from peers.bench.report import Environment, Report, page, stream_report
from peers.bench.stage import Plan, Stage, Told, Watch
from peers.bench.y import YPlan, run_y
from peers.cli.output import shown_bar, write_file
from peers.cli.texts import FlagError, examples
from peers.transport.endpoints import InvalidEndpointError

OUTPUT = Group("Output", sort_key=5)

EXIT_FLAWED = 3


@contextmanager
def flags_checked() -> Iterator[None]:
    try:
        yield
    except (PlanError, InvalidEndpointError) as error:
        raise FlagError(str(error)) from error


@Parameter(name="*")
@dataclass(kw_only=True)
class Output:
    """Options of where the figures go, beside the table."""

    json: Annotated[
        Path | None,
        Parameter(
            help="Write the figures to this file as JSON; - is standard output.",
            group=OUTPUT,
            allow_leading_hyphen=True,
        ),
    ] = None

    def check(self, *others: Path | None) -> None:
        """Check before anything is measured that the files can be written; raise `FlagError` if not."""
        for path in (None if str(self.json) == "-" else self.json, *others):
            if path is None:
                continue
            folder = path.parent
            if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
                raise FlagError(f"{path}: no file can be written there")

    def write(self, report: Report) -> None:
        """Print the table (to standard error if the JSON goes to standard output), and write the JSON.

        Ends the command with an exit code of its own where the benchmark has found a flaw.
        """
        to_stdout = self.json is not None and str(self.json) == "-"
        console = Console(stderr=to_stdout)
        if not console.is_terminal:
            console.width = 200  # a pipe has no edge to wrap at
        console.print(str(report.environment), highlight=False, markup=False)
        console.print(report.table())
        for remark in report.remarks:
            console.print(f"* {remark}", highlight=False, markup=False)
        if to_stdout:
            sys.stdout.write(report.json().decode() + "\n")
        elif self.json is not None:
            write_file(self.json, report.json())
        if not report.flawless:
            sys.exit(EXIT_FLAWED)


@contextmanager
def shown_progress() -> Iterator[Told]:
    """Show the progress while the block runs; the function that is yielded begins the next step.

    SIGTERM ends the benchmark as Ctrl-C does: with all processes that it has started.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with shown_bar() as tell:

        def begin(step: str) -> Watch:
            tell(step, None, None)
            return lambda done, total: tell(step, done, total or None)

        yield begin


def bench(
    plan: Plan | None = None,
    output: Output | None = None,
    *,
    html: Annotated[
        Path | None, Parameter(help="Write a page with figures and plots to this file.", group=OUTPUT)
    ] = None,
) -> None:
    """Send messages through a hub, and measure rate, CPU time, latency and losses.

    Starts a hub, unless --url names one. Publishers and subscribers are separate processes. Exit code 0
    if every message arrived once and in order, 3 if not, 1 if the benchmark could not be run.
    """
    output = output or Output()
    with flags_checked():
        plan = (plan or Plan()).check()
    output.check(html)
    environment = Environment.here()
    with shown_progress() as tell, Stage(plan) as stage:
        runs = [
            stage.measure(rate=plan.rate, watch=tell(f"run {number} of {plan.repeat}"))
            for number in range(1, plan.repeat + 1)
        ]
    report = stream_report(plan, environment, runs)
    if html is not None:
        write_file(html, page(plan, report, runs).encode())
    output.write(report)


def y(plan: YPlan | None = None, output: Output | None = None) -> None:
    """Make pairs of numbers and an operation at random, have a service add or multiply them, check every result.

    Requester, hub and the two services are processes of this machine. Shows pairs a second, latencies, CPU time of each
    process for a pair, and errors. Exit code 0 if every pair got one correct result, 3 if not, 1 if the benchmark could
    not be run.
    """
    output = output or Output()
    with flags_checked():
        plan = (plan or YPlan()).check()
    output.check()
    with shown_progress() as tell:
        found = run_y(plan, tell)
    output.write(found)


app = App(
    name="bench",
    help="Measure a hub: throughput, CPU time, latency, losses.",
    help_epilogue=examples("hub bench", "hub bench --rate 20000 --messages 200000 --html figures.html"),
)
app.default(bench)
scenario = App(name="scenario", help="Benchmarks of several steps.")
app.command(scenario)
scenario.command(y, name="y", help="Send pairs of numbers to an adding and a multiplying service.")
