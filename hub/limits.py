"""Limits of the core: how much each handler may hold, and how much there may be of everything together.

Owner of the state: nobody, these are frozen values. What a person sets, with its range and its unit, is in
`hub.settings`; the default of each number stands here and there, and a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

__all__ = [
    "LINK_COST",
    "LINK_COST_LIMIT",
    "CoreLimits",
    "HandlerLimits",
    "MeshLimits",
    "NameLimits",
    "RequestLimits",
    "RouteLimits",
]

LINK_COST = 1
"""What a link costs where nothing is said of that."""

LINK_COST_LIMIT = 65_535
"""The most that a link may be said to cost: more than all others of a way together, in any mesh there will be."""


class HandlerLimits(NamedTuple):
    """How many different ones of each kind one handler may hold."""

    prefixes: int = 1_000
    """How many prefixes it may subscribe to. Subscribing to 1,000 in one frame takes about 15 ms."""
    rules: int = 1_000
    """How many rules it may subscribe by."""
    services: int = 1_000
    """How many prefixes it may serve."""


PEER_LIMITS = HandlerLimits(100_000, 100_000, 100_000)
"""A peer speaks for a whole hub: for a hundred clients that hold as much as they may, or for thousands of usual ones.
Its share of memory at these limits is about 60 MiB each."""


class RouteLimits(NamedTuple):
    """How many routing keys are remembered with their handlers."""

    keys: int = 65_536
    """Most routing keys. Each takes about 400 bytes, with labels 1 to 20 KiB."""
    bytes: int = 64 * 1024 * 1024
    """Most memory of them, bytes. Topics of ordinary length come to half of it, or 20,000 keys of 8 labels."""


class NameLimits(NamedTuple):
    """How many service names there may be."""

    per_client: int = 64
    """Names that one client may own or wait for."""
    queue: int = 64
    """Clients that may wait for one name."""
    total: int = 100_000
    """Names in all, those of peer hubs among them."""
    per_peer: int = 100_000
    """Names that one peer hub may announce."""


class RequestLimits(msgspec.Struct, frozen=True):
    """How many requests may be pending, and for how long."""

    pending: int = 65_536
    """Requests of one client that may be pending; links have no limit of their own."""

    pending_total: int = 1_000_000
    """Requests of all that may be pending; about 0.5 KB each where each came alone."""

    timeout_s: float = 30.0
    """Time for an answer, for requests that do not say it, seconds."""

    timeout_max_s: float = 3600.0
    """Longest time that a request may give, seconds; a longer one is cut to it."""


class MeshLimits(NamedTuple):
    """How much of a mesh one hub keeps. What is over a limit is counted, and told in one line."""

    hubs: int = 4_096
    """Most hubs that are known, this one with them."""
    neighbours: int = 1_024
    """Most links that one hub may tell of."""
    prefixes: int = 100_000
    """Most prefixes and rules that are kept of one hub; one that wants more is taken to want everything."""
    prefixes_total: int = 1_000_000
    """Most prefixes and rules that are kept of all hubs; about 0.5 KB each."""
    neighbours_total: int = 262_144
    """Most links that all other hubs may tell of together, each counted at both of its hubs: 512 hubs, everybody with
    everybody. About 0.1 KB each."""


class CoreLimits(NamedTuple):
    """All limits of one core."""

    client: HandlerLimits = HandlerLimits()
    """What one client may hold."""
    peer: HandlerLimits = PEER_LIMITS
    """What one peer hub may hold, or one endpoint of a foreign network."""
    routes: RouteLimits = RouteLimits()
    names: NameLimits = NameLimits()
    requests: RequestLimits = RequestLimits()
    mesh: MeshLimits = MeshLimits()
