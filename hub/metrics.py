"""Plain counters of the core, summed up when somebody asks.

Owner: the core. Counting is an integer addition on the handler that the message passes anyway; totals over all
handlers are made at reading time, so that a scrape pays for them and not a message. What left with its handler is kept
in `Counters`.

Not here: the Prometheus form (`peers.node.metrics`, docs/observability.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hub.delivery import Role
from hub.handler import Handler
from hub.look import Look

__all__ = ["CoreStatistics", "Counters", "RoutingStatistics"]


class RoutingStatistics(NamedTuple):
    """The multimap and the route cache at one moment."""

    subscriptions: int
    routes: int
    """How many routing keys are remembered."""
    misses_total: int
    clears_total: int
    """How often the cache was full, or lost too much to one subscription, and was emptied."""
    filter_prefixes: int
    """How many prefixes peers are told that this hub wants."""
    rules: int = 0
    """How many pairs of rule and handler there are."""
    tagged: int = 0
    """How many of the routing keys have labels or names."""
    size_bytes: int = 0
    """How much memory the routing keys take, about, bytes."""


class CoreStatistics(NamedTuple):
    """The core at one moment. Totals count from the start of the hub."""

    clients: int
    links: int
    leaves: int
    """How many Zeeks are connected."""
    routing: RoutingStatistics
    published_messages_total: int
    delivered_messages_total: int
    delivered_bytes_total: int
    dropped_messages_total: dict[str, int]
    """Messages that were dropped, by overflow policy."""
    unreadable_messages_total: int
    """Of these, messages that had no form in what the handler reads, or were larger than what it takes."""
    queued_messages: int
    queued_bytes: int
    paused_handlers: int


class Counters:
    """The sums of handlers that are gone."""

    __slots__ = (
        "_delivered_bytes",
        "_delivered_messages",
        "_dropped_messages",
        "_published_messages",
        "_unreadable_messages",
    )

    def __init__(self) -> None:
        # The sums of handlers that have left: `forget` adds to them, and nothing takes away from them.
        self._published_messages = 0
        self._delivered_messages = 0
        self._delivered_bytes = 0
        self._dropped_messages: dict[str, int] = {}
        self._unreadable_messages = 0

    def forget(self, handler: Handler) -> None:
        """Keep the sums of a leaving handler."""
        self._published_messages += handler.published_messages
        self._delivered_messages += handler.delivered_messages
        self._delivered_bytes += handler.delivered_bytes
        self._unreadable_messages += handler.unreadable_messages
        policy = handler.limits.overflow.value
        self._dropped_messages[policy] = self._dropped_messages.get(policy, 0) + handler.dropped_messages

    def add_to(self, look: Look) -> None:
        """Add the sums of those who have left to a look at those who are there."""
        look.published_messages += self._published_messages
        look.delivered_messages += self._delivered_messages
        look.delivered_bytes += self._delivered_bytes
        look.dropped_messages += sum(self._dropped_messages.values())

    def statistics(self, handlers: Iterable[Handler], routing: RoutingStatistics) -> CoreStatistics:
        """Sum up over the handlers that are there and those that have left."""
        roles = dict.fromkeys(Role, 0)
        published = self._published_messages
        delivered, delivered_bytes = self._delivered_messages, self._delivered_bytes
        dropped = dict(self._dropped_messages)
        unreadable = self._unreadable_messages
        queued = queued_bytes = paused = 0
        for handler in handlers:
            roles[handler.role] += 1
            published += handler.published_messages
            delivered_bytes += handler.delivered_bytes
            paused += not handler.writable
            unreadable += handler.unreadable_messages
            sums = handler.sums()
            delivered += sums.delivered_messages
            queued += sums.queued_messages
            queued_bytes += sums.queued_bytes
            if sums.dropped_messages:
                policy = handler.limits.overflow.value
                dropped[policy] = dropped.get(policy, 0) + sums.dropped_messages
        return CoreStatistics(
            clients=roles[Role.CLIENT],
            links=roles[Role.LINK],
            leaves=roles[Role.LEAF],
            routing=routing,
            published_messages_total=published,
            delivered_messages_total=delivered,
            delivered_bytes_total=delivered_bytes,
            dropped_messages_total=dropped,
            unreadable_messages_total=unreadable,
            queued_messages=queued,
            queued_bytes=queued_bytes,
            paused_handlers=paused,
        )
