"""Counters and statistics of handlers and of the core."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hub.handlers.delivery import Role

if TYPE_CHECKING:
    from hub.handlers.handler import Handler


class Look:
    """Sums over handlers that were looked at; see `Handler.add_to`."""

    def __init__(self) -> None:
        self.published_messages = self.delivered_messages = self.delivered_bytes = self.dropped_messages = 0
        self.queued_messages = self.queued_bytes = 0
        self.subscribers = 0  # How many of them subscribe to something
        self.waiting: set[int] = set()  # Ids of handlers with queued messages

    def wait(self, number: int, messages: int, size_bytes: int, lost_messages: int) -> None:
        """Add messages that wait for a handler, bytes of all that waits, and messages lost while something waits."""
        self.queued_messages += messages
        self.queued_bytes += size_bytes
        self.dropped_messages += lost_messages
        self.delivered_messages -= messages + lost_messages
        if messages:
            self.waiting.add(number)

    def add(self, other: Look, times: int = 1) -> None:
        """Add the counters of another look, or subtract them with -1."""
        self.published_messages += times * other.published_messages
        self.delivered_messages += times * other.delivered_messages
        self.delivered_bytes += times * other.delivered_bytes
        self.dropped_messages += times * other.dropped_messages


class HistogramStatistics(NamedTuple):
    """A histogram at one moment."""

    bounds: tuple[float, ...]  # The largest value of each bucket but the last one, which has none
    counts: tuple[int, ...]  # How many values fell into each bucket, one more than there are bounds
    total: float  # All values added up


class Histogram:
    """Values by their size; `bounds` are ascending, and larger values have a bucket of their own."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def statistics(self) -> HistogramStatistics:
        return HistogramStatistics(self._bounds, tuple(self._counts), self._total)


class RoutingStatistics(NamedTuple):
    """The multimap and the route cache at one moment."""

    subscriptions: int
    routes: int  # Remembered routing keys
    misses_total: int
    clears_total: int  # How often the cache was full, or lost too much to one subscription, and was emptied
    filter_prefixes: int  # Prefixes of the filter that peers get
    rules: int = 0  # Pairs of rule and handler
    tagged: int = 0  # Routing keys with labels or names
    size_bytes: int = 0  # Memory of the routing keys, about


class CoreStatistics(NamedTuple):
    """The core at one moment. Totals count from the start of the hub."""

    clients: int
    links: int
    leaves: int  # Zeeks
    routing: RoutingStatistics
    published_messages_total: int
    delivered_messages_total: int
    delivered_bytes_total: int
    dropped_messages_total: dict[str, int]  # By overflow policy
    # Of these, messages that the handler's encoding cannot express, or that exceed its frame limit
    unreadable_messages_total: int
    queued_messages: int
    queued_bytes: int
    paused_handlers: int


class Counters:
    """The sums of handlers that have left."""

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
            delivered += handler.delivered_messages
            queued += handler.queued_messages
            queued_bytes += handler.queued_bytes
            if lost := handler.dropped_messages:
                policy = handler.limits.overflow.value
                dropped[policy] = dropped.get(policy, 0) + lost
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


SAMPLE_PREFIXES = 5  # How many of its prefixes are shown of a handler, which may have 100,000


class HandlerStatistics(NamedTuple):
    """Counters, queue and prefixes of a handler."""

    id: int
    role: str
    name: str
    address: str
    prefixes: int  # How many different ones
    sample: tuple[str, ...]  # The first few of them
    published_messages: int  # Taken from it
    delivered_messages: int  # Written to it
    delivered_bytes: int
    queued_messages: int
    queued_bytes: int  # Requests and replies, too
    dropped_messages: int
    overflow: str
    paused: bool  # Whether its transport takes no bytes now

    @classmethod
    def of(cls, handler: Handler) -> HandlerStatistics:
        return cls(
            id=handler.id,
            role=handler.role.value,
            name=handler.name,
            address=handler.address,
            prefixes=len(handler.shown_prefixes),
            sample=tuple(islice(handler.shown_prefixes, SAMPLE_PREFIXES)),
            published_messages=handler.published_messages,
            delivered_messages=handler.delivered_messages,
            delivered_bytes=handler.delivered_bytes,
            queued_messages=handler.queued_messages,
            queued_bytes=handler.queued_bytes,
            dropped_messages=handler.dropped_messages,
            overflow=handler.limits.overflow.value,
            paused=not handler.writable,
        )
