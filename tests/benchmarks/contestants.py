"""`Contestant`: a broker in one way of using it. The hub takes part several times where it can be used several ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brokers.broker import Broker
from workloads import Workload

__all__ = ["BEFORE", "FLOOR", "OURS", "Contestant", "contestants"]

OURS = "hub"
BEFORE = "hub-before"
"""The hub of another checkout, beside which this one is measured."""
FLOOR = "relay"
"""The relay is no broker: see `brokers.relay`."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One line of the results."""

    name: str
    broker: Broker

    @property
    def dialect(self) -> str:
        """The name of what it speaks."""
        return OURS if self.name == BEFORE else self.name

    @property
    def ours(self) -> bool:
        """Whether it is the hub, in whatever way."""
        return self.broker.name in (OURS, BEFORE)


def contestants(workload: Workload, brokers: Sequence[Broker]) -> list[Contestant]:
    """Return who takes part in a workload, in the order in which they run."""
    taking_part: list[Contestant] = []
    for broker in brokers:
        if workload.websocket and not broker.websocket:
            continue
        if broker.name == FLOOR and not _one_to_one(workload):
            continue
        taking_part.append(Contestant(broker.name, broker))
        if broker.name == OURS and workload.batches:
            taking_part.append(Contestant("hub-batch", broker))
        if broker.name == OURS and workload.websocket and workload.kind == "flood":
            taking_part.append(Contestant("hub-json", broker))
    return taking_part


def _one_to_one(workload: Workload) -> bool:
    """Return whether a relay could do it."""
    crowd = max(workload.publishers, workload.subscribers, workload.topics) > 1 or workload.bystanders
    return not crowd and workload.kind != "memory"
