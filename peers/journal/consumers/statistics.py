"""`ConsumersStatistics`: the named consumers of a hub at one moment, for metrics and for people. Values; no owner.

What other hubs ask about them is `ForHubsStatistics`, what this hub asks another one `FarConsumersStatistics`.
"""

from __future__ import annotations

from typing import NamedTuple

from hub.consumers.consumer import ConsumerCounters

__all__ = [
    "CLIENTS_SHOWN",
    "ConsumerStatistics",
    "ConsumersStatistics",
    "FarConsumersStatistics",
    "ForHubsStatistics",
    "Sharing",
]

CLIENTS_SHOWN = 16
"""Of how many clients of one consumer it is told who they are, as it may have a thousand: those who have most."""


class Sharing(NamedTuple):
    """One of those who share a consumer."""

    id: int
    """By which `$hub/kick` of his hub knows his connection."""
    hub: str
    """The id of his hub; empty if it is this one."""
    out: int
    """How many messages he has."""


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
    clients: tuple[Sharing, ...] = ()
    """`CLIENTS_SHOWN` of its members at most, those first who have most."""
    committed_s: float | None = None
    """How long ago a query has said how far it is, s; None for a consumer that has members."""


class ForHubsStatistics(NamedTuple):
    """What other hubs have asked."""

    clients: int
    """How many clients of other hubs have joined, and are connected there."""
    answering: int
    """How many questions of other hubs wait for their answer; most are those of members for messages."""
    answering_limit: int
    answered_total: int
    refused_total: int
    """Questions that were refused: too many wait, not granted, or no question."""


class FarConsumersStatistics(NamedTuple):
    """What was asked of the hub that `journal.of` names."""

    clients: int
    """How many clients of this hub have joined one there."""
    pending: int
    """How many questions are not answered."""
    asked_total: int
    lost_total: int
    """Questions that had no answer, as the way there was lost, or there was none."""
    untold: int
    """How many clients have left of whom the other hub is not told yet."""


class ConsumersStatistics(NamedTuple):
    """All consumers at one moment."""

    each: list[ConsumerStatistics]
    limit: int
    save_failures_total: int
    forgotten_total: int
    """Queries that were forgotten, as nothing was heard of them for too long."""
    for_hubs: ForHubsStatistics
