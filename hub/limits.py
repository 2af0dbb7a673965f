"""Limits of the core: state of each handler, its queue with the overflow policy, and state of all together.

The settings of `hub.settings` have the same defaults, which a test compares.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

LINK_COST = 1  # Cost of a link by default

LINK_COST_LIMIT = 65_535  # The largest cost of a link: more than all others of a way together, in any mesh


class HandlerLimits(NamedTuple):
    """How many different ones of each kind one handler may hold."""

    prefixes: int = 1_000  # Subscribing to 1,000 in one frame takes about 15 ms
    rules: int = 1_000
    services: int = 1_000  # Prefixes to serve


# A peer speaks for a hundred clients that hold as much as they may, or for thousands of usual ones: about 60 MiB each
PEER_PREFIXES = 100_000


class RouteLimits(NamedTuple):
    """How many routing keys are remembered with their handlers."""

    keys: int = 65_536  # About 400 bytes each, with labels 1 to 20 KiB
    bytes: int = 64 * 1024 * 1024  # Topics of ordinary length come to half of it, or 20,000 keys of 8 labels


class NameLimits(NamedTuple):
    """How many service names there may be."""

    per_client: int = 64  # That one client may own or wait for
    queue: int = 64  # Clients that may wait for one name
    total: int = 100_000  # Those of peer hubs among them
    per_peer: int = 100_000  # That one peer hub may announce


class RequestLimits(msgspec.Struct, frozen=True):
    """How many requests may be pending, and for how long."""

    pending: int = 65_536  # Of one client; links have no limit of their own

    pending_total: int = 1_000_000  # About 0.5 KB each where each came alone

    timeout_s: float = 30.0  # Of requests that do not say it

    timeout_max_s: float = 3600.0  # A longer time-out is cut to it


class MeshLimits(NamedTuple):
    """How much of a mesh one hub keeps. Excess over a limit is counted, and logged in one line."""

    hubs: int = 4_096  # This one among them
    neighbours: int = 1_024  # Links of one hub
    prefixes: int = 100_000  # Prefixes and rules of one hub; one that wants more is taken to want everything
    prefixes_total: int = 1_000_000  # Of all hubs; about 0.5 KB each
    # Links of all other hubs, each counted at both of its hubs: 512 hubs, each with each. About 0.1 KB each
    neighbours_total: int = 262_144


class CoreLimits(NamedTuple):
    """All limits of one core."""

    client: HandlerLimits = HandlerLimits()
    peer_prefixes: int = PEER_PREFIXES  # Of one endpoint of a foreign network
    routes: RouteLimits = RouteLimits()
    names: NameLimits = NameLimits()
    requests: RequestLimits = RequestLimits()
    mesh: MeshLimits = MeshLimits()


_ADVICE = ": read faster or choose a drop policy"  # Left out where the name of a user leaves no room for it

_CLOSE_CHARACTERS = 123  # The text of a close is no longer than this (RFC 6455, section 5.5)


class Overflow(StrEnum):
    """Policy of a full queue. The texts are those of Zeek's Broker, with hyphens."""

    DISCONNECT = "disconnect"  # Throw the queue away and close the connection, with a code and a text that say why

    DROP_OLDEST = "drop-oldest"  # The oldest messages go until the new one fits

    DROP_NEWEST = "drop-newest"  # The new message goes


class QueueLimits(msgspec.Struct, frozen=True):
    """Bounds of one handler's queue, both in force at once.

    8192 messages and drop-oldest is Zeek's choice after its first default (2048 and disconnect) proved too
    aggressive; 64 MiB is nats-server's bound of pending bytes.
    """

    messages: int = 8192  # 1 or more

    bytes: int = 64 * 1024 * 1024  # As `Batch.size_bytes` says, 1 or more

    overflow: Overflow = Overflow.DROP_OLDEST


def overrun_text(why: str, lost_messages: int) -> str:
    text = f"{why}, {lost_messages} messages lost"
    return text + _ADVICE if len(text + _ADVICE) <= _CLOSE_CHARACTERS else text
