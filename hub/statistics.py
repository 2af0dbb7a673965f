"""`HandlerStatistics`: what one handler has done, and what it holds, at one moment.

Frozen values, made by the handler when somebody asks. Not here: the core as a whole (`hub.statistics`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hub.delivery import Role

if TYPE_CHECKING:
    from collections.abc import Collection

    from hub.handler import Handler
    from hub.overflow import QueueLimits


class Look:
    """What handlers have done, and hold, as far as they were looked at; see `Handler.add_to`."""

    __slots__ = (
        "delivered_bytes",
        "delivered_messages",
        "dropped_messages",
        "published_messages",
        "queued_bytes",
        "queued_messages",
        "subscribers",
        "waiting",
    )

    def __init__(self) -> None:
        self.published_messages = self.delivered_messages = self.delivered_bytes = self.dropped_messages = 0
        self.queued_messages = self.queued_bytes = 0
        self.subscribers = 0
        """How many of them subscribe to something."""
        self.waiting: set[int] = set()
        """The numbers of those for whom messages wait."""

    def wait(self, number: int, messages: int, size_bytes: int, lost_messages: int) -> None:
        """Add what waits for a handler, and what of that was lost and is not told yet.

        Args:
            number: Of the handler.
            messages: How many wait.
            size_bytes: What all that waits takes, requests and replies, too.
            lost_messages: How many were lost while something waits: they are among those that were offered.
        """
        self.queued_messages += messages
        self.queued_bytes += size_bytes
        self.dropped_messages += lost_messages
        self.delivered_messages -= messages + lost_messages
        if messages:
            self.waiting.add(number)

    def add(self, other: Look) -> None:
        """Add what others have done."""
        self._change(other, 1)

    def subtract(self, other: Look) -> None:
        """Leave out what others have done."""
        self._change(other, -1)

    def _change(self, other: Look, times: int) -> None:
        self.published_messages += times * other.published_messages
        self.delivered_messages += times * other.delivered_messages
        self.delivered_bytes += times * other.delivered_bytes
        self.dropped_messages += times * other.dropped_messages


class HistogramStatistics(NamedTuple):
    """A histogram at one moment."""

    bounds: tuple[float, ...]
    """The largest value of each bucket but the last one, which has none."""
    counts: tuple[int, ...]
    """How many values fell into each bucket, one more than there are bounds."""
    total: float
    """All values added up."""


class Histogram:
    """Values by their size.

    Args:
        bounds: Upper bounds of the buckets, ascending; what is above the last one has a bucket of its own.
    """

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def statistics(self) -> HistogramStatistics:
        """Return what was counted so far."""
        return HistogramStatistics(self._bounds, tuple(self._counts), self._total)


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


SAMPLE_PREFIXES = 5
"""How many of its prefixes are shown of a handler, which may have 100,000."""


class _Counted(Protocol):
    """A handler, as far as it is counted here."""

    id: int
    name: str
    address: str
    limits: QueueLimits
    writable: bool
    published_messages: int
    delivered_bytes: int

    @property
    def role(self) -> Role: ...
    @property
    def shown_prefixes(self) -> Collection[str]: ...
    @property
    def delivered_messages(self) -> int: ...
    @property
    def dropped_messages(self) -> int: ...
    @property
    def queued_messages(self) -> int: ...
    @property
    def queued_bytes(self) -> int: ...


class HandlerStatistics(NamedTuple):
    """What a handler has done, and what it holds, at one moment."""

    id: int
    role: str
    name: str
    address: str
    prefixes: int
    """How many different prefixes it subscribes to."""
    sample: tuple[str, ...]
    """The first few of these prefixes."""
    published_messages: int
    """How many messages were taken from it."""
    delivered_messages: int
    """How many messages were written to it."""
    delivered_bytes: int
    queued_messages: int
    queued_bytes: int
    """How much waits for it: messages, requests and replies."""
    dropped_messages: int
    overflow: str
    paused: bool
    """Whether its transport takes no bytes now."""

    @classmethod
    def of(cls, handler: _Counted) -> HandlerStatistics:
        """Return what a handler has done, and what it holds now."""
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


class HandlerSums(NamedTuple):
    """What one handler adds to the sums over all of them."""

    delivered_messages: int
    dropped_messages: int
    queued_messages: int
    queued_bytes: int
