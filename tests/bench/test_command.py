"""`hub bench` as it is used: a process, its output, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peers.bench.running_hub import RunningHub, child_environment
from tests.forked.program import run

pytestmark = pytest.mark.slow


def hub_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "peers.cli", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=child_environment(),
    )


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def test_a_benchmark_with_all_outputs(tmp_path: Path) -> None:
    figures, html = tmp_path / "figures.json", tmp_path / "page.html"
    done = hub_bench(
        *("--messages", "400", "--size", "64", "--topics", "4", "--subscribers", "2", "--rate", "4000"),
        *("--repeat", "2", "--json", str(figures), "--html", str(html)),
    )
    assert done.returncode == 0, done.stderr
    assert "messages/s" in done.stdout
    assert "latency, p99.9" in done.stdout
    document = read(figures)
    assert document["flawless"] is True
    assert [run["delivered"] for run in document["runs"]] == [800, 800]
    assert [run["lost"] for run in document["runs"]] == [0, 0]
    assert document["runs"][0]["latency"]["messages"] == 800
    assert document["plan"]["size"] == 64
    page = html.read_text()
    assert f"{document['median']['delivered_per_s']:,.0f}" in page
    assert "<svg" in page


def test_json_on_standard_output() -> None:
    done = hub_bench("--messages", "300", "--batch", "10", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"][0]["delivered"] == 300
    assert "messages/s" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mesages", "1"], "--mesages"),
        (["--messages", "many"], "many"),
        (["--transport", "udp"], "udp"),
        (["--messages", "-1"], "hub: --messages: -1 given, expected a number from 1"),
        (["--html", "/no/such/folder/page.html"], "hub: /no/such/folder/page.html: no file can be written there"),
        (["--json", "/"], "hub: /: no file can be written there"),
        (["scenario", "y", "--json", "/no/such/folder/y.json"], "hub: /no/such/folder/y.json: no file"),
        (["--size", "3"], "hub: --size: 3 given, expected a number from 16"),
        (["--url", "http://localhost"], "hub: 'http://localhost'"),
        (["7"], "7"),
        (["scenario", "nothing"], "nothing"),
        (["scenario", "y", "--mode", "few"], "few"),
        (["scenario", "y", "--url", "ws://localhost:1"], "hub: --url: one tcp:// or unix:// url expected"),
    ],
)
def test_what_is_wrong_is_said_at_once(arguments: list[str], said: str) -> None:
    done = run("bench", *arguments, stdin=None, timeout_s=100)
    stderr = done.stderr.decode()
    assert done.returncode == 2
    assert said in " ".join(stderr.replace("│", " ").split())
    assert "Traceback" not in stderr
    assert not done.stdout


def test_no_hub_there() -> None:
    done = hub_bench("--url", "tcp://127.0.0.1:1", "--messages", "10")
    assert done.returncode == 1
    assert "no connection to tcp://127.0.0.1:1: Connection refused; is a hub running there?" in done.stderr


Y = ("scenario", "y")


def flawless(figures: dict[str, Any], mode: str, pairs: int) -> None:
    for one in figures["runs"][mode]:
        assert [one[name] for name in ("pairs", "wrong", "failed", "lost")] == [pairs, 0, 0, 0], one
        assert min(one[name] for name in ("pairs_per_s", "requester_ns", "hub_ns")) > 0


def test_all_modes(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    done = hub_bench(*Y, "--pairs", "3000", "--repeat", "2", "--json", str(path))
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
    done = hub_bench(*Y, "--seconds", "0.2", "--repeat", "1", "--transport", "tcp", "--mode", "many", "--json", "-")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    flawless(figures, "many", figures["runs"]["many"][0]["pairs"])
    assert figures["runs"]["many"][0]["elapsed_s"] >= 0.2


def test_a_hub_that_runs_already() -> None:
    hub = RunningHub.start(("unix",))
    try:
        done = hub_bench(
            *Y,
            *("--url", hub.urls["unix"], "--hub-pid", str(hub.pid), "--pairs", "100", "--repeat", "1"),
            *("--mode", "one", "--no-pin", "--json", "-"),
        )
    finally:
        hub.stop()
    assert done.returncode == 0, done.stderr
    flawless(json.loads(done.stdout), "one", 100)


def test_what_a_hub_refuses_is_counted() -> None:
    done = hub_bench(
        *Y,
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
    "arguments",
    [
        ["--mode", "arrays", "--mode", "shared", "--batch", "20000"],
        ["--mode", "arrays", "--transport", "tcp", "--batch", "20000"],
        ["--mode", "shared", "--batch", "100"],
    ],
    ids=" ".join,
)
def test_arrays(arguments: list[str]) -> None:
    done = hub_bench(*Y, "--pairs", "100000", *arguments, "--repeat", "1", "--json", "-")
    assert done.returncode == 0, done.stderr
    for mode in (figures := json.loads(done.stdout))["runs"]:
        flawless(figures, mode, 100_000)
