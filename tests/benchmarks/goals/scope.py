"""`Scope`: how thoroughly the goals are measured, and on which CPUs."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from peers.bench.measurement import Measurement
from peers.bench.plan import Plan
from peers.bench.stage import Told

__all__ = ["TOO_SLOW", "Scope", "faults"]

TOO_SLOW = "the machine is too busy"
"""What is found fault with where a client could not do what it was to do in time."""


class Scope(NamedTuple):
    """What all goals have in common."""

    base: Plan
    """It says the CPUs and the flags of the hub."""
    repeat: int
    """How often each figure is measured."""
    scale: float
    """It is 1 for what the goals say, and less for a quick look, whose figures are no figures."""
    tell: Told

    def plan(self, **fields: Any) -> Plan:
        """Return the base with other fields."""
        return msgspec.structs.replace(self.base, **fields)

    def scaled(self, count: float, least: int = 1) -> int:
        """Return a number of messages or connections at this scale."""
        return max(least, round(count * self.scale))


def faults(runs: list[Measurement]) -> list[str]:
    """Return what went wrong in streams that should be lossless and in order."""
    return [
        f"{run.delivered:,} of {run.expected:,} delivered, {run.lost:,} lost ({run.told:,} told), "
        f"{run.out_of_order:,} out of order"
        for run in runs
        if not run.flawless
    ]
