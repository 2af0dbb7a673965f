"""What it costs that the hub asks its policy: reads of a publisher with rights, beside those of one without.

    python tests/benchmarks/rights.py [--rounds 400] [--grants 100000]

Both publish into one core in this process, in turn, so that whatever else the machine does is the same for both; what
is timed is the CPU of a read, from its bytes to the one write for each subscriber. Beside it: a first verdict and a
lookup of a topic with very many grants, and what it takes to adopt another policy and to give everybody new rights.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from hub.batch import Batch
from hub.core import Core
from hub.delivery import Role
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.policy.path import parse_path
from hub.policy.policy import Action, Policy, Rights, RolePermissions
from hub.stretch import Run, Stretch
from peers.wire.scanner import NEED_DATA, Scanner

_TOPICS = 64
_READS = {
    "one message": (Batch.of("/a/x", [b"x" * 100]).frames, 500),
    "128 messages, one topic": (Batch.of("/a/x", [b"x" * 100]).frames * 128, 100),
    "128 messages of 64 topics, each with a subscriber": (
        b"".join(Batch.of(f"/a/{number % _TOPICS}/t", [number]).frames for number in range(128)),
        10,
    ),
}
"""Bytes of a read, and how many of them are timed together."""


_REMEMBERED = 60_000
"""Topics that are remembered when another policy is adopted."""


class _Nowhere:
    """An outlet that forgets."""

    def send(self, batches: list[Batch]) -> None:
        """Take batches."""

    def send_gap(self, lost_messages: int) -> None:
        """Take a gap."""

    def close(self, code: int, text: str) -> None:
        """Take the end."""


def _policy(grants: int) -> Policy:
    """A policy with so many grants to roles that nobody here has, beside those of the one that is measured."""
    others = [(parse_path(f"/site-{number % 1000}/{number}/{{user}}"), True) for number in range(grants)]
    own = [(parse_path("/a"), True), (parse_path("/status/{user}"), True)]
    return Policy(
        {
            "other": RolePermissions({Action.PUBLISH: others, Action.SUBSCRIBE: others}),
            "own": RolePermissions({Action.PUBLISH: own, Action.SUBSCRIBE: [(parse_path("*"), True)]}),
        },
        {},
    )


class _Bench:
    """A core with a policy, and handlers."""

    def __init__(self, policy: Policy) -> None:
        self.core = Core(lambda: None)
        self.core.authority.adopt(policy)
        self.scanner = Scanner(self.core.routes, 1 << 20)

    def join(self, *prefixes: str, rights: Rights | None = None) -> Handler:
        """Let somebody in."""
        handler = Handler(_Nowhere(), role=Role.CLIENT, limits=QueueLimits(), rights=rights)
        self.core.attach(handler)
        self.core.subscribe(handler, prefixes)
        self.core.flush()
        return handler

    def read(self, source: Handler, data: bytes) -> None:
        """Do what a connection does with a read."""
        core, scanner = self.core, self.scanner
        scanner.feed(data)
        core.write_is_due = True
        while (item := scanner.next_item()) is not NEED_DATA:
            if isinstance(item, Run):
                core.publish(source, item.route, item)
            elif isinstance(item, Stretch):
                core.publish_stretch(source, item)
        core.end_read()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _cpu_us(act: Callable[[], object], times: int) -> float:
    start = time.process_time_ns()
    for _ in range(times):
        act()
    return (time.process_time_ns() - start) / times / 1000


def _measure_reads(policy: Policy, rounds: int) -> None:
    bench = _Bench(policy)
    unbound, bound = bench.join("/a/"), bench.join(rights=policy.rights("x", ["own"]))
    for number in range(_TOPICS):
        bench.join(f"/a/{number}/")
    for name, (data, times) in _READS.items():
        without, with_rights = partial(bench.read, unbound, data), partial(bench.read, bound, data)
        pairs = [(_cpu_us(without, times), _cpu_us(with_rights, times)) for _ in range(rounds)]
        free, asked = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
        _say(f"{name}: {free:.2f} us without rights, {asked:.2f} us with them, median ratio {ratio:.3f}")


def _measure_policy(grants: int) -> None:
    policy = _policy(grants)
    rights = policy.rights("x", ["own"])
    _say(f"{grants} grants: first verdict {_cpu_us(lambda: rights.may(Action.PUBLISH, '/a/b/c'), 10_000):.2f} us")
    crowded, another = _Bench(policy), _policy(grants)
    source = crowded.join("", rights=rights)
    for number in range(_REMEMBERED):
        crowded.read(source, Batch.of(f"/a/{number}", [1]).frames)
    took_us = _cpu_us(lambda: crowded.core.authority.adopt(another), 1)
    _say(f"adopting another with {_REMEMBERED} topics: {took_us / 1000:.1f} ms")
    bench = _Bench(policy)
    users = [bench.join("/a/", "/b/", rights=policy.rights(f"u{number}", ["own"])) for number in range(10_000)]
    bench.core.authority.adopt(another)
    turns = []
    for first in range(0, len(users), 100):
        some = range(first, first + 100)

        def give(some: range = some) -> None:
            for number in some:
                bench.core.authority.give_rights(users[number], another.rights(f"u{number}", ["own"]))
            bench.core.flush()

        turns.append(_cpu_us(give, 1) / 1000)
    _say(f"new rights for 10,000 connections: {sum(turns):.0f} ms, in turns of at most {max(turns):.1f} ms")
    found = _cpu_us(lambda: bench.core.routes.find("/a/new"), 20) / 1000
    _say(f"looking up a topic that 10,000 users subscribe to: {found:.1f} ms")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--grants", type=int, default=100_000)
    arguments = parser.parse_args()
    gc.disable()
    _measure_reads(_policy(arguments.grants), arguments.rounds)
    _measure_policy(arguments.grants)


if __name__ == "__main__":
    main()
