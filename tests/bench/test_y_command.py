"""`hub bench scenario y` as it is used: processes, output, exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peers.bench.running_hub import RunningHub, child_environment

pytestmark = pytest.mark.slow


def bench_y(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it."""
    return subprocess.run(
        [sys.executable, "-m", "peers.cli", "bench", "scenario", "y", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=child_environment(),
    )


def flawless(figures: dict[str, Any], mode: str, pairs: int) -> None:
    """Every run of a mode has so many pairs, each with its result."""
    for run in figures["runs"][mode]:
        assert [run[name] for name in ("pairs", "wrong", "failed", "lost")] == [pairs, 0, 0, 0], run
        assert run["pairs_per_s"] > 0
        assert run["requester_ns"] > 0
        assert run["hub_ns"] > 0


def test_all_modes(tmp_path: Path) -> None:
    """Every pair of every mode gets its result; a table on stdout, the same as JSON."""
    path = tmp_path / "figures.json"
    done = bench_y("--pairs", "3000", "--repeat", "2", "--json", str(path))
    assert done.returncode == 0, done.stderr + done.stdout
    figures = json.loads(path.read_bytes())
    assert list(figures["runs"]) == ["one", "many"]
    for mode, runs in figures["runs"].items():
        assert len(runs) == 2
        flawless(figures, mode, 3000)
    one = figures["median"]["one"]
    assert 0 < one["p50_us"] <= one["p99_us"]
    for text in ("one at a time", "1,024 outstanding", "latency, p99", "multiplying's CPU"):
        assert text in done.stdout


def test_a_time_instead_of_a_number_of_pairs_over_tcp() -> None:
    """As many pairs as there was time for."""
    done = bench_y("--seconds", "0.2", "--repeat", "1", "--transport", "tcp", "--mode", "many", "--json", "-")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    flawless(figures, "many", figures["runs"]["many"][0]["pairs"])
    assert figures["runs"]["many"][0]["elapsed_s"] >= 0.2


def test_a_hub_that_runs_already() -> None:
    """Its CPU is measured if its process is told."""
    hub = RunningHub.start(("unix",))
    try:
        done = bench_y(
            *("--url", hub.urls["unix"], "--hub-pid", str(hub.pid), "--pairs", "100", "--repeat", "1"),
            *("--mode", "one", "--no-pin", "--json", "-"),
        )
    finally:
        hub.stop()
    assert done.returncode == 0, done.stderr
    flawless(json.loads(done.stdout), "one", 100)


def test_what_a_hub_refuses_is_counted() -> None:
    """Failed pairs make exit code 3, and their reason is told."""
    done = bench_y(
        *("--pairs", "2000", "--repeat", "1", "--mode", "many", "--hub-flag=--requests-pending=100"),
        *("--json", "-"),
    )
    assert done.returncode == 3, done.stderr
    figures = json.loads(done.stdout)
    run = figures["runs"]["many"][0]
    assert run["failed"] > 0
    assert run["lost"] == run["wrong"] == 0
    assert figures["flawless"] is False
    assert any("1,024 outstanding: " in remark for remark in figures["remarks"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mode", "few"], "few"),
        (["--outstanding", "0"], "hub: --outstanding: 0 given, expected a number from 1"),
        (["--url", "ws://localhost:1"], "hub: --url: one tcp:// or unix:// url expected"),
    ],
)
def test_what_is_wrong_is_said_at_once(arguments: list[str], said: str) -> None:
    """One clear error that names the option, and an exit code of 1 or 2; nothing is started."""
    done = bench_y(*arguments)
    assert done.returncode in ({1, 2} if said.startswith("hub: ") else {2})
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert not done.stdout
