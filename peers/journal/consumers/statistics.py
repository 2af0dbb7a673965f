"""`ConsumersStatistics`: the named consumers of a hub at one moment, for metrics and for people. Values; no owner."""

from __future__ import annotations

from typing import NamedTuple

from hub.consumers.consumer import ConsumerCounters

__all__ = ["ConsumerStatistics", "ConsumersStatistics"]


class ConsumerStatistics(NamedTuple):
    """One consumer at one moment."""

    name: str
    prefixes: tuple[str, ...]
    members: int
    position: int
    """Everything that it wants before this offset is done with."""
    lag: int
    """How many committed records, wanted or not, stand behind its position."""
    held: int
    """How many messages were read for it and are not done with."""
    out: int
    """How many of these members have."""
    held_bytes: int
    counters: ConsumerCounters
    error: str
    """Why nothing can be read for it; empty if it can."""


class ConsumersStatistics(NamedTuple):
    """All consumers at one moment."""

    each: list[ConsumerStatistics]
    limit: int
    save_failures_total: int
