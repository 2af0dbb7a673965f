"""The scenario `mesh`: hubs in a row; what each hop takes of time, of CPU and of the rate, and what announcements cost.

```
publisher (process) ─▶ hub 1 ── hub 2 ── ... ── hub N        each a process; then at each of them, in turn:
                                  └─▶ subscriber (process)
```

1. At each hub, from the first to the last, a subscriber: once at a rate, for latencies, once at full speed.
2. CPU of each hub while the subscriber is at the last one: there each message passes all of them.
3. Filters: a client at the last hub makes subscriptions, so many a second, and takes each back 2 s later, after as long
   in which nothing happens. What each hub takes more, for each of them, is what hearing, keeping and telling it costs.

Owner of the state: the command. Cost: two runs for each hub, and twice as long for the filters. Not here: meshes of
other shapes and of many hubs, which are simulated (`tests/mesh_simulation`, `tests/benchmarks`): a machine has not the
CPUs for them.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import ExitStack
from typing import Any, Final

import msgspec

from peers.bench.environment import Environment
from peers.bench.errors import PlanError
from peers.bench.hub_row import QUEUE_MESSAGES, HubRow
from peers.bench.layout import SEQUENCE_LIMIT, SIZE_LEAST_BYTES, TOPICS_LIMIT
from peers.bench.measurement import Measurement
from peers.bench.plan import Plan
from peers.bench.report import Report, Row
from peers.bench.stage import Stage, Told, Watch
from peers.client.blocking import connect
from peers.wire.hello import FRAME_LIMIT_BYTES, QueueWish

__all__ = ["Found", "MeshPlan", "Place", "run_mesh"]

_HUBS_LIMIT: Final = 64
"""Most hubs: each is a process of 45 MB."""

_CHANGED = "/bench-filters/"

_KEPT_S: Final = 2.0
"""How long a filter is kept, seconds: what is added and removed within a second is not announced."""


class MeshPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured."""

    hubs: int = 4
    """How many stand in the row."""
    rate: float = 10_000
    """Messages a second, where latencies are measured."""
    seconds: float = 3
    """How long, at the rate; and with filters that change, and with none that do."""
    messages: int = 1_000_000
    """How many, at full speed."""
    size: int = 100
    """Bytes of a value."""
    topics: int = 1
    changes: float = 10
    """Filters that are made, and taken back, a second; 0 leaves that out."""
    hub_flags: tuple[str, ...] = ()

    def check(self) -> MeshPlan:
        """Return the plan, if it can be carried out.

        Raises:
            PlanError: It cannot; the text names the option.
        """
        for name, value, least, most in (
            ("hubs", self.hubs, 2, _HUBS_LIMIT),
            ("rate", self.rate, 1, SEQUENCE_LIMIT),
            ("seconds", self.seconds, 0.01, 3_600),
            ("messages", self.messages, 1, SEQUENCE_LIMIT // 4),
            ("size", self.size, SIZE_LEAST_BYTES, FRAME_LIMIT_BYTES),
            ("topics", self.topics, 1, TOPICS_LIMIT),
            ("changes", self.changes, 0, 10_000),
        ):
            if not least <= value <= most:
                raise PlanError(f"--{name}: {value:,} given, expected a number from {least:,} to {most:,}")
        return self

    @property
    def stream(self) -> Plan:
        """The stream to one subscriber."""
        return Plan(
            messages=self.messages,
            size=self.size,
            topics=self.topics,
            pin=False,  # the system places so many processes better than a rule
            wish=QueueWish(QUEUE_MESSAGES),
        )


class Place(msgspec.Struct, frozen=True):
    """What was found with the subscriber at one hub."""

    hops: int
    """How many links messages cross on their way there."""
    at_rate: Measurement
    at_full_speed: Measurement

    @property
    def disordered(self) -> int:
        """How many messages came late, twice, or under another topic."""
        return sum(run.out_of_order + run.misrouted for run in (self.at_rate, self.at_full_speed))

    @property
    def flawless(self) -> bool:
        """Whether every message has arrived once and in order."""
        return self.at_rate.flawless and self.at_full_speed.flawless


class Found(msgspec.Struct, frozen=True):
    """What was found in all."""

    places: list[Place]
    at_rate_us: list[float]
    """CPU of each hub for a message, at the rate, with the subscriber at the last one, µs."""
    at_full_speed_us: list[float]
    """The same at full speed."""
    change_us: list[float]
    """CPU of each hub for a filter that is made at the last one and taken back, µs; below 0 where it had other work
    before. Empty where that was not measured."""


def run_mesh(plan: MeshPlan, tell: Told, row: HubRow | None = None) -> Report:
    """Measure.

    Args:
        plan: What to do.
        tell: Told of each run.
        row: The hubs, as many as the plan says and not started; None makes them.

    Raises:
        BenchError: It cannot be done, or a process has failed.
    """
    environment = Environment.here()
    plan.check()
    tell(f"{plan.hubs} hubs start, and come to know each other")
    with row or HubRow(plan.hubs, plan.hub_flags) as hubs:
        places: list[Place] = []
        at_rate_us: list[float] = []
        at_full_speed_us: list[float] = []
        for number in range(1, plan.hubs + 1):
            with Stage(plan.stream, hubs.seen_from(number)) as stage:
                where = f"subscriber at hub {number} of {plan.hubs}"
                watch = tell(f"{where}, at a rate")
                at_rate, at_rate_us = _measured(hubs, stage, max(1, round(plan.rate * plan.seconds)), plan.rate, watch)
                watch = tell(f"{where}, at full speed")
                at_full_speed, at_full_speed_us = _measured(hubs, stage, plan.messages, 0, watch)
                places.append(Place(number - 1, at_rate, at_full_speed))
        change_us = _changes(hubs, plan, tell) if plan.changes else []
    return _report(plan, environment, Found(places, at_rate_us, at_full_speed_us, change_us))


def _measured(hubs: HubRow, stage: Stage, messages: int, rate: float, watch: Watch) -> tuple[Measurement, list[float]]:
    """Return a run, and the CPU of each hub for a message of it, µs."""
    before = [usage.cpu_ns for usage in hubs.usage()]
    run = stage.measure(messages, rate, watch=watch)
    spent_ns = [usage.cpu_ns - cpu_ns for usage, cpu_ns in zip(hubs.usage(), before, strict=True)]
    return run, [cpu_ns / 1e3 / run.published for cpu_ns in spent_ns]


def _changes(hubs: HubRow, plan: MeshPlan, tell: Told) -> list[float]:
    """Return what each hub takes for a filter that is made at the last one and taken back, µs."""
    watch = tell("filters change at the last hub")
    changes = max(1, round(plan.changes * plan.seconds))
    kept = max(1, round(plan.changes * _KEPT_S))
    pause_s = plan.seconds / changes
    with connect(hubs.hubs[-1].url("tcp")) as client, ExitStack() as rest:
        start = [usage.cpu_ns for usage in hubs.usage()]
        time.sleep(plan.seconds)
        idle = [usage.cpu_ns for usage in hubs.usage()]
        begun_s = time.monotonic()
        held: deque[ExitStack] = deque()
        for number in range(changes):
            held.append(rest.enter_context(ExitStack()))
            held[-1].enter_context(client.subscribe(f"{_CHANGED}{number}"))
            if len(held) > kept:
                held.popleft().close()
            watch(number + 1, changes)
            time.sleep(max(0.0, begun_s + (number + 1) * pause_s - time.monotonic()))
        end = [usage.cpu_ns for usage in hubs.usage()]
    figures = zip(start, idle, end, strict=True)
    return [((after - middle) - (middle - before)) / 1e3 / changes for before, middle, after in figures]


def _report(plan: MeshPlan, environment: Environment, found: Found) -> Report:
    """Return what it shows: a column for each hub."""
    places = found.places
    latencies = [place.at_rate.latency for place in places]
    lost = [place.at_rate.lost + place.at_full_speed.lost for place in places]
    disordered = [place.disordered for place in places]
    rows = [
        Row.of("hops to there", "links", [place.hops for place in places]),
        Row.of("delivered there, full speed", "messages/s", [one.at_full_speed.delivered_per_s for one in places]),
        Row.of("latency there, p50", "µs", [0 if one is None else one.p50_us for one in latencies]),
        Row.of("latency there, p99", "µs", [0 if one is None else one.p99_us for one in latencies]),
        Row.of("its CPU, to the last hub, full speed", "µs/message", found.at_full_speed_us, 3),
        Row.of("its CPU, to the last hub, at the rate", "µs/message", found.at_rate_us, 3),
        *([Row.of("its CPU, filters at the last hub", "µs/change", found.change_us)] if found.change_us else []),
        Row.of("lost", "messages", lost, bad=any(lost)),
        Row.of("out of order", "messages", disordered, bad=any(disordered)),
    ]
    said = [
        f"{plan.size} bytes, {plan.topics:,} topics",
        f"at the rate: {plan.rate:,.0f} messages/s for {plan.seconds:g} s; at full speed: {plan.messages:,} messages",
    ]
    if found.change_us:
        said.append(f"{plan.changes:g} filters a second are made, and taken back {_KEPT_S:g} s later")
    if environment.cpus <= plan.hubs:
        said.append(f"{plan.hubs} hubs share {environment.cpus} CPUs: latencies and rates are those of hubs that wait")
    figures: dict[str, Any] = {"found": found}
    is_flawless = all(place.flawless for place in places)
    columns = [f"hub {number}" for number in range(1, plan.hubs + 1)]
    return Report("mesh", environment, plan, columns, rows, figures, is_flawless, said)
