"""The scenario `idle-peers`: a steady stream to one subscriber while more and more others stand beside it.

The stream has 20,000 messages a second; beside it are 20, 200 and 1,000 further subscribers, and then 20 further peer
hubs, all on other topics. What the hub's CPU does at each step should be: nothing.

Rounds run up the steps and down again, in turns, so that whatever else the machine does falls on all steps alike. Each
step is compared with the first one of its own round, and the median of these ratios is what counts.

A hub that gets no CPU in time finds several messages at once and puts them into one write, which is cheaper. So a busy
machine makes the CPU for a message go up and down by itself; the CPU for a write of the hub is the steadier figure.

Owner of the state: the command. Cost: a step takes the seconds that are asked for, and connecting a few more.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

from peers.bench.environment import Environment
from peers.bench.errors import PlanError
from peers.bench.measurement import Measurement
from peers.bench.plan import Plan
from peers.bench.report import Report, Row
from peers.bench.stage import Stage, Told

__all__ = ["STEPS", "IdlePeers", "Step", "run_idle_peers"]


class Step(NamedTuple):
    """Who stands beside the stream."""

    subscribers: int
    peers: int

    def __str__(self) -> str:
        return f"{self.subscribers:,} subscribers, {self.peers:,} peer hubs"


STEPS = (Step(0, 0), Step(20, 0), Step(200, 0), Step(1000, 0), Step(1000, 20))


class IdlePeers(NamedTuple):
    """What was found."""

    plan: Plan
    environment: Environment
    seconds: float
    steps: tuple[Step, ...]
    rounds: list[list[Measurement]]
    """For each round one measurement of each step, in the order of the steps."""

    def median(self, step: int, figure: Callable[[Measurement], float]) -> float:
        """Return the median of a figure at a step."""
        return statistics.median(figure(measurements[step]) for measurements in self.rounds)

    def ratios(self, step: int) -> list[float]:
        """Return for each round the hub's CPU for a message at a step, relative to the first step."""
        return [measurements[step].us_per_message / measurements[0].us_per_message for measurements in self.rounds]

    def change_percent(self, step: int) -> float:
        """Return how much more CPU a message takes at a step than at the first one."""
        return 100 * (statistics.median(self.ratios(step)) - 1)

    def change_of_writes_percent(self, step: int) -> float | None:
        """Return the same for a write of the hub; None if its writes are not known."""
        ratios = [
            _us_per_write(measurements[step]) / _us_per_write(measurements[0])
            for measurements in self.rounds
            if measurements[step].messages_per_write and measurements[0].messages_per_write
        ]
        return 100 * (statistics.median(ratios) - 1) if ratios else None

    def report(self) -> Report:
        """Return what it shows: a column for each step."""
        numbers = range(len(self.steps))
        lost = [sum(measurements[number].lost for measurements in self.rounds) for number in numbers]
        writes = [self.change_of_writes_percent(number) if number else None for number in numbers]

        def row(label: str, unit: str, figure: Callable[[Measurement], float], decimals: int) -> Row:
            return Row.of(label, unit, [self.median(number, figure) for number in numbers], decimals)

        rows = [
            row("hub CPU", "% of a core", lambda run: run.hub_cpu_percent, 2),
            row("hub CPU", "µs/message", lambda run: run.us_per_message, 3),
            row("delivered", "messages/write of the hub", lambda run: run.messages_per_write, 2),
            Row("a message, relative", "%", ["", *(f"{self.change_percent(one):+.1f}" for one in numbers[1:])]),
            Row("a write, relative", "%", ["" if change is None else f"{change:+.1f}" for change in writes]),
            row("latency, p99", "µs", lambda run: run.latency.p99_us if run.latency is not None else 0.0, 0),
            Row.of("lost", "messages", lost, bad=any(lost)),
        ]
        steps: list[dict[str, Any]] = [
            {
                "subscribers": step.subscribers,
                "peers": step.peers,
                "hub_cpu_percent": self.median(number, lambda run: run.hub_cpu_percent),
                "change_percent": self.change_percent(number),
                "change_of_writes_percent": self.change_of_writes_percent(number),
                "ratios": self.ratios(number),
                "runs": [measurements[number] for measurements in self.rounds],
            }
            for number, step in enumerate(self.steps)
        ]
        stream = f"{self.plan.rate:,.0f} messages/s of {self.plan.size} bytes"
        return Report(
            "idle-peers",
            self.environment,
            self.plan,
            [f"{step.subscribers:,} + {step.peers:,}" for step in self.steps],
            rows,
            {"seconds": self.seconds, "steps": steps},
            all(run.flawless for measurements in self.rounds for run in measurements),
            [f"{stream}, {len(self.rounds)} rounds of {self.seconds:g} s a step, beside subscribers + peer hubs"],
        )


def run_idle_peers(plan: Plan, seconds: float, rounds: int, tell: Told, steps: tuple[Step, ...] = STEPS) -> IdlePeers:
    """Run the test.

    Args:
        plan: The stream, with a rate; who stands beside it is decided here.
        seconds: How long it is at each step, in each round.
        rounds: How often all steps are measured, 1 or more.
        tell: Told of each measurement.
        steps: Who stands beside it; the first step is what the others are compared with.

    Raises:
        PlanError: There is no rate, or no time.
        BenchError: The hub or a worker failed.
    """
    if not plan.rate or seconds <= 0 or rounds < 1:
        raise PlanError("--rate, --seconds, --rounds: numbers above 0 expected")
    messages = max(1, round(plan.rate * seconds))
    environment = Environment.here()
    results: list[list[Measurement]] = []
    with Stage(plan) as stage:
        for number in range(rounds):
            order = range(len(steps)) if number % 2 == 0 else range(len(steps) - 1, -1, -1)
            found: dict[int, Measurement] = {}
            for index in order:
                stage.populate(steps[index].subscribers, steps[index].peers)
                watch = tell(f"round {number + 1} of {rounds}: {steps[index]}")
                found[index] = stage.measure(messages, plan.rate, plan.burst, watch)
            results.append([found[index] for index in range(len(steps))])
    return IdlePeers(plan, environment, seconds, steps, results)


def _us_per_write(run: Measurement) -> float:
    return run.us_per_delivery * run.messages_per_write
