"""`make bench` as it is used, and what decides whether a goal is reached."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from peers.bench.processes import child_environment
from peers.bench.report import Environment, Report
from peers.bench.stage import Plan
from tests.benchmarks.goals.figure import TOO_SLOW, Figure, figures_report


def report_of(*figures: Figure) -> Report:
    return figures_report(Environment.here(), Plan(), list(figures), [])


@pytest.mark.parametrize(
    ("figure", "reached"),
    [
        (Figure("a", 5, "µs", [9, 4, 5]), True),
        (Figure("a", 5, "µs", [4, 6, 6]), False),
        (Figure("a", 95, "%", [94, 96, 97], at_least=True), True),
        (Figure("a", 95, "%", [94, 94, 97], at_least=True), False),
        (Figure("a", 5, "µs", [1], faults=["lost"]), False),
        (Figure("a", math.nan, "", [], faults=["not measured: because"]), False),
    ],
)
def test_the_median_decides_unless_there_are_faults(figure: Figure, reached: bool) -> None:  # noqa: FBT001 -- a table
    assert figure.reached is reached
    (shown,) = json.loads(report_of(figure).json())["figures"]
    assert shown["measured"] == (figure.measured if figure.values else None)


GOALS = [sys.executable, "-m", "tests.benchmarks.goals"]

pytestmark = pytest.mark.slow


def test_some_goals(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    names = ("one-topic", "memory-subscription", "stalled-disconnect", "journal-confirmed-frames", "churn-1000")
    only = [argument for name in names for argument in ("--only", name)]
    done = subprocess.run(
        [*GOALS, *only, "--repeat", "1", "--scale", "0.001", "--json", str(figures)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=child_environment(),
    )
    document = json.loads(figures.read_bytes())
    assert len(document["figures"]) == len(names) + 2, "churn and stalled have two figures"
    for figure in document["figures"]:
        assert figure["values"], figure
        faults = [fault for fault in figure["faults"] if not fault.startswith(TOO_SLOW)]  # that is the machine's fault
        assert not faults, figure
    reached = all(figure["reached"] for figure in document["figures"])
    assert done.returncode == (0 if reached else 3), done.stderr
    assert "a quick look, no figures" in done.stdout
