"""`make bench` as it is used, and what decides whether a goal is reached."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peers.bench.processes import child_environment
from peers.bench.report import Environment, Report
from peers.bench.stage import Plan
from tests.benchmarks.goals.figure import TOO_SLOW, Figure, figures_report


def report_of(*figures: Figure) -> Report:
    return figures_report(Environment.here(), Plan(), list(figures), [])


def test_the_median_decides() -> None:
    assert Figure("a", 5, "µs", [9, 4, 5]).reached
    assert not Figure("a", 5, "µs", [4, 6, 6]).reached
    assert Figure("a", 95, "%", [94, 96, 97], at_least=True).reached
    assert not Figure("a", 95, "%", [94, 94, 97], at_least=True).reached


def test_a_fault_is_not_outweighed() -> None:
    assert not Figure("a", 5, "µs", [1], faults=["lost"]).reached


def test_what_could_not_be_measured_is_not_reached() -> None:
    figure = Figure("a", math.nan, "", [], faults=["not measured: because"])
    assert not figure.reached
    assert math.isnan(figure.measured)
    document = json.loads(report_of(figure).json())
    assert document["figures"][0]["measured"] is None


def test_table_and_json() -> None:
    figures = report_of(Figure("a name", 0.4, "µs", [0.3, 0.1, 0.2]), Figure("b", 1, "s", [2]))
    document = json.loads(figures.json())
    assert document["benchmark"] == "targets"
    assert document["figures"][0] == {
        "name": "a name",
        "goal": 0.4,
        "unit": "µs",
        "values": [0.3, 0.1, 0.2],
        "at_least": False,
        "faults": [],
        "remark": "",
        "measured": 0.2,
        "reached": True,
    }
    assert document["figures"][1]["reached"] is False
    assert [str(cell) for cell in figures.table().columns[2].cells] == ["≤ 0.400", "≤ 1.00"]
    assert [str(cell) for cell in figures.table().columns[-1].cells] == ["ok", "not reached"]


pytestmark = pytest.mark.slow


def make_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.goals", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=child_environment(),
    )


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def test_some_goals(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    names = ("one-topic", "memory-subscription", "stalled-disconnect", "journal-confirmed-frames", "churn-1000")
    only = [argument for name in names for argument in ("--only", name)]
    done = make_bench(*only, "--repeat", "1", "--scale", "0.001", "--json", str(figures))
    document = read(figures)
    assert len(document["figures"]) == len(names) + 2, "churn and stalled have two figures"
    for figure in document["figures"]:
        assert figure["values"], figure
        faults = [fault for fault in figure["faults"] if not fault.startswith(TOO_SLOW)]  # that is the machine's fault
        assert not faults, figure
    reached = all(figure["reached"] for figure in document["figures"])
    assert done.returncode == (0 if reached else 3), done.stderr
    assert "a quick look, no figures" in done.stdout
