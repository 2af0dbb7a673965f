"""`LocalRoutes`: which of a client's subscriptions get what comes under this routing key.

The same idea as `hub.routes` in small: one dictionary hit per run of messages, a multimap behind it. It is the route
table of the client's scanner. What differs: topics under `$hub/` are welcome, and there are no links.

Owner: one client. Invariants: topics with the same sinks share one `Route` object, so that the scanner joins them to
one run. The table is emptied in place when a subscription changes (a client changes its own rarely) or when it is full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from hub.batch import Batch
from hub.errors import InvalidTopicError, RejectedError
from hub.frame import FLAG_TAGGED
from hub.multimap import PrefixMultimap
from hub.tags.envelope import Envelope
from hub.tags.rules import Rule, RuleIndex
from hub.topics import decode_topic

__all__ = [
    "Addressed",
    "Claim",
    "Interest",
    "LocalRoutes",
    "Route",
    "Sink",
    "Wanted",
]

_ROUTES_LIMIT = 65_536
_KEY_HEADER_BYTES = 4
_READ_FLAGS = 0b111 | FLAG_TAGGED
"""BATCH, the encoding, and that the key is an envelope; with other flags it is something else."""


class Addressed(NamedTuple):
    """A wish for what is sent to the owner of a name."""

    name: str


Wanted = str | Rule | Addressed
"""What a subscription asks for: a prefix, a rule, or (of this client alone, the hub need not be asked) a name."""


class Sink(Protocol):
    """Where the messages of a subscription go. Nothing here waits, and nothing raises."""

    def put(self, batch: Batch) -> None:
        """Take a batch of messages."""

    def put_gap(self, lost_messages: int) -> None:
        """Take note that messages were lost at this point of the stream."""

    def put_break(self) -> None:
        """Take note that the connection was lost at this point, and is made anew."""

    def finish(self, error: Exception | None) -> None:
        """Take note that nothing more comes, because of `error` if there is one."""

    def __hash__(self) -> int: ...


class Route:
    """The sinks that get the messages of some routing keys."""

    __slots__ = ("sinks",)

    def __init__(self, sinks: tuple[Sink, ...]) -> None:
        self.sinks = sinks


class LocalRoutes:
    """Prefixes, rules and sinks of one client, with a cache in front.

    Args:
        unreadable: Gets messages whose routing key holds no topic that this version can read.
    """

    __slots__ = ("_addressed", "_interned", "_multimap", "_rules", "_unreadable", "table")

    def __init__(self, unreadable: Sink) -> None:
        # Routing key → route; emptied in place when a subscription changes, or when it is full.
        self.table: dict[bytes, Route] = {}
        self._multimap: PrefixMultimap[Sink] = PrefixMultimap()
        self._rules: RuleIndex[Sink] = RuleIndex()
        # Name → the sinks that listen to what is sent to it.
        self._addressed: dict[str, list[Sink]] = {}
        # Sinks → the one route of these, so that the scanner joins topics to one run; emptied with the table.
        self._interned: dict[tuple[Sink, ...], Route] = {}
        self._unreadable = Route((unreadable,))

    def add(self, want: Wanted, sink: Sink) -> None:
        """Let messages under a prefix, or those that a rule matches, go to `sink`, too, from now on."""
        match want:
            case Rule():
                self._rules.add(want, sink)
            case Addressed():
                self._addressed.setdefault(want.name, []).append(sink)
            case _:
                self._multimap.add(want, sink)
        self._forget()

    def discard(self, want: Wanted, sink: Sink) -> None:
        """Let them no longer go to `sink`, unless something else that it wants matches; it does want this."""
        match want:
            case Rule():
                self._rules.discard(want, sink)
            case Addressed():
                self._addressed[want.name].remove(sink)
            case _:
                self._multimap.discard(want, sink)
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


class Claim:
    """One prefix or rule, and how many subscriptions want it."""

    __slots__ = ("count", "request", "want")

    def __init__(self, want: Wanted, request: int) -> None:
        self.want = want
        self.request = request
        """Number of the request that asks for it and was not answered yet; 0 if it was answered."""
        # How many subscriptions want it; the claim is void when none does.
        self.count = 0


class Interest:
    """The prefixes and rules that one client wants of its hub."""

    __slots__ = ("_asked", "_claims")

    def __init__(self) -> None:
        # Prefix or rule → the claim on it; it goes with its last subscription, or with a refusal.
        self._claims: dict[Wanted, Claim] = {}
        # Number of a request that was not answered → the claims that it asks for.
        self._asked: dict[int, list[Claim]] = {}

    def __len__(self) -> int:
        """Return how many different prefixes and rules are wanted."""
        return len(self._claims)

    def claim(self, wants: Iterable[Wanted], request: int) -> tuple[list[Claim], list[Wanted]]:
        """Take note that one more subscription wants each of `wants`.

        Args:
            wants: Prefixes and rules, each once.
            request: Number of the request that will ask for those that are new.

        Returns:
            The claims of the subscription, to be released later, and what to ask the hub for.
        """
        claims, new = [], []
        for want in wants:
            if isinstance(want, Addressed):  # the hub need not be asked
                claims.append(Claim(want, 0))
                continue
            claim = self._claims.get(want)
            if claim is None:
                claim = self._claims[want] = Claim(want, request)
                new.append(claim)
            claim.count += 1
            claims.append(claim)
        if new:
            self._asked[request] = new
        return claims, [claim.want for claim in new]

    def release(self, claims: Iterable[Claim]) -> list[Wanted]:
        """Take note that one subscription less has these claims; return what nobody wants any more."""
        gone = []
        for claim in claims:
            claim.count -= 1
            if not claim.count and self._claims.get(claim.want) is claim:
                del self._claims[claim.want]
                gone.append(claim.want)
        return gone

    def confirm(self, request: int) -> None:
        """Take note that the hub has carried out a request."""
        for claim in self._asked.pop(request, ()):
            claim.request = 0

    def refuse(self, request: int) -> None:
        """Take note that the hub has refused a request: nobody holds what it asked for."""
        for claim in self._asked.pop(request, ()):
            if self._claims.get(claim.want) is claim:
                del self._claims[claim.want]

    def held(self) -> list[Wanted]:
        """Return what the hub has confirmed."""
        return [claim.want for claim in self._claims.values() if not claim.request]

    def asked(self) -> dict[int, list[Wanted]]:
        """Return what was asked and not answered, by request; what nobody wants any more is left out."""
        return {
            request: [claim.want for claim in claims if self._claims.get(claim.want) is claim]
            for request, claims in self._asked.items()
        }
