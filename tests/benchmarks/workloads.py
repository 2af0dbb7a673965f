"""The workloads: what is published, by how many, to how many, how fast. Frozen values; the engine knows no others.

```
flood    as fast as windows allow           → server CPU a delivered message, messages/s, peak memory
paced    one message at a time, on time     → the same, and latency p50, p99
```

A goal is a ratio, ours to a peer's (or to the best peer's) in the same run, of one figure. Missing it is reported
and is no error; loss and reordering are.
"""

from __future__ import annotations

from dataclasses import dataclass

BEST = "best"


@dataclass(frozen=True, slots=True)
class Goal:
    figure: str
    """`cpu_us`, `p50_us` or `p99_us`."""
    ratio: float
    peer: str = BEST
    """The name of a contestant, or that of the best of all peers."""
    workload: str = ""
    """Where the other figure comes from, if not from the same workload."""


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    size_bytes: int = 100
    """The size of a payload."""
    publishers: int = 1
    subscribers: int = 1
    topics: int = 1
    """How many topics there are; they are published to in turn."""
    prefixes: int = 0
    """How many subscriptions are by prefix, each with an equal part of the topics below it; 0 is one topic."""
    window_messages: int = 0
    """The most that a publisher is ahead of the slowest subscriber; 0 is 512 KiB of what it writes."""
    rate: int = 0
    """Messages a second, each a write of its own; 0 is full speed."""
    bystanders: int = 0
    """How many further subscribers there are, to topics that nobody publishes to."""
    batches: bool = False
    """Whether the hub takes part a second time, with batches."""
    goals: tuple[Goal, ...] = ()
    batch_goals: tuple[Goal, ...] = ()


_WAKEUP_RATE = 20_000


def _wakeups(bystanders: int, *goals: Goal) -> Workload:
    return Workload(
        f"wakeups-{bystanders}",
        f"{_WAKEUP_RATE:,} messages/s, one by one, beside {bystanders:,} idle subscribers",
        rate=_WAKEUP_RATE,
        bystanders=bystanders,
        goals=(Goal("cpu_us", 0.9), *goals),
    )


def _latency(ratio: float) -> tuple[Goal, Goal]:
    return Goal("p50_us", ratio), Goal("p99_us", 1.0)


def _flat() -> Goal:
    return Goal("cpu_us", 1.02, "hub", "wakeups-0")


_TOPICS, _PREFIXES = 10_000, 1_000
_BATCHED = (Goal("cpu_us", 0.05),)

WORKLOADS: tuple[Workload, ...] = (
    Workload(
        "16-bytes", "1 → 1, 16 bytes", size_bytes=16, batches=True, goals=(Goal("cpu_us", 0.5),), batch_goals=_BATCHED
    ),
    Workload("100-bytes", "1 → 1, 100 bytes", batches=True, goals=(Goal("cpu_us", 0.5),), batch_goals=_BATCHED),
    Workload("4096-bytes", "1 → 1, 4096 bytes", size_bytes=4096, batches=True, goals=(Goal("cpu_us", 1.0),)),
    Workload("fan-out", "1 → 50, 100 bytes", subscribers=50, window_messages=1_500, goals=(Goal("cpu_us", 0.7),)),
    Workload("fan-in", "50 → 1, 100 bytes", publishers=50, window_messages=1_500, goals=(Goal("cpu_us", 0.7),)),
    Workload(
        "topics",
        "10,000 topics in turn, 1,000 prefixes of 1 subscriber",
        topics=_TOPICS,
        prefixes=_PREFIXES,
        goals=(Goal("cpu_us", 0.5),),
    ),
    _wakeups(0, *_latency(0.9)),
    _wakeups(20, _flat()),
    _wakeups(200, _flat()),
    _wakeups(1_000, _flat()),
    Workload("latency-1k", "1,000 messages/s, one by one", rate=1_000, goals=(Goal("cpu_us", 1.0), *_latency(1.0))),
)
"""They run in this order. `wakeups-0` is also the latency at 20,000 messages/s."""


def selected(names: list[str]) -> list[Workload]:
    """Return the workloads with these names; `wakeups` stands for `wakeups-0`, `wakeups-20` ...; all for none."""
    if not names:
        return list(WORKLOADS)
    chosen: set[str] = set()
    for name in names:
        exactly = {one.name for one in WORKLOADS if one.name == name}
        matching = exactly or {one.name for one in WORKLOADS if one.name.startswith(name + "-")}
        if not matching:
            raise ValueError(f"no workload {name!r}: there are {', '.join(one.name for one in WORKLOADS)}")
        chosen |= matching
    return [one for one in WORKLOADS if one.name in chosen]
