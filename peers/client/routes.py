"""`LocalRoutes`: which of a client's subscriptions get what comes under this routing key.

The same idea as `hub.routes` in small: one dictionary hit per run of messages, a multimap behind it. It is the route
table of the client's scanner. What differs: topics under `$hub/` are welcome, and there are no links.

Owner: one client. Invariants: topics with the same sinks share one `Route` object, so that the scanner joins them to
one run. The table is emptied in place when a subscription changes (a client changes its own rarely) or when it is full.
"""

from __future__ import annotations

from typing import Protocol

from hub.batch import Batch
from hub.errors import InvalidTopicError
from hub.multimap import PrefixMultimap
from hub.topics import decode_topic

__all__ = ["LocalRoutes", "Route", "Sink"]

_ROUTES_LIMIT = 65_536
_KEY_HEADER_BYTES = 4
_READ_FLAGS = 0b111
"""BATCH and the encoding; with other flags the key is more than a topic."""


class Sink(Protocol):
    """Where the messages of a subscription go. Nothing here waits, and nothing raises."""

    def put(self, batch: Batch) -> None:
        """Take messages."""

    def put_gap(self, lost_messages: int) -> None:
        """Messages were lost at this point of the stream."""

    def put_break(self) -> None:
        """The connection was lost at this point, and is made anew."""

    def finish(self, error: Exception | None) -> None:
        """Nothing more comes, because of `error` if there is one."""

    def __hash__(self) -> int: ...


class Route:
    """Where messages go."""

    __slots__ = ("sinks",)

    def __init__(self, sinks: tuple[Sink, ...]) -> None:
        self.sinks = sinks


class LocalRoutes:
    """Prefixes and sinks of one client, with a cache in front.

    Args:
        unreadable: Gets messages whose routing key holds no topic that this version can read.
    """

    __slots__ = ("_interned", "_multimap", "_unreadable", "table")

    def __init__(self, unreadable: Sink) -> None:
        self.table: dict[bytes, Route] = {}
        self._multimap: PrefixMultimap[Sink] = PrefixMultimap()
        self._interned: dict[tuple[Sink, ...], Route] = {}
        self._unreadable = Route((unreadable,))

    def add(self, prefix: str, sink: Sink) -> None:
        """From now on, messages under `prefix` go to `sink`, too."""
        self._multimap.add(prefix, sink)
        self._forget()

    def discard(self, prefix: str, sink: Sink) -> None:
        """Messages under `prefix` no longer go to `sink`, unless another of its prefixes matches."""
        self._multimap.discard(prefix, sink)
        self._forget()

    def miss(self, key: bytes) -> Route:
        """Find and remember the route of a key that `table` does not hold. Never raises: a client refuses nothing."""
        if len(self.table) >= _ROUTES_LIMIT:
            self._forget()
        route = self.table[key] = self._find(key)
        return route

    def find(self, key: bytes) -> Route:
        """Return the route of a key."""
        return self.table.get(key) or self.miss(key)

    def _find(self, key: bytes) -> Route:
        if key[1] & ~_READ_FLAGS:
            return self._unreadable
        try:
            topic = decode_topic(key[_KEY_HEADER_BYTES:])
        except InvalidTopicError:
            return self._unreadable
        sinks = tuple(self._multimap.find(topic))
        return self._interned.setdefault(sinks, Route(sinks))

    def _forget(self) -> None:
        self.table.clear()
        self._interned.clear()
