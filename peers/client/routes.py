"""`LocalRoutes`: which of a client's subscriptions get the messages under a routing key.

It is the route table of the client's scanner: one dictionary hit per run of messages, a multimap behind it. Topics with
the same sinks share one `Route` object, so that the scanner joins them to one run. The table is emptied in place when a
subscription changes or when it is full.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hub.errors import HubError, InvalidTopicError, RejectedError
from hub.labels.envelope import Envelope
from hub.labels.rules import Rule, RuleIndex
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_TAGGED
from hub.prefixes import PrefixMultimap
from hub.topics import decode_topic

_ROUTES_LIMIT = 65_536
_KEY_HEADER_BYTES = 4
_READ_FLAGS = 0b111 | FLAG_TAGGED
"""BATCH, the encoding, and that the key is an envelope; frames with other flags are unreadable."""


class Addressed(NamedTuple):
    """Messages to the owner of a name."""

    name: str


Wanted = str | Rule | Addressed  # A prefix, a rule, or a name of this client, for which the hub need not be asked


class Claim:
    """A prefix or rule that the hub is asked for, once for all subscriptions that want it."""

    __slots__ = ("answer", "count", "want")

    def __init__(self, want: Wanted) -> None:
        self.want = want
        self.count = 0  # How many subscriptions want it; the claim is void when none does
        # Of the request that asks for it; None once it is granted.
        self.answer: asyncio.Future[HubError | None] | None = None


class Sink:
    """Where the messages of a subscription go. Nothing here waits, and nothing raises."""

    def put(self, batch: Batch) -> None:
        """Take a batch of messages."""

    def put_gap(self, lost_messages: int) -> None:
        """Take note that messages were lost at this point of the stream."""

    def put_break(self) -> None:
        """Take note that the connection was lost at this point, and is made anew."""

    def finish(self, error: Exception | None) -> None:
        """Take note that nothing more comes, because of `error` if there is one."""


class Route:
    """The sinks that get the messages of some routing keys."""

    __slots__ = ("sinks",)

    def __init__(self, sinks: tuple[Sink, ...]) -> None:
        self.sinks = sinks


class LocalRoutes:
    """Prefixes, rules and sinks of one client, with a cache in front."""

    def __init__(self, unreadable: Sink) -> None:
        self.table: dict[bytes, Route] = {}
        self._multimap: PrefixMultimap[Sink] = PrefixMultimap()
        self._rules: RuleIndex[Sink] = RuleIndex()
        self._addressed: dict[str, list[Sink]] = {}  # Name → the sinks of messages to it
        self._interned: dict[tuple[Sink, ...], Route] = {}  # Sinks → their route; emptied with the table
        self._unreadable = Route((unreadable,))

    def add(self, want: Wanted, sink: Sink) -> None:
        match want:
            case Rule():
                self._rules.add(want, sink)
            case Addressed():
                self._addressed.setdefault(want.name, []).append(sink)
            case _:
                self._multimap.add(want, sink)
        self._forget()

    def discard(self, want: Wanted, sink: Sink) -> None:
        match want:
            case Rule():
                self._rules.discard(want, sink)
            case Addressed():
                self._addressed[want.name].remove(sink)
            case _:
                self._multimap.discard(want, sink)
        self._forget()

    def miss(self, key: bytes) -> Route:
        """Find and remember the route of a key that `table` does not hold."""
        if len(self.table) >= _ROUTES_LIMIT:
            self._forget()
        route = self.table[key] = self._find(key)
        return route

    def find(self, key: bytes) -> Route:
        return self.table.get(key) or self.miss(key)

    def _find(self, key: bytes) -> Route:
        if key[1] & ~_READ_FLAGS:
            return self._unreadable
        raw = key[_KEY_HEADER_BYTES:]
        try:
            found = self._find_tagged(raw) if key[1] & FLAG_TAGGED else self._multimap.find(decode_topic(raw))
        except (InvalidTopicError, RejectedError):
            return self._unreadable
        sinks = tuple(found)
        return self._interned.setdefault(sinks, Route(sinks))

    def _find_tagged(self, raw: bytes) -> dict[Sink, None]:
        topic, labels, sender, destination = Envelope.decode(raw)
        found = self._multimap.find(topic)
        found |= self._rules.find(topic, labels, sender)
        found |= dict.fromkeys(self._addressed.get(destination, ()))
        return found

    def _forget(self) -> None:
        self.table.clear()
        self._interned.clear()
