"""`Plan`: what cannot be done is said before anything is started, with the name of the option."""

from __future__ import annotations

import os
from typing import Any

import pytest

from peers.bench.plan import Plan
from peers.bench.worker import BenchError

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
        ({"burst": 2}, "--burst: only with --rate"),
        ({"burst": 3, "batch": 2, "rate": 10}, "--burst: 3 messages cannot be made of batches of 2"),
        ({"messages": 1 << 31, "repeat": 3}, "--messages: a publisher can number"),
        ({"urls": (WS,)}, "--url: publishers need"),
        ({"urls": (TCP,), "transport": "ws"}, "--url: --transport ws needs"),
        ({"urls": (TCP,), "hub_flags": ("--name=x",)}, "--hub-flag: only for a hub that is started"),
        ({"hub_pid": 1}, "--hub-pid: only with --url"),
        ({"hub_cpu": 4096}, "--hub-cpu: CPU 4096 is not among"),
        ({"load_cpus": (4096,)}, "--load-cpu: CPU 4096 is not among"),
    ],
)
def test_a_plan_that_cannot_be_carried_out(fields: dict[str, Any], said: str) -> None:
    """One line that names the option and what was expected."""
    with pytest.raises(BenchError) as caught:
        Plan(**fields).check()
    assert str(caught.value).startswith(said)


def test_messages_are_shared_out_in_whole_batches() -> None:
    """Rounded up, equally many for each publisher."""
    plan = Plan(messages=100, publishers=3, batch=8)
    assert plan.publisher_messages == 40


def test_warmup_goes_through_all_topics_twice() -> None:
    """So that no topic is new to the hub when measuring begins; but a short benchmark has a short one."""
    assert Plan(topics=10_000).warmup_messages == 20_000
    assert Plan(messages=300).warmup_messages == 300
    assert Plan(warmup=0).warmup_messages == 0


def test_hub_and_load_do_not_share_a_cpu_unless_there_is_only_one() -> None:
    """By default; what is given is taken, and a running hub is left where it is."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) > 1:
        assert Plan().placement == (allowed[0], allowed[1:])
    else:
        assert Plan().placement == (None, [])
    assert Plan(pin=False).placement == (None, [])
    assert Plan(hub_cpu=allowed[-1]).placement == (allowed[-1], [])
    assert Plan(urls=(TCP,)).placement == (None, [])


def test_subscribers_are_spread_over_no_more_processes_than_there_are() -> None:
    """One process can hold many subscribers, but not the other way round."""
    assert Plan(subscribers=2, load_cpus=tuple(range(8))).processes == 2
    assert Plan(subscribers=9, load_cpus=tuple(range(4))).processes == 4
