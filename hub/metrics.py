"""Plain counters of the core, summed up when somebody asks.

Owner: the core. Counting is an integer addition on the handler that the message passes anyway; totals over all
handlers are made at reading time, so that a scrape pays for them and not a message. What left with its handler is kept
in `Counters`.

Not here: the Prometheus form (`peers.metrics`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hub.handler import Handler, Role

__all__ = ["CoreStatistics", "Counters", "RoutingStatistics"]


class RoutingStatistics(NamedTuple):
    """The multimap and the route cache at one moment."""

    subscriptions: int
    routes: int
    """Routing keys remembered."""
    misses_total: int
    clears_total: int
    """How often the cache was full, or lost too much to one subscription, and was emptied."""
    filter_prefixes: int
    """What peers are told."""
    rules: int = 0
    """Pairs of rule and handler."""
    tagged: int = 0
    """Of the routing keys, those with labels or names."""
    size_bytes: int = 0
    """What the routing keys take, about."""


class CoreStatistics(NamedTuple):
    """The core at one moment. Totals count from the start of the hub."""

    clients: int
    links: int
    leaves: int
    """Zeeks."""
    routing: RoutingStatistics
    published_messages_total: int
    delivered_messages_total: int
    delivered_bytes_total: int
    dropped_messages_total: dict[str, int]
    """By overflow policy."""
    queued_messages: int
    queued_bytes: int
    paused_handlers: int


class Counters:
    """What handlers that are gone have counted, and what passes no handler."""

    __slots__ = (
        "_delivered_bytes",
        "_delivered_messages",
        "_dropped_messages",
        "_published_messages",
        "local_messages",
    )

    def __init__(self) -> None:
        self.local_messages = 0
        self._published_messages = 0
        self._delivered_messages = 0
        self._delivered_bytes = 0
        self._dropped_messages: dict[str, int] = {}

    def forget(self, handler: Handler) -> None:
        """Keep what a leaving handler has counted."""
        self._published_messages += handler.published_messages
        self._delivered_messages += handler.delivered_messages
        self._delivered_bytes += handler.delivered_bytes
        policy = handler.limits.overflow.value
        self._dropped_messages[policy] = self._dropped_messages.get(policy, 0) + handler.dropped_messages

    def statistics(self, handlers: Iterable[Handler], routing: RoutingStatistics) -> CoreStatistics:
        """Sum up over the handlers that are there and those that have left."""
        present = [(handler, handler.statistics()) for handler in handlers]
        dropped = dict(self._dropped_messages)
        for _, one in present:
            dropped[one.overflow] = dropped.get(one.overflow, 0) + one.dropped_messages
        return CoreStatistics(
            clients=sum(handler.role is Role.CLIENT for handler, _ in present),
            links=sum(handler.is_link for handler, _ in present),
            leaves=sum(handler.role is Role.LEAF for handler, _ in present),
            routing=routing,
            published_messages_total=self.local_messages
            + self._published_messages
            + sum(one.published_messages for _, one in present),
            delivered_messages_total=self._delivered_messages + sum(one.delivered_messages for _, one in present),
            delivered_bytes_total=self._delivered_bytes + sum(one.delivered_bytes for _, one in present),
            dropped_messages_total=dropped,
            queued_messages=sum(one.queued_messages for _, one in present),
            queued_bytes=sum(one.queued_bytes for _, one in present),
            paused_handlers=sum(one.paused for _, one in present),
        )
