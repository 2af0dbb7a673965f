"""`hub bench` as it is used: plans, a hub and all workers in processes, a few hundred messages; output, exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peers.bench.measurement import Measurement
from peers.bench.processes import BenchError, RunningHub, child_environment
from peers.bench.stage import Plan, Stage
from tests.cli import programs

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


def test_a_benchmark_with_all_outputs(tmp_path: Path) -> None:
    figures, html = tmp_path / "figures.json", tmp_path / "page.html"
    done = hub_bench(
        *("--messages", "400", "--size", "64", "--topics", "4", "--subscribers", "2", "--rate", "4000"),
        *("--repeat", "2", "--json", str(figures), "--html", str(html)),
    )
    assert done.returncode == 0, done.stderr
    assert "messages/s" in done.stdout
    assert "latency, p99.9" in done.stdout
    document = json.loads(figures.read_bytes())
    assert document["flawless"] is True
    assert [run["delivered"] for run in document["runs"]] == [800, 800]
    assert [run["lost"] for run in document["runs"]] == [0, 0]
    assert document["runs"][0]["latency"]["messages"] == 800
    assert document["plan"]["size"] == 64
    page = html.read_text()
    assert f"{document['median']['delivered_per_s']:,.0f}" in page
    assert "<svg" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mesages", "1"], "--mesages"),
        (["--messages", "many"], "many"),
        (["--transport", "udp"], "udp"),
        (["--html", "/no/such/folder/page.html"], "hub: /no/such/folder/page.html: no file can be written there"),
        (["scenario", "y", "--json", "/no/such/folder/y.json"], "hub: /no/such/folder/y.json: no file"),
        (["--url", "http://localhost"], "hub: 'http://localhost'"),
        (["7"], "7"),
        (["scenario", "nothing"], "nothing"),
        (["scenario", "y", "--mode", "few"], "few"),
    ],
)
def test_what_is_wrong_is_said_at_once(arguments: list[str], said: str) -> None:
    done = programs.hub("bench", *arguments)
    stderr = done.stderr.decode()
    assert done.returncode == 2
    assert said in " ".join(stderr.replace("│", " ").split())
    assert "Traceback" not in stderr
    assert not done.stdout


def test_no_hub_there() -> None:
    done = programs.hub("bench", "--url", "tcp://127.0.0.1:1", "--messages", "10")
    assert done.returncode == 1
    assert b"no connection to tcp://127.0.0.1:1: Connection refused; is a hub running there?" in done.stderr
    done = programs.hub("bench", "--url", "tcp://127.0.0.1:1", "--hub-pid", "4194303")
    assert done.returncode == 1
    assert b"CPU time of process 4194303 cannot be read" in done.stderr


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


def test_arrays() -> None:
    modes = ("--mode", "arrays", "--mode", "shared", "--batch", "2000")
    done = hub_bench(*Y, "--pairs", "10000", *modes, "--repeat", "1", "--json", "-")
    assert done.returncode == 0, done.stderr
    for mode in (figures := json.loads(done.stdout))["runs"]:
        flawless(figures, mode, 10_000)


@pytest.fixture(scope="module")
def hub() -> Iterator[RunningHub]:
    started = RunningHub.start(("tcp", "ws"))
    yield started
    started.stop()


def plan_for(hub: RunningHub, **fields: object) -> Plan:
    small = {"messages": 600, "size": 32, "warmup": 50} | fields
    return Plan(urls=tuple(hub.urls.values()), hub_pid=hub.pid, **small)  # type: ignore[arg-type]


def check_flawless(run: Measurement, published: int, subscribers: int) -> None:
    assert run.flawless
    assert (run.published, run.expected, run.delivered) == (published, published * subscribers, published * subscribers)
    assert run.elapsed_s > 0
    assert run.published_per_s == pytest.approx(published / run.elapsed_s)
    assert run.us_per_delivery * run.delivered == pytest.approx(run.hub_cpu_s * 1e6)
    assert run.samples[-1].published == published
    assert run.samples[-1].delivered == published * subscribers


@pytest.mark.parametrize(
    "fields",
    [
        {"topics": 7},
        {"publishers": 3, "subscribers": 2},
        {"transport": "ws", "batch": 20, "topics": 3},
        {"batch": 3, "size": 40_000, "messages": 60},
        {"window": False},
    ],
    ids=str,
)
def test_every_message_arrives_once_and_in_order(hub: RunningHub, fields: dict[str, object]) -> None:
    plan = plan_for(hub, **fields)
    with Stage(plan) as stage:
        for _ in range(2):
            check_flawless(stage.measure(), plan.messages, plan.subscribers)


@pytest.mark.parametrize(("fields", "burst"), [({}, 8), ({"batch": 4, "publishers": 2}, 4)], ids=str)
def test_latencies_at_a_rate(hub: RunningHub, fields: dict[str, object], burst: int) -> None:
    plan = plan_for(hub, rate=2000, messages=400, **fields)
    with Stage(plan) as stage:
        run = stage.measure(rate=plan.rate, burst=burst)
    check_flawless(run, 400, 1)
    assert run.latency is not None
    assert run.latency.messages == 400
    assert 0 < run.latency.p50_us <= run.latency.p99_us <= run.latency.max_us
    last_due_s = (400 - burst * plan.publishers) / 2000  # nothing leaves before it is due
    assert (
        run.elapsed_s >= last_due_s - run.publisher_late_us / 1e6
    )  # where the first message is late, the last need not be


def test_without_a_window_losses_are_told(hub: RunningHub) -> None:
    plan = plan_for(hub, messages=4000, size=4000, window=False, queue_messages=5, warmup=0)
    with Stage(plan) as stage:
        run = stage.measure()
    assert run.lost == run.told
    assert run.delivered + run.lost == 4000
    assert run.out_of_order == 0


def test_the_window_keeps_within_the_queue_that_is_granted(hub: RunningHub) -> None:
    """Subscribers with a queue of 10 lose nothing at full speed, because nobody runs ahead of them."""
    with Stage(plan_for(hub, messages=500, subscribers=2, queue_messages=10)) as stage:
        run = stage.measure()
    check_flawless(run, 500, 2)


def test_a_hub_that_dies_ends_the_benchmark() -> None:
    with Stage(Plan(messages=1000, warmup=0)) as stage:

        def kill(_: int, __: int) -> None:
            os.kill(stage.hub.pid, signal.SIGKILL)

        with pytest.raises(BenchError):
            stage.measure(100_000, rate=1000, watch=kill)


def test_a_hub_that_does_not_start() -> None:
    with pytest.raises(BenchError, match="did not start"):
        RunningHub.start(("tcp",), ("--limits-routes", "none"))
