"""The classic test: a steady stream to one subscriber while more and more others stand beside it.

20,000 messages a second to one subscriber; then with 20, 200 and 1,000 further subscribers, and then 20 further peer
hubs, all on other topics. What the hub's CPU does at each step should be: nothing.

Rounds run up the steps and down again, in turns, so that whatever else the machine does falls on all steps alike. Each
step is compared with the first one of its own round, and the median of these ratios is what counts.

A hub that gets no CPU in time finds several messages at once and puts them into one write, which is cheaper. So a busy
machine makes the CPU for a message go up and down by itself; the CPU for a write of the hub is the steadier figure.
"""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

import msgspec
from rich.table import Table

from peers.bench.environment import Environment
from peers.bench.errors import BenchError
from peers.bench.measurement import Measurement
from peers.bench.plan import Plan
from peers.bench.stage import Stage, Told

__all__ = ["STEPS", "IdlePeers", "Step", "run_idle_peers"]


class Step(NamedTuple):
    """Who stands beside the stream."""

    subscribers: int
    peers: int

    def __str__(self) -> str:
        return f"{self.subscribers:,} subscribers, {self.peers:,} peer hubs"


STEPS = (Step(0, 0), Step(20, 0), Step(200, 0), Step(1000, 0), Step(1000, 20))


class IdlePeers(msgspec.Struct, frozen=True):
    """What was found."""

    plan: Plan
    environment: Environment
    seconds: float
    steps: list[Step]
    rounds: list[list[Measurement]]
    """For each round one measurement of each step, in the order of the steps."""

    def cpu_percent(self, step: int) -> float:
        """Median of the hub's CPU at a step, in percent of a core."""
        return statistics.median(measurements[step].hub_cpu_percent for measurements in self.rounds)

    def ratios(self, step: int) -> list[float]:
        """For each round: the hub's CPU for a message at a step, relative to the first step."""
        return [measurements[step].us_per_message / measurements[0].us_per_message for measurements in self.rounds]

    def change_percent(self, step: int) -> float:
        """How much more CPU a message takes at a step than at the first one."""
        return 100 * (statistics.median(self.ratios(step)) - 1)

    def change_of_writes_percent(self, step: int) -> float | None:
        """The same for a write of the hub; None if its writes are not known."""
        ratios = [
            _us_per_write(measurements[step]) / _us_per_write(measurements[0])
            for measurements in self.rounds
            if measurements[step].messages_per_write and measurements[0].messages_per_write
        ]
        return 100 * (statistics.median(ratios) - 1) if ratios else None

    def table(self) -> Table:
        """For a terminal."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in (
            *("idle subscribers", "idle peer hubs", "hub CPU, % of a core", "µs/message", "messages/write"),
            *("relative: a message (each round)", "a write", "latency p99, µs", "lost"),
        ):
            table.add_column(column, justify="right")
        for index, step in enumerate(self.steps):
            runs = [measurements[index] for measurements in self.rounds]
            each = ", ".join(f"{100 * (ratio - 1):+.1f}" for ratio in self.ratios(index))
            writes = self.change_of_writes_percent(index)
            latencies = [run.latency.p99_us for run in runs if run.latency is not None]
            table.add_row(
                f"{step.subscribers:,}",
                f"{step.peers:,}",
                f"{self.cpu_percent(index):.2f}",
                f"{statistics.median(run.us_per_message for run in runs):.3f}",
                f"{statistics.median(run.messages_per_write for run in runs):.2f}",
                f"{self.change_percent(index):+.1f} % ({each})" if index else "",
                f"{writes:+.1f} %" if index and writes is not None else "",
                f"{statistics.median(latencies):,.0f}" if latencies else "",
                f"{sum(run.lost for run in runs):,}",
            )
        return table

    def json(self) -> bytes:
        """For programs."""
        steps: list[dict[str, Any]] = [
            {
                "subscribers": step.subscribers,
                "peers": step.peers,
                "hub_cpu_percent": self.cpu_percent(index),
                "change_percent": self.change_percent(index),
                "change_of_writes_percent": self.change_of_writes_percent(index),
                "ratios": self.ratios(index),
                "runs": [measurements[index] for measurements in self.rounds],
            }
            for index, step in enumerate(self.steps)
        ]
        document = {
            "benchmark": "idle-peers",
            "version": 1,
            "environment": self.environment,
            "plan": self.plan,
            "seconds": self.seconds,
            "steps": steps,
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=1)


def run_idle_peers(plan: Plan, seconds: float, rounds: int, tell: Told, steps: tuple[Step, ...] = STEPS) -> IdlePeers:
    """Run the test.

    Args:
        plan: With a rate; who stands beside it is decided here.
        seconds: At each step, in each round.
        rounds: 1 or more.
        tell: Told of each measurement.
        steps: The first one is what the others are compared with.

    Raises:
        BenchError: The hub or a worker failed, or there is no rate.
    """
    if not plan.rate or seconds <= 0 or rounds < 1:
        raise BenchError("--rate, --seconds, --rounds: numbers above 0 expected")
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
    return IdlePeers(plan, environment, seconds, list(steps), results)


def _us_per_write(run: Measurement) -> float:
    return run.us_per_delivery * run.messages_per_write
