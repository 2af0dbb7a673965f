"""Goals for streams: CPU for each message, beside idle connections and beside churn."""

from __future__ import annotations

import statistics

from peers.bench.idle_peers import Step, run_idle_peers
from peers.bench.measurement import Measurement
from peers.bench.stage import Stage
from peers.wire.hello import QueueWish
from tests.benchmarks.goals import churner
from tests.benchmarks.goals.figure import Figure
from tests.benchmarks.goals.scope import TOO_SLOW, Scope, faults

__all__ = ["batches", "churn", "fan_out", "idle", "streams"]

_SIZE_BYTES = 100
_MESSAGES = 3_000_000
_BATCHED_MESSAGES = 12_000_000
_FAN_OUT_SECONDS = 10
_IDLE_SECONDS = 5
_JOINED_PERCENT = 10
"""So much more than one burst may leave with a write, on average, before the figure flatters the hub: when it, or the
publisher, gets no CPU in time, it puts together what should have been writes of their own."""

_WIDE = QueueWish(messages=65_536)
"""The queue is so wide that the hub is measured and not the window, see docs/benchmarks.md."""


def streams(scope: Scope, topics: int, goal_us: float) -> list[Figure]:
    """Measure 1 → 1, each message its own frame."""
    plan = scope.plan(messages=scope.scaled(_MESSAGES), size=_SIZE_BYTES, topics=topics, wish=_WIDE)
    turns = "one topic" if topics == 1 else f"{topics:,} topics in turn"
    name = f"1 → 1, {_SIZE_BYTES} bytes, each its own frame, {turns}"
    with Stage(plan) as stage:
        runs = [stage.measure(watch=scope.tell(name)) for _ in range(scope.repeat)]
    return [_cpu_figure(name, goal_us, runs)]


def batches(scope: Scope, values: int, goal_us: float) -> list[Figure]:
    """Measure 1 → 1, several values in a frame."""
    plan = scope.plan(messages=scope.scaled(_BATCHED_MESSAGES), size=_SIZE_BYTES, batch=values, wish=_WIDE)
    name = f"1 → 1, {_SIZE_BYTES} bytes, {values} values in a frame"
    with Stage(plan) as stage:
        runs = [stage.measure(watch=scope.tell(name)) for _ in range(scope.repeat)]
    return [_cpu_figure(name, goal_us, runs)]


def _cpu_figure(name: str, goal_us: float, runs: list[Measurement]) -> Figure:
    rates = ", ".join(f"{run.delivered_per_s:,.0f}" for run in runs)
    busy = ", ".join(f"{run.hub_cpu_percent:.0f} %" for run in runs)
    return Figure(
        name,
        goal_us,
        "µs hub CPU a message",
        [run.us_per_message for run in runs],
        faults=faults(runs),
        remark=f"messages/s: {rates}; hub's core busy: {busy}",
    )


def fan_out(scope: Scope, burst: int, goal_us: float) -> list[Figure]:
    """Measure 1 → 100 over WebSocket at 1,000 messages/s."""
    subscribers = scope.scaled(100, 2)
    plan = scope.plan(
        messages=scope.scaled(1000 * _FAN_OUT_SECONDS, burst),
        size=128,
        rate=1000,
        burst=burst,
        subscribers=subscribers,
        transport="ws",
        warmup=500,
    )
    how = "each message its own write" if burst == 1 else f"{burst} messages coalesced"
    name = f"WebSocket 1 → {subscribers}, 1,000 messages/s of 128 bytes, {how}"
    with Stage(plan) as stage:
        runs = [stage.measure(rate=plan.rate, burst=burst, watch=scope.tell(name)) for _ in range(scope.repeat)]
    found = faults(runs)
    found += [
        f"{run.messages_per_write:.2f} messages a write: the machine was too busy for each {burst} to be one"
        for run in runs
        if run.messages_per_write > burst * (1 + _JOINED_PERCENT / 100)
    ]
    together = ", ".join(f"{run.messages_per_write:.2f}" for run in runs)
    values = [run.us_per_delivery for run in runs]
    return [
        Figure(name, goal_us, "µs hub CPU a delivery", values, faults=found, remark=f"messages a write: {together}")
    ]


def idle(scope: Scope, goal_percent: float) -> list[Figure]:
    """Measure a steady stream beside 1,000 subscribers and 20 peer hubs."""
    steps = (Step(0, 0), Step(scope.scaled(1000), scope.scaled(20)))
    plan = scope.plan(messages=1, rate=20_000, size=_SIZE_BYTES)
    found = run_idle_peers(plan, _IDLE_SECONDS * scope.scale, 2 * scope.repeat, scope.tell, steps)
    name = f"20,000 messages/s beside {steps[1]} that are idle"
    values = [100 * (ratio - 1) for ratio in found.ratios(1)]
    writes = found.change_of_writes_percent(1)
    by_write = "" if writes is None else f"; {writes:+.1f} % for a write"
    without, beside = (found.median(step, lambda run: run.hub_cpu_percent) for step in (0, 1))
    remark = f"hub CPU {without:.2f} % of a core without, {beside:.2f} % with{by_write}"
    flaws = faults([run for measurements in found.rounds for run in measurements])
    return [Figure(name, goal_percent, "% more hub CPU", values, faults=flaws, remark=remark)]


def churn(scope: Scope, pairs_per_s: float, goal_percent: float) -> list[Figure]:
    """Measure the stream at full speed, without and with a client that subscribes and unsubscribes."""
    plan = scope.plan(messages=scope.scaled(_MESSAGES), size=_SIZE_BYTES, wish=_WIDE)
    name = f"churn of {pairs_per_s:,.0f} subscriptions and as many ends of them a second"
    quiet: list[Measurement] = []
    busy: list[Measurement] = []
    flaws: list[str] = []
    with Stage(plan) as stage:
        for number in range(2 * scope.repeat):
            for churning in (False, True) if number % 2 == 0 else (True, False):
                watch = scope.tell(f"{name}{'' if churning else ': without'}")
                if not churning:
                    quiet.append(stage.measure(watch=watch))
                    continue
                with churner.churning(stage.hub.url("tcp"), pairs_per_s) as churned:
                    busy.append(stage.measure(watch=watch))
                wanted = 2 * pairs_per_s * churned.elapsed_s
                if churned.confirmed != churned.requests:
                    flaws.append(f"{churned.requests:,} requests were made, {churned.confirmed:,} confirmed")
                if churned.requests < 0.9 * wanted - 200:
                    flaws.append(f"{TOO_SLOW}: {churned.requests:,} requests were made, {wanted:,.0f} wanted")
    pairs = list(zip(quiet, busy, strict=True))
    rates = [100 * (1 - with_it.delivered_per_s / without.delivered_per_s) for without, with_it in pairs]
    shares = [
        100 * (with_it.hub_cpu_s - without.us_per_message * with_it.published / 1e6) / with_it.elapsed_s
        for without, with_it in pairs
    ]
    flaws += faults(quiet + busy)
    used = " and ".join(f"{statistics.median(run.hub_cpu_percent for run in runs):.0f} %" for runs in (quiet, busy))
    limited = f"hub's core busy: {used} without and with; the rate is the hub's only where it is 100 %"
    share = "what a hub that has nothing left would lose of its rate"
    return [
        Figure(f"{name}: the stream's rate", goal_percent, "% less", rates, faults=flaws, remark=limited),
        Figure(f"{name}: its share of the hub's core", goal_percent, "%", shares, faults=flaws, remark=share),
    ]
