"""Plans, and the real thing, small: a hub and all workers in processes, a few hundred messages."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from peers.bench.measurement import Measurement
from peers.bench.running_hub import RunningHub
from peers.bench.stage import Plan, Stage
from peers.bench.worker import BenchError
from peers.wire.hello import QueueWish

pytestmark = pytest.mark.slow

TCP, WS = "tcp://127.0.0.1:7400", "ws://127.0.0.1:7401"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"messages": 0}, "--messages: 0 given, expected a number from 1 to"),
        ({"size": 15}, "--size: 15 given, expected a number from 16 to"),
        ({"topics": 100_001}, "--topics: 100,001 given, expected a number from 1 to 100,000"),
        ({"rate": -1}, "--rate: -1 given"),
        ({"publishers": 257}, "--publishers: 257 given, expected a number from 1 to 256"),
        ({"subscribers": 0}, "--subscribers: 0 given"),
        ({"batch": 0}, "--batch: 0 given"),
        ({"batch": 65_536, "size": 1000}, "--batch, --size: a frame takes"),
        ({"messages": 1 << 31, "repeat": 3}, "--messages: a publisher can number"),
        ({"urls": (WS,)}, "--url: publishers need"),
        ({"urls": (TCP,), "transport": "ws"}, "--url: --transport ws needs"),
        ({"urls": (TCP,), "hub_flags": ("--name=x",)}, "--hub-flag: only for a hub that is started"),
        ({"hub_pid": 1}, "--hub-pid: only with --url"),
    ],
)
def test_a_plan_that_cannot_be_carried_out(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchError) as caught:
        Plan(**fields).check()
    assert str(caught.value).startswith(said)


def test_warmup_goes_through_all_topics_twice() -> None:
    """So that no topic is new to the hub when measuring begins; but a short benchmark has a short one."""
    assert Plan(topics=10_000).warmup_messages == 20_000
    assert Plan(messages=300).warmup_messages == 300
    assert Plan(warmup=0).warmup_messages == 0


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
        {},
        {"topics": 7},
        {"batch": 16, "messages": 640},
        {"publishers": 3, "subscribers": 2},
        {"transport": "ws", "subscribers": 3},
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


@pytest.mark.parametrize(("fields", "burst"), [({}, 1), ({}, 8), ({"batch": 4, "publishers": 2}, 4)], ids=str)
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
    plan = plan_for(hub, messages=4000, size=4000, window=False, wish=QueueWish(messages=5), warmup=0)
    with Stage(plan) as stage:
        run = stage.measure()
    assert run.lost == run.told
    assert run.delivered + run.lost == 4000
    assert run.out_of_order == 0


def test_the_window_keeps_within_the_queue_that_is_granted(hub: RunningHub) -> None:
    """Subscribers with a queue of 10 lose nothing at full speed, because nobody runs ahead of them."""
    with Stage(plan_for(hub, messages=500, subscribers=2, wish=QueueWish(messages=10))) as stage:
        run = stage.measure()
    check_flawless(run, 500, 2)


def test_a_hub_of_its_own() -> None:
    with Stage(Plan(messages=5000, warmup=100)) as stage:
        pid = stage.hub.pid
        run = stage.measure()
    check_flawless(run, 5000, 1)
    assert run.hub_cpu_s > 0
    assert run.hub_memory_bytes > 1 << 20
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_hub_that_dies_ends_the_benchmark() -> None:
    with Stage(Plan(messages=1000, warmup=0)) as stage:

        def kill(_: int, __: int) -> None:
            os.kill(stage.hub.pid, signal.SIGKILL)

        with pytest.raises(BenchError):
            stage.measure(100_000, rate=1000, watch=kill)


def test_no_hub_there() -> None:
    plan = Plan(urls=("tcp://127.0.0.1:1",), messages=10)
    with pytest.raises(BenchError, match=r"no connection to tcp://127\.0\.0\.1:1: .*refused"), Stage(plan):
        pass


def test_a_hub_that_does_not_start() -> None:
    with pytest.raises(BenchError, match="did not start"):
        RunningHub.start(("tcp",), ("--limits-routes", "none"))
