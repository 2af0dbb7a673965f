"""`Services`: the prefixes that are served, and for each those that serve it.

Of the prefixes that a topic begins with, the longest that is served wins. Services of this hub come before other hubs;
of these the one with the fewest pending requests wins, and equal ones take turns. Of other hubs of the mesh the nearest
gets the request: it goes to the link that leads there, and the hub at its other end chooses again.

The mesh gets exactly the prefixes that are served here, each once. A known topic is one dictionary hit,
another one a lookup in the multimap (about 10 µs); at most `COMPARED` services are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.handlers.holdings import Allowance
from hub.handlers.remote_hub import RemoteHub
from hub.policy.policy import Rights, prefix_not_granted
from hub.prefixes.filter import Change
from hub.prefixes.multimap import PrefixMultimap
from hub.requests.pending import Participant
from hub.topics import RESERVED, STORES, check_prefix, decode_topic

# How many services of a prefix are compared for a request: a few µs. Of more, those that are next in turn
COMPARED = 64
TOPICS_LIMIT = 65_536  # Most topics remembered; about 300 bytes each


_CHECKED_PER_STEP = 5  # Prefixes whose grants are checked in one step: 2 µs each
_how_far = itemgetter(0, 1)


class Serving(NamedTuple):
    """The services of a prefix."""

    # Clients of this hub, and services of this process, each with its pending requests
    handlers: list[tuple[Handler, int]]
    hubs: list[bytes]  # Other hubs of the mesh


@dataclass(slots=True, eq=False)
class _Served:
    prefix: str
    near: list[Participant] = field(default_factory=list)  # Services of this hub, in the order of their first `serving`
    hubs: list[RemoteHub] = field(default_factory=list)  # Other hubs of the mesh that serve it
    turn: int = 0  # The place behind the service that was chosen last: the next comparison begins there

    def __bool__(self) -> bool:
        return bool(self.near or self.hubs)

    def fewest(self) -> Participant | None:
        participants = self.near
        size = len(participants)
        if size == 1:
            return None if participants[0].gone else participants[0]
        chosen: Participant | None = None
        chosen_at = 0
        for place in range(self.turn, self.turn + min(size, COMPARED)):
            participant = participants[place % size]
            if not participant.gone and (chosen is None or participant.owed_requests < chosen.owed_requests):
                chosen, chosen_at = participant, place
                if not participant.owed_requests:
                    break
        self.turn = (chosen_at + 1) % size if size else 0
        return chosen


class Services:
    """The prefixes that are served."""

    __slots__ = ("_allowed", "_link_to", "_multimap", "_on_change", "_prefixes", "_targets")

    def __init__(self, allowed: Allowance[str], link_to: Callable[[bytes], tuple[int, Participant] | None]) -> None:
        self._link_to = link_to
        self._allowed = allowed
        # By prefix, to be found by a topic and by the prefix itself. It goes with its last service.
        self._multimap: PrefixMultimap[_Served] = PrefixMultimap()
        self._prefixes: dict[str, _Served] = {}
        # Topic → the prefixes of it that are served, the longest first. Forgotten whenever a prefix gets its first
        # service or loses its last, or there are too many.
        self._targets: dict[bytes, tuple[_Served, ...]] = {}
        self._on_change: Callable[[Change], object] = _untold  # Announces prefixes to the mesh

    def __len__(self) -> int:
        return len(self._prefixes)

    def prefixes(self) -> list[str]:
        return list(self._prefixes)

    def who_serves(self, prefix: str) -> Serving:
        served = self._prefixes.get(prefix)
        if served is None:
            return Serving([], [])
        return Serving(
            [(one.handler, one.owed_requests) for one in served.near],
            [far.hub for far in served.hubs],
        )

    def tell(self, on_change: Callable[[Change], object]) -> None:
        """Call `on_change` with the prefixes that are served here, now and with each change."""
        self._on_change = on_change
        served = tuple(prefix for prefix, one in self._prefixes.items() if one.near)
        if served:
            on_change(Change(added=served))

    def serving(self, participant: Participant, prefixes: list[str]) -> Iterator[None]:
        """Serve each prefix, all or none, in steps. A prefix that is served twice must be taken back twice.

        Raises:
            InvalidTopicError: One of them is no prefix.
            RejectedError: One is the hub's own, or not granted, or there would be too many.
        """
        for prefix in prefixes:
            if check_prefix(prefix).startswith(RESERVED):
                raise RejectedError(CloseCode.NOT_ALLOWED, f"prefix {prefix!r}: {RESERVED} is the hub's own")
            if prefix.startswith(STORES) and participant.handler.role is not Role.LOCAL:
                raise RejectedError(CloseCode.NOT_ALLOWED, f"prefix {prefix!r}: hubs alone have stores")
        handler = participant.handler
        rights = handler.rights
        if rights is not None:
            self._allowed.check(handler, participant.served, prefixes)
            yield from _checking(handler, rights, prefixes)
            if participant.gone:
                return
            if handler.rights is not rights:  # it was given others meanwhile
                yield from self.serving(participant, prefixes)
                return
        for prefix in self._allowed.taking(handler, participant.served, prefixes):
            self._add(participant, prefix)
            yield
            if participant.gone:
                return

    def unserving(self, participant: Participant, prefixes: list[str]) -> Iterator[None]:
        for prefix in prefixes:
            if self._allowed.give_back(participant.handler, participant.served, prefix):
                self._remove(participant, prefix)
                yield

    def take_away(self, participant: Participant, prefix: str) -> None:
        """Let a participant serve a prefix no more, however often it serves it."""
        if self._allowed.take_away(participant.handler, participant.served, prefix):
            self._remove(participant, prefix)

    def forgetting(self, participant: Participant) -> Iterator[None]:
        while participant.served:
            self._remove(participant, self._allowed.give_back_any(participant.handler, participant.served))
            yield

    def choose(self, topic: bytes, asker: Participant) -> Participant | None:
        """Return the service that gets a request for this topic, or the link that leads to one; None for none.

        Raises:
            InvalidTopicError: It is no topic.
        """
        found = self._targets.get(topic)
        if found is None:
            found = self._miss(topic)
        for served in found:
            chosen = served.fewest()
            if chosen is None and served.hubs:
                chosen = self._nearest(served.hubs, topic, asker)
            if chosen is not None:
                return chosen
        return None

    def _nearest(self, hubs: list[RemoteHub], topic: bytes, asker: Participant) -> Participant | None:
        """Return the link that leads to the nearest of some hubs, but not back to the asker.

        Each hub on the way finds the nearest one again, which is nearer each time: so a request comes to an end.
        """
        ways = [(way[0], far.hub, way[1]) for far in hubs if (way := self._link_to(far.hub)) is not None]
        for _, _, link in sorted(ways, key=_how_far):
            rights = link.handler.rights
            may_take = rights is None or rights.may(link.handler.acts.serving, topic.decode())
            if may_take and link is not asker and not link.gone:
                return link
        return None

    def _miss(self, topic: bytes) -> tuple[_Served, ...]:
        text = decode_topic(topic)
        found: list[_Served] = []
        if not text.startswith(RESERVED):  # the hub's own are not for a service of everything
            found = sorted(self._multimap.find(text), key=lambda served: -len(served.prefix))
            if text.startswith(STORES):  # nor are stores
                found = [served for served in found if served.prefix.startswith(STORES)]
        if len(self._targets) >= TOPICS_LIMIT:
            self._targets.clear()
        target = self._targets[topic] = tuple(found)
        return target

    def changing(self, far: RemoteHub, added: list[str], removed: list[str]) -> Iterator[None]:
        for prefix in removed:
            if far.served.pop(prefix, far) is None:
                served = self._prefixes[prefix]
                served.hubs.remove(far)
                self._let_go(served)
                yield
        for prefix in added:
            if prefix not in far.served:
                far.served[prefix] = None
                self._of(prefix).hubs.append(far)
                yield

    def _of(self, prefix: str) -> _Served:
        served = self._prefixes.get(prefix)
        if served is None:
            served = self._prefixes[prefix] = _Served(prefix)
            self._multimap.add(prefix, served)
            self._targets.clear()
        return served

    def _let_go(self, served: _Served) -> None:
        if not served:
            del self._prefixes[served.prefix]
            self._multimap.discard(served.prefix, served)
            self._targets.clear()

    def _add(self, participant: Participant, prefix: str) -> None:
        near = self._of(prefix).near
        near.append(participant)
        if len(near) == 1:
            self._on_change(Change(added=(prefix,)))

    def _remove(self, participant: Participant, prefix: str) -> None:
        served = self._prefixes[prefix]
        served.near.remove(participant)
        self._let_go(served)
        if not served.near:
            self._on_change(Change(removed=(prefix,)))


def _untold(_: Change) -> None:
    """Stand in for the mesh before the first link."""


def _checking(handler: Handler, rights: Rights, prefixes: list[str]) -> Iterator[None]:
    for number, prefix in enumerate(prefixes, 1):
        if not rights.may_all(handler.acts.serving, prefix):
            raise prefix_not_granted(rights, handler.acts.serving, prefix)
        if not number % _CHECKED_PER_STEP:
            yield
