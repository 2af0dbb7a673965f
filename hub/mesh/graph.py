"""`Graph`: which hubs are linked, and on which links of this hub a message goes on.

A link counts if both of its hubs tell of it; its cost is the larger one that they tell. So nobody can pretend to be
near somebody who does not agree, and a hub that is gone is out of the graph as soon as its neighbours say so.

Owner: `Mesh`. Invariant: trees are made for what `links` was at the last change. Those of before serve only to tell to
which hubs nothing leads any more that somebody else may still count on (`left_behind`), until `settle`.
Cost: a change what the hub has links; a tree, when it is first asked for, 0.5 µs a link of the mesh; then one
dictionary hit for each hub that wants a message. A hub with one link makes no tree but its own: nothing goes on from
there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from hub.mesh.graph_change import GraphChange, difference
from hub.mesh.record import Record
from hub.mesh.tree import Links, onward, parents, reached

__all__ = ["Graph"]

_TREES_LIMIT = 4_096
"""Most trees that are kept: one for each hub that publishes."""

_PAST_LIMIT = 16
"""How many generations are kept that are no more: what is sent by still older ones is lost and not counted."""


class _Past(NamedTuple):
    """The mesh as this hub knew it before a change."""

    generation: int
    links: Mapping[bytes, Mapping[bytes, int]]
    onward: dict[bytes, dict[bytes, bytes]]
    """Origin → hub beneath this one → the neighbour that led there; made when it is asked for."""


class Graph:
    """The mesh as this hub knows it.

    Args:
        hub: This hub.
    """

    __slots__ = ("_before", "_has_left_behind", "_hub", "_links", "_onward", "_past", "_reached", "_tree", "changes")

    def __init__(self, hub: bytes) -> None:
        self._hub = hub
        # How often it has changed: the number of its generation. It only grows.
        self.changes = 0
        # Each hub that is known, with its links; each link stands at both of its hubs.
        self._links: dict[bytes, dict[bytes, int]] = {hub: {}}
        # Hub → its links when `take_change` was called last, None if it was not known; of those changed since.
        self._before: dict[bytes, dict[bytes, int] | None] = {}
        # The hubs that can be reached; None until it is asked for.
        self._reached: set[bytes] | None = None
        # Origin → hub beneath this one → the neighbour that leads there; made when it is asked for.
        self._onward: dict[bytes, dict[bytes, bytes]] = {}
        # Whether `left_behind` has told of a hub since `settle`.
        self._has_left_behind = False
        # The last generations before this one; empty once the graph has not changed for a while.
        self._past: deque[_Past] = deque(maxlen=_PAST_LIMIT)
        # The tree of this hub, for people; None until it is asked for.
        self._tree: dict[bytes, bytes] | None = None

    def update(self, hub: bytes, records: Mapping[bytes, Record]) -> bool:
        """A hub has told of its links, or is forgotten; return whether that has changed the graph."""
        record = records.get(hub)
        links = None if record is None else _mutual(record, records)
        before = self._links.get(hub)
        if links == before:
            return False
        self._past.append(_Past(self.changes, dict(self._links), self._onward))
        self._onward = {}
        self._replace(hub, before or {}, links or {})
        if links is None:
            self._note(hub)
            del self._links[hub]
        self._reached = self._tree = None
        self.changes += 1
        return True

    def _replace(self, hub: bytes, before: Mapping[bytes, int], links: Mapping[bytes, int]) -> None:
        """Let a hub have other links, which their other hubs have as well. No links change that are kept."""
        self._note(hub)
        self._links[hub] = dict(links)
        for other in before.keys() - links.keys():
            self._note(other)
            self._links[other] = {one: cost for one, cost in self._links[other].items() if one != hub}
        for other, cost in links.items():
            if before.get(other) != cost:
                self._note(other)
                self._links[other] = self._links[other] | {hub: cost}

    def _note(self, hub: bytes) -> None:
        """Keep what the links of a hub were, before they change."""
        if hub not in self._before:
            links = self._links.get(hub)
            self._before[hub] = links

    def take_change(self) -> GraphChange | None:
        """Return what has become of the graph since the last call; None if it is the same."""
        if not self._before:
            return None
        before = {hub: links for hub, links in self._before.items() if links is not None}
        now = {hub: self._links[hub] for hub in self._before if hub in self._links}
        self._before.clear()
        change = difference(before, now)
        return change if any(change) else None

    @property
    def links(self) -> Mapping[bytes, Mapping[bytes, int]]:
        """Hub → the hubs that it is linked with → cost."""
        return self._links

    @property
    def reached(self) -> AbstractSet[bytes]:
        """The hubs that can be reached, this one with them."""
        if self._reached is None:
            self._reached = reached(self._hub, self._links)
        return self._reached

    @property
    def tree(self) -> Mapping[bytes, bytes]:
        """Each hub that can be reached → the one before it on the way from this hub, nearest first (`parents`)."""
        if self._tree is None:
            self._tree = parents(self._hub, self._links)
        return self._tree

    def next_hops(self, origin: bytes, wanting: Iterable[bytes]) -> set[bytes]:
        """Return the neighbours to which a message of `origin` goes on, so that it reaches the hubs that want it."""
        beneath = self._beneath(origin, self._links, self._onward)
        return {hop for hub in wanting if (hop := beneath.get(hub)) is not None}

    def left_behind(self, origin: bytes, wanting: Iterable[bytes], known: int) -> tuple[bytes, ...]:
        """Return those of the hubs that want a message of `origin` to which it went on from here, and does no more.

        Args:
            origin: Where it has entered the mesh.
            wanting: The hubs that want it.
            known: The generation that is known where it came from: what was before is nothing that counts there.
        """
        past = [self._beneath(origin, one.links, one.onward) for one in self._past if one.generation >= known]
        now = self._onward.get(origin, {})
        behind = tuple(hub for hub in wanting if hub not in now and any(hub in beneath for beneath in past))
        self._has_left_behind = self._has_left_behind or bool(behind)
        return behind

    def settle(self) -> bool:
        """Nobody counts any more on what was before the last change; return whether `left_behind` has told of any."""
        self._past.clear()
        has_left_behind, self._has_left_behind = self._has_left_behind, False
        return has_left_behind

    def _beneath(self, origin: bytes, links: Links, known: dict[bytes, dict[bytes, bytes]]) -> dict[bytes, bytes]:
        """Return hub beneath this one in the tree of `origin` → the neighbour that leads there.

        Args:
            origin: Whose tree.
            links: What is linked.
            known: What was returned for these links.
        """
        beneath = known.get(origin)
        if beneath is not None:
            return beneath
        if len(known) >= _TREES_LIMIT:
            known.clear()
        if origin != self._hub and len(links[self._hub]) <= 1:
            beneath = {}
        else:
            beneath = onward(self._hub, parents(origin, links))
        known[origin] = beneath
        return beneath


def _mutual(record: Record, records: Mapping[bytes, Record]) -> dict[bytes, int]:
    """Return the links of which both of their hubs tell."""
    return {
        other: max(cost, back)
        for other, cost in record.neighbours.items()
        if (far := records.get(other)) is not None
        and (back := far.neighbours.get(record.hub)) is not None
        and far is not record
    }
