"""`Services`: who serves a topic? Prefixes, and for each those that serve it.

Of the prefixes that a topic begins with, the longest that is served wins; of those that serve it, the ones of this hub
come before those of peer hubs; of these, the one with the fewest pending requests, and where they are equal, each in
turn. What came over a link does not go to a link (one hop): for such requests only prefixes count that are served here.

Owner: `hub.requests.requests`. Invariants: no prefix without one that serves it; links are told exactly the prefixes
that are served here, each once. Serving is counted, like subscribing.

Cost: a known topic is one dictionary hit, another one a lookup in the multimap (about 10 µs); choosing looks at no more
than `COMPARED` services. The topics known are bounded, and forgotten when a prefix gets its first service or loses its
last.

Not here: requests (`hub.requests.requests`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hub.counted import check_limit, give_back, take
from hub.errors import CloseCode, RejectedError
from hub.filter import Change
from hub.multimap import PrefixMultimap
from hub.requests.pending import Party
from hub.topics import RESERVED, check_prefix, decode_topic

__all__ = ["COMPARED", "TOPICS_LIMIT", "Services"]

COMPARED = 64
"""How many services of a prefix are compared for a request: a few µs. Of more, those that are next in turn."""

TOPICS_LIMIT = 65_536
"""Most topics remembered; about 300 bytes each."""


class _Served:
    """A prefix that is served."""

    __slots__ = ("far", "near", "prefix", "turn")

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.near: list[Party] = []  # of this hub
        self.far: list[Party] = []  # links
        self.turn = 0

    def choose(self, *, near_only: bool) -> Party | None:
        """Return who gets the next request; None if all have left."""
        chosen = self._fewest(self.near)
        return chosen if chosen is not None or near_only else self._fewest(self.far)

    def _fewest(self, parties: list[Party]) -> Party | None:
        size = len(parties)
        if size == 1:
            return None if parties[0].gone else parties[0]
        chosen: Party | None = None
        chosen_at = 0
        for place in range(self.turn, self.turn + min(size, COMPARED)):
            party = parties[place % size]
            if not party.gone and (chosen is None or party.owed_requests < chosen.owed_requests):
                chosen, chosen_at = party, place
                if not party.owed_requests:
                    break
        self.turn = (chosen_at + 1) % size if size else 0
        return chosen


class _Target(NamedTuple):
    """What is known of a topic."""

    served: _Served | None
    """The longest prefix."""

    near: _Served | None
    """The longest that is served by this hub itself."""


class Services:
    """The prefixes that are served.

    Args:
        prefixes_limit: Most different prefixes of one client.
    """

    __slots__ = ("_multimap", "_on_change", "_prefixes", "_prefixes_limit", "_targets")

    def __init__(self, prefixes_limit: int) -> None:
        self._prefixes_limit = prefixes_limit
        self._multimap: PrefixMultimap[_Served] = PrefixMultimap()
        self._prefixes: dict[str, _Served] = {}
        self._targets: dict[bytes, _Target] = {}
        self._on_change: dict[Party, Callable[[Change], None]] = {}

    def __len__(self) -> int:
        """How many prefixes are served, here or at peer hubs."""
        return len(self._prefixes)

    def tell(self, link: Party, on_change: Callable[[Change], None]) -> None:
        """Call `on_change` with what is served here: now, if there is something, and with each change of it."""
        self._on_change[link] = on_change
        served = tuple(prefix for prefix, one in self._prefixes.items() if one.near)
        if served:
            on_change(Change(added=served))

    def serve(self, party: Party, prefixes: list[str]) -> None:
        """Serve each prefix, all or none. Counted: the same prefix twice must be taken back twice.

        Raises:
            InvalidTopicError: One of them is no prefix.
            RejectedError: One is the hub's own, or there would be too many.
        """
        for prefix in prefixes:
            if check_prefix(prefix).startswith(RESERVED):
                raise RejectedError(CloseCode.NOT_ALLOWED, f"prefix {prefix!r}: {RESERVED} is the hub's own")
        if not party.is_link:
            check_limit(party.served, prefixes, self._prefixes_limit, "prefixes to serve")
        for prefix in take(party.served, prefixes):
            self._add(party, prefix)

    def unserve(self, party: Party, prefixes: list[str]) -> None:
        """Take back one for each prefix; those that it does not serve are passed over."""
        for prefix in give_back(party.served, prefixes):
            self._remove(party, prefix)

    def forget(self, party: Party, budget: int) -> int:
        """Take back what a party serves that has left, as far as the budget goes; return what is left of that."""
        self._on_change.pop(party, None)
        while party.served and budget:
            prefix, _ = party.served.popitem()
            self._remove(party, prefix)
            budget -= 1
        return budget

    def choose(self, topic: bytes, *, near_only: bool) -> Party | None:
        """Return who gets a request for this topic, None if nobody serves it.

        Raises:
            InvalidTopicError: It is none.
        """
        target = self._targets.get(topic) or self._miss(topic)
        served = target.near if near_only else target.served
        return served.choose(near_only=near_only) if served is not None else None

    def _miss(self, topic: bytes) -> _Target:
        text = decode_topic(topic)
        found: list[_Served] = []
        if not text.startswith(RESERVED):  # the hub's own are not for whoever serves everything
            found = sorted(self._multimap.find(text), key=lambda served: -len(served.prefix))
        if len(self._targets) >= TOPICS_LIMIT:
            self._targets.clear()
        near = next((served for served in found if served.near), None)
        target = self._targets[topic] = _Target(found[0] if found else None, near)
        return target

    def _add(self, party: Party, prefix: str) -> None:
        served = self._prefixes.get(prefix)
        if served is None:
            served = self._prefixes[prefix] = _Served(prefix)
            self._multimap.add(prefix, served)
            self._targets.clear()
        parties = served.far if party.is_link else served.near
        parties.append(party)
        if not party.is_link and len(parties) == 1:
            self._targets.clear()
            self._tell(Change(added=(prefix,)))

    def _remove(self, party: Party, prefix: str) -> None:
        served = self._prefixes[prefix]
        parties = served.far if party.is_link else served.near
        parties.remove(party)
        if not served.near and not served.far:
            del self._prefixes[prefix]
            self._multimap.discard(prefix, served)
            self._targets.clear()
        if not party.is_link and not parties:
            self._targets.clear()
            self._tell(Change(removed=(prefix,)))

    def _tell(self, change: Change) -> None:
        for on_change in list(self._on_change.values()):
            on_change(change)
