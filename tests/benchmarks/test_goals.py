"""`make bench` as it is used: a process, its output, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peers.bench.running_hub import child_environment
from tests.benchmarks.goals.scope import TOO_SLOW

pytestmark = pytest.mark.slow


def make_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run what `make bench` runs."""
    return subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.goals", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=child_environment(),
    )


def read(path: Path) -> dict[str, Any]:
    """A JSON file."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--only", "speed"], "invalid choice: 'speed'"), (["--scale", "2"], "--scale")]
)
def test_what_is_wrong_is_said_at_once(arguments: list[str], said: str) -> None:
    """The option or the value is named, and nothing is started."""
    done = make_bench(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not done.stdout


def test_some_goals(tmp_path: Path) -> None:
    """Some of the goals at a small scale: each has a verdict, and a quick look says that it is one."""
    figures = tmp_path / "figures.json"
    names = ("one-topic", "batches-16", "memory-tcp", "memory-subscription", "journal-confirmed-frames", "churn-1000")
    only = [argument for name in names for argument in ("--only", name)]
    done = make_bench(*only, "--repeat", "1", "--scale", "0.001", "--json", str(figures))
    document = read(figures)
    assert len(document["figures"]) == len(names) + 1, "churn has two figures"
    for figure in document["figures"]:
        assert figure["values"], figure
        faults = [fault for fault in figure["faults"] if not fault.startswith(TOO_SLOW)]  # that is the machine's fault
        assert not faults, figure
    reached = all(figure["reached"] for figure in document["figures"])
    assert done.returncode == (0 if reached else 3), done.stderr
    assert "a quick look, no figures" in done.stdout


def test_goals_for_stalled_subscribers(tmp_path: Path) -> None:
    """What stalled subscribers get and are told is exact for each policy, whatever the rate."""
    figures = tmp_path / "figures.json"
    policies = ("drop-oldest", "drop-newest", "disconnect")
    only = [argument for policy in policies for argument in ("--only", f"stalled-{policy}")]
    make_bench(*only, "--repeat", "1", "--scale", "0.05", "--json", str(figures))
    exact = [figure for figure in read(figures)["figures"] if "exactly right" in figure["name"]]
    assert [figure["measured"] for figure in exact] == [100, 100, 100]
    assert [figure["faults"] for figure in exact] == [[], [], []]
