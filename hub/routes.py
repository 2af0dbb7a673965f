"""`Routes`: which handlers get what comes under this routing key, answered by one dictionary hit.

```
routing key (bytes 4 .. 8+K of a frame) ──▶ table ──hit──▶ Route ──▶ handlers
                                              │miss
                                              ▼
                            check the key, find() in the multimap, intern, remember
```

Owner: the core. Invariants: a `Route` never changes; keys with the same handlers share one `Route` object, so that
`is` tells whether two frames take the same way. A changed subscription forgets only keys under its prefix. The table
never holds more than `limit` keys: when it is full it is emptied (a table that is too small for its traffic is as
slow as none, whichever key goes first) and `clears` counts it.

Cost: a hit is one `dict.get`; a miss about 10 µs; forgetting O(log n) plus what is forgotten, or one clear.

Not here: reading frames (`peers.wire.scanner` does the hits), offering (`hub.core`).
"""

from __future__ import annotations

from operator import attrgetter
from weakref import WeakValueDictionary

from sortedcontainers import SortedList

from hub.errors import CloseCode, InvalidTopicError, RejectedError
from hub.frame import KIND_MESSAGES
from hub.handler import Handler
from hub.multimap import PrefixMultimap
from hub.topics import RESERVED, decode_topic, printable

__all__ = ["ROUTES_LIMIT", "Route", "Routes"]

ROUTES_LIMIT = 65_536
"""Default of most keys remembered; about 400 bytes each."""

_KEY_HEADER_BYTES = 4
_KNOWN_FLAGS = 0b11  # BATCH and the low bit of the encoding: msgpack or Broker
_by_id = attrgetter("id")
_AFTER_UTF8 = b"\xff"  # no UTF-8 text has this byte, so it sorts behind every continuation of a prefix


class Route:
    """Where messages go."""

    __slots__ = ("__weakref__", "handlers", "near")

    handlers: tuple[Handler, ...]
    """All handlers that want them."""

    near: tuple[Handler, ...]
    """Those of them that are no links: where messages go that came over a link."""

    def __init__(self, handlers: tuple[Handler, ...]) -> None:
        self.handlers = handlers
        self.near = tuple(handler for handler in handlers if not handler.is_link)


class Routes:
    """The route cache in front of a multimap of handlers."""

    __slots__ = ("_by_topic", "_interned", "_multimap", "clears", "limit", "misses", "table")

    def __init__(self, multimap: PrefixMultimap[Handler], limit: int = ROUTES_LIMIT) -> None:
        self.table: dict[bytes, Route] = {}
        self.limit = limit
        self.misses = 0
        self.clears = 0
        self._multimap = multimap
        self._interned: WeakValueDictionary[tuple[Handler, ...], Route] = WeakValueDictionary()
        self._by_topic: SortedList = SortedList()  # topic + key header, so that one prefix is one range

    def find(self, topic: str) -> Route:
        """Return the route of a topic, not remembered."""
        # Sorted, so that the same handlers are the same tuple, in whatever order their prefixes were found.
        handlers = tuple(sorted(self._multimap.find(topic), key=_by_id))
        route = self._interned.get(handlers)
        if route is None:
            route = self._interned[handlers] = Route(handlers)
        return route

    def miss(self, key: bytes) -> Route:
        """Find and remember the route of a key that `table` does not hold.

        Raises:
            RejectedError: No client may send messages under this key; the text says why.
        """
        self.misses += 1
        topic = _checked_topic(key)
        if len(self.table) >= self.limit:
            self.clear()
        route = self.table[key] = self.find(topic)
        self._by_topic.add(key[_KEY_HEADER_BYTES:] + key[:_KEY_HEADER_BYTES])
        return route

    def forget(self, prefix: str) -> None:
        """Forget the routes of all topics under `prefix`: its subscriptions have changed."""
        by_topic = self._by_topic
        raw = prefix.encode()
        first, last = by_topic.bisect_left(raw), by_topic.bisect_left(raw + _AFTER_UTF8)
        if first == last:
            return
        if last - first > len(by_topic) // 4:
            self.clear()
            return
        for entry in by_topic[first:last]:
            del self.table[entry[-_KEY_HEADER_BYTES:] + entry[:-_KEY_HEADER_BYTES]]
        del by_topic[first:last]

    def clear(self) -> None:
        """Forget all routes."""
        if self.table:
            self.clears += 1
            self.table.clear()
            self._by_topic.clear()


def _checked_topic(key: bytes) -> str:
    kind, flags = key[0], key[1]
    if kind != KIND_MESSAGES or flags & ~_KNOWN_FLAGS & 0xFF:
        raise RejectedError(
            CloseCode.BAD_DATA, f"flags 0b{flags:08b} of MESSAGES: this version takes BATCH and encodings 0 and 1"
        )
    try:
        topic = decode_topic(key[_KEY_HEADER_BYTES:])
    except InvalidTopicError as error:
        raise RejectedError(CloseCode.BAD_DATA, str(error)) from error
    if topic.startswith(RESERVED):
        raise RejectedError(CloseCode.NOT_ALLOWED, f"topic {printable(topic)}: {RESERVED} is the hub's own")
    return topic
