"""The workloads: what is published, by how many, to how many, how fast. Frozen values; the engine knows no others.

```
flood    as fast as windows allow           → server CPU a delivered message, messages/s, peak memory
paced    one message at a time, on time     → the same, and latency p50, p99
```

`goals` has, for some figures, the most that ours is to be of the best other broker's in the same run. Missing one is
reported and is no error; loss and reordering are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    goals: Mapping[str, float] = field(default_factory=dict)


def _wakeups(bystanders: int, **goals: float) -> Workload:
    title = f"20,000 messages/s, one by one, beside {bystanders:,} idle subscribers"
    goals = {"cpu_us": 0.9, **goals}
    return Workload(f"wakeups-{bystanders}", title, rate=20_000, bystanders=bystanders, goals=goals)


WORKLOADS: tuple[Workload, ...] = (
    Workload("16-bytes", "1 → 1, 16 bytes", size_bytes=16, batches=True, goals={"cpu_us": 0.5}),
    Workload("100-bytes", "1 → 1, 100 bytes", batches=True, goals={"cpu_us": 0.5}),
    Workload("4096-bytes", "1 → 1, 4096 bytes", size_bytes=4096, batches=True, goals={"cpu_us": 1.0}),
    Workload("fan-out", "1 → 50, 100 bytes", subscribers=50, window_messages=1_500, goals={"cpu_us": 0.7}),
    Workload("fan-in", "50 → 1, 100 bytes", publishers=50, window_messages=1_500, goals={"cpu_us": 0.7}),
    Workload(
        "topics", "10,000 topics, 1,000 prefixes, 1 subscriber", topics=10_000, prefixes=1_000, goals={"cpu_us": 0.5}
    ),
    _wakeups(0, p50_us=0.9, p99_us=1.0),
    _wakeups(20),
    _wakeups(200),
    _wakeups(1_000),
    Workload(
        "latency-1k",
        "1,000 messages/s, one by one",
        rate=1_000,
        goals={"cpu_us": 1.0, "p50_us": 1.0, "p99_us": 1.0},
    ),
)
"""They run in this order. `wakeups-0` is also the latency at 20,000 messages/s."""


def selected(names: list[str]) -> list[Workload]:
    """Return the workloads with these names; `wakeups` stands for `wakeups-0`, `wakeups-20` ...; all for none."""
    if not names:
        return list(WORKLOADS)
    chosen = [one for one in WORKLOADS if any(one.name == name or one.name.startswith(name + "-") for name in names)]
    for name in names:
        if not any(one.name == name or one.name.startswith(name + "-") for one in chosen):
            raise ValueError(f"no workload {name!r}: there are {', '.join(one.name for one in WORKLOADS)}")
    return chosen
