"""Goals for streams: CPU for each message, beside idle connections and beside churn."""

from __future__ import annotations

import select
import statistics

from peers.bench.line import Line, dial
from peers.bench.measurement import Measurement
from peers.bench.stage import Stage, Watch
from tests.benchmarks.goals.companions import companion
from tests.benchmarks.goals.figure import TOO_SLOW, Figure, Scope, faults, in_pairs


class Bystanders:
    """Subscribers to topics that nobody publishes to; there are none at first."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._poll = select.epoll()
        self._lines: list[Line] = []

    def populate(self, count: int) -> None:
        while len(self._lines) > count:
            line = self._lines.pop()
            self._poll.unregister(line.fileno())
            line.close()
        while len(self._lines) < count:
            number = len(self._lines)
            line = dial(self._stage.hub.url("tcp"), self._stage.layout, f"bench idle {number}")
            line.subscribe([f"/idle{self._stage.layout.prefix}{number:06}/"])
            self._lines.append(line)
            self._poll.register(line.fileno(), select.EPOLLIN)

    def answer(self) -> None:
        if self._poll.poll(0):
            for line in self._lines:
                line.listen()

    def watched(self, watch: Watch) -> Watch:
        def call(done: int, total: int) -> None:
            watch(done, total)
            self.answer()

        return call


_SIZE_BYTES = 100
_MESSAGES, _BATCHED_MESSAGES = 3_000_000, 12_000_000
_FAN_OUT_SECONDS = 10
_IDLE_SECONDS = 5
_JOINED_PERCENT = 10
"""So much more than one burst may leave with a write, on average, before the figure flatters the hub: when it, or the
publisher, gets no CPU in time, it puts together what should have been writes of their own."""


def streams(scope: Scope, goal_us: float, topics: int = 1, values: int = 1) -> list[Figure]:
    count = scope.scaled(_MESSAGES if values == 1 else _BATCHED_MESSAGES)
    plan = scope.plan(messages=count, size=_SIZE_BYTES, topics=topics, batch=values)
    turns = "one topic" if topics == 1 else f"{topics:,} topics in turn"
    name = (
        f"1 → 1, {_SIZE_BYTES} bytes, {f'{values} values in a frame' if values > 1 else 'each its own frame'}, {turns}"
    )
    with Stage(plan) as stage:
        runs = [stage.measure(watch=scope.tell(name)) for _ in range(scope.repeat)]
    rates = ", ".join(f"{run.delivered_per_s:,.0f}" for run in runs)
    busy = ", ".join(f"{run.hub_cpu_percent:.0f} %" for run in runs)
    return [
        Figure(
            name,
            goal_us,
            "µs hub CPU a message",
            [run.us_per_message for run in runs],
            faults=faults(runs),
            remark=f"messages/s: {rates}; hub's core busy: {busy}",
        )
    ]


def fan_out(scope: Scope, burst: int, goal_us: float) -> list[Figure]:
    subscribers = scope.scaled(100, 2)
    plan = scope.plan(
        messages=scope.scaled(1000 * _FAN_OUT_SECONDS, burst),
        size=128,
        rate=1000,
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
    subscribers, peers = scope.scaled(1000), scope.scaled(20)
    rate = 20_000
    plan = scope.plan(messages=1, rate=rate, size=_SIZE_BYTES)
    name = f"20,000 messages/s beside {subscribers:,} subscribers, {peers} peer hubs that are idle"
    with Stage(plan) as stage:
        bystanders = Bystanders(stage)

        def measure(beside: bool) -> Measurement:  # noqa: FBT001 -- as all
            watch = bystanders.watched(scope.tell(f"{name}{'' if beside else ': without'}"))
            bystanders.populate(subscribers if beside else 0)
            with companion("hubs", stage.hub.url("tcp"), peers if beside else 0):
                stage.hub.wait_quiet(bystanders.answer)
                return stage.measure(scope.scaled(rate * _IDLE_SECONDS), rate, watch=watch)

        alone, beside = in_pairs(2 * scope.repeat, measure)
        bystanders.populate(0)
    values = [100 * (with_it.hub_cpu_s / without.hub_cpu_s - 1) for without, with_it in zip(alone, beside, strict=True)]
    used = [statistics.median(run.hub_cpu_percent for run in runs) for runs in (alone, beside)]
    remark = f"hub CPU {used[0]:.2f} % of a core without, {used[1]:.2f} % with"
    return [Figure(name, goal_percent, "% more hub CPU", values, faults=faults(alone + beside), remark=remark)]


def churn(scope: Scope, pairs_per_s: float, goal_percent: float) -> list[Figure]:
    """Measure the stream at full speed, without and with a client that subscribes and unsubscribes."""
    plan = scope.plan(messages=scope.scaled(_MESSAGES), size=_SIZE_BYTES)
    name = f"churn of {pairs_per_s:,.0f} subscriptions and as many ends of them a second"
    flaws: list[str] = []
    with Stage(plan) as stage:

        def measure(churning: bool) -> Measurement:  # noqa: FBT001 -- as all
            watch = scope.tell(f"{name}{'' if churning else ': without'}")
            with companion("churn", stage.hub.url("tcp"), pairs_per_s * churning) as churned:
                run = stage.measure(watch=watch)
            if churning:
                requests, confirmed = churned["requests"], churned["confirmed"]
                wanted = 2 * pairs_per_s * churned["elapsed_s"]
                if confirmed != requests:
                    flaws.append(f"{requests:,} requests were made, {confirmed:,} confirmed")
                if requests < 0.9 * wanted - 200:
                    flaws.append(f"{TOO_SLOW}: {requests:,} requests were made, {wanted:,.0f} wanted")
            return run

        quiet, busy = in_pairs(2 * scope.repeat, measure)
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
