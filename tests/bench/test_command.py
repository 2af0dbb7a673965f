"""`hub bench` as it is used: a process, its output, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peers.bench.running_hub import child_environment
from tests.forked.program import run

pytestmark = pytest.mark.slow


def hub_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `hub bench`."""
    return subprocess.run(
        [sys.executable, "-m", "peers.cli", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=child_environment(),
    )


def read(path: Path) -> dict[str, Any]:
    """A JSON file."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def test_a_benchmark_with_all_outputs(tmp_path: Path) -> None:
    """A table on stdout, the same figures as JSON and as a page."""
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
    """Alone there, for a pipe; the table goes to stderr."""
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
        (["--queue-bytes", "much"], "hub: --queue-bytes 'much': expected a size"),
        (["--url", "http://localhost"], "hub: 'http://localhost'"),
        (["7"], "7"),
        (["scenario", "nothing"], "nothing"),
    ],
)
def test_what_is_wrong_is_said_at_once(arguments: list[str], said: str) -> None:
    """One clear error that names the option or the value, and an exit code of 2; nothing is started."""
    done = run("bench", *arguments, stdin=None, timeout_s=100)
    stderr = done.stderr.decode()
    assert done.returncode == 2
    assert said in " ".join(stderr.replace("│", " ").split())
    assert "Traceback" not in stderr
    assert not done.stdout


def test_no_hub_there() -> None:
    """The error names the place, and says what to look at, without the number that the system has for it."""
    done = hub_bench("--url", "tcp://127.0.0.1:1", "--messages", "10")
    assert done.returncode == 1
    assert "no connection to tcp://127.0.0.1:1: Connection refused; is a hub running there?" in done.stderr
