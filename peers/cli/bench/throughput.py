"""`hub bench` itself: send messages through a hub, and measure rate, CPU time, latency and losses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from peers.bench.environment import Environment
from peers.bench.plot import page
from peers.bench.stage import Stage
from peers.bench.stream import stream_report
from peers.cli.bench.options import OUTPUT, Place, Traffic, described
from peers.cli.bench.output import EXIT_FLAWED, Output, shown_progress, write_file

__all__ = ["bench"]


def bench(
    traffic: Traffic | None = None,
    place: Place | None = None,
    output: Output | None = None,
    *,
    html: Annotated[Path | None, described("Write a page with figures and plots to this file.", OUTPUT)] = None,
) -> None:
    """Send messages through a hub, and measure rate, CPU time, latency and losses.

    A hub is started for it, unless --url names one. Publishers and subscribers are processes of their own. Exit code 0
    if every message arrived once and in order, 3 if not, 1 if the benchmark could not be run.
    """
    plan = (traffic or Traffic()).plan(place or Place())
    output = output or Output()
    output.check(html)
    environment = Environment.here()
    with shown_progress(shown=output.progress) as tell, Stage(plan) as stage:
        runs = [
            stage.measure(rate=plan.rate, burst=plan.burst, watch=tell(f"run {number} of {plan.repeat}"))
            for number in range(1, plan.repeat + 1)
        ]
    report = stream_report(plan, environment, runs)
    output.write(report)
    if html is not None:
        write_file(html, page(plan, report, runs).encode())
    if not report.flawless:
        sys.exit(EXIT_FLAWED)
