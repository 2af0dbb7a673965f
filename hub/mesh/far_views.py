"""`FarViews`: by which links of the mesh the far side of each link reckons, as it sends messages here.

A hub sends messages by the ways that it knows. In front of them it tells what it has heard of the links of others, and
behind what it is told itself stands a PING, whose PONG says from where on it reckons with that. Both come in the order
of its messages: so it is known here, for each message, what the hub that has sent it took for true.

```
hub H:   links told with number 3 ─▶ 5 ─▶ 8 = what is known here        past states: 3 until generation 20, 5 until 24
far side: has confirmed generation 21, or has told of H itself with number 5     ─▶ it goes by what H told with 5
```

Owner: `Mesh`. Invariant: a state that a far side may go by is kept until that has confirmed a newer one, but for all
but the last `_KEPT` of a hub. Cost: a change costs what one hub has told; a view of a far side, when it is first asked
for after a change, a look at each hub whose links have changed lately.

Not here: what follows from it for messages (`hub.mesh.mesh`), the graph (`hub.mesh.graph`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["FarView", "FarViews", "Neighbours"]

L = TypeVar("L")

Neighbours = Mapping[bytes, int]
"""The hubs that a hub says it is linked with, each with the cost."""

_KEPT: Final = 16
"""How many states of one hub are kept that are no more. A hub announces its links once a second in the long run, and 8
times at once: so many changes a far side confirms in time, or its link is about to end."""


class _Past(NamedTuple):
    """What a hub has told of its links, until it told otherwise."""

    until: int
    """The generation that began here when it told otherwise."""
    seq: int
    """The number of the announcement by which it had told this."""
    next_seq: int
    """The number of the one by which it told otherwise."""
    neighbours: Neighbours


class _Now(NamedTuple):
    """What a hub has told of its links last."""

    seq: int
    neighbours: Neighbours


_NOTHING: Final = _Now(0, {})


class _Told(NamedTuple):
    """Up to which announcement of a hub a far side has told that it knows it."""

    seq: int
    told_links: int = 0
    """The number of the last announcement by which it has told of the links of that hub."""
    neighbours: Neighbours | None = None
    """These links; None if it has told of none."""


_UNTOLD: Final = _Told(0)


class _FarSide:
    """What one far side knows."""

    __slots__ = ("confirmed", "hub", "number", "told")

    def __init__(self, hub: bytes) -> None:
        self.hub = hub
        # The last generation of this hub's knowledge that it has confirmed; it only grows.
        self.confirmed = 0
        # Of hubs that have told otherwise since: what it has told of them itself.
        self.told: dict[bytes, _Told] = {}
        # That of its view, 0 if it knows what is known here; None until it is asked for.
        self.number: int | None = None


class FarView(NamedTuple):
    """What the hub at the far side of a link knows, where that is something else than is known here."""

    hub: bytes
    neighbours: Mapping[bytes, Neighbours]
    """Hub → its links, of those that are known otherwise here."""


class FarViews(Generic[L]):
    """The views of the far sides of all links."""

    __slots__ = ("_far_sides", "_now", "_numbers", "_past", "_views", "generation")

    generation: int
    """How often a hub has told of other links than before; it only grows."""

    def __init__(self) -> None:
        self.generation = 0
        self._far_sides: dict[L, _FarSide] = {}
        # Hub → what it has told last; the others told nothing yet.
        self._now: dict[bytes, _Now] = {}
        # Hub → its states before that, oldest first, of those that have changed lately.
        self._past: dict[bytes, deque[_Past]] = {}
        # Number → view, of those that somebody has now; and the last number that was given.
        self._views: dict[int, FarView] = {}
        self._numbers = 0

    # Links.

    def add(self, link: L, far: bytes, known: Iterable[tuple[bytes, int]]) -> None:
        """The far side of a link, a hub, has said up to which announcement it knows each hub."""
        far_side = self._far_sides[link] = _FarSide(far)
        far_side.told = {hub: _Told(seq) for hub, seq in known if hub in self._past}

    def discard(self, link: L) -> None:
        """A link is gone."""
        far_side = self._far_sides.pop(link, None)
        if far_side is not None:
            self._forget_view(far_side)

    # What is told.

    def change(self, hub: bytes, seq: int, neighbours: Neighbours) -> bool:
        """A hub has told of its links; return whether they are others than before."""
        now = self._now.get(hub, _NOTHING)
        self._now[hub] = _Now(seq, neighbours)
        if neighbours == now.neighbours:
            return False
        self._begin(hub, _Past(self.generation + 1, now.seq, seq, now.neighbours))
        return True

    def forget(self, hub: bytes) -> None:
        """A hub is forgotten."""
        self._now.pop(hub, None)
        self._past.pop(hub, None)
        self._forget_views()

    def hear(self, link: L, hub: bytes, seq: int, neighbours: Neighbours | None) -> bool:
        """The far side of a link has told of a hub: it knows that one up to this number, whatever it was told.

        Returns:
            Whether a generation has begun: it goes by links that were never known here, until it confirms others.
        """
        far_side = self._far_sides.get(link)
        if far_side is None:
            return False
        is_told = neighbours is not None
        begins = is_told and self._is_passed_over(hub, seq, neighbours)
        if hub in self._past:
            told = far_side.told.get(hub, _UNTOLD)
            far_side.told[hub] = _Told(seq, seq, neighbours) if is_told else told._replace(seq=seq)
            self._forget_view(far_side)
        return begins

    def _is_passed_over(self, hub: bytes, seq: int, neighbours: Neighbours | None) -> bool:
        """Return whether a hub has told this between two announcements that say the same, and came here as one.

        Then a generation begins in which nothing is otherwise, so that whoever has told it can confirm that.
        """
        now, past = self._now.get(hub, _NOTHING), self._past.get(hub)
        first = past[-1].next_seq if past else 0
        if not first <= seq < now.seq or neighbours == now.neighbours:
            return False
        self._begin(hub, _Past(self.generation + 1, first, now.seq, now.neighbours))
        return True

    def _begin(self, hub: bytes, before: _Past) -> None:
        """Begin a generation."""
        self.generation += 1
        self._past.setdefault(hub, deque(maxlen=_KEPT)).append(before)
        self._forget_views()

    def confirm(self, link: L, generation: int) -> bool:
        """The far side of a link has taken all that was known here then; return whether that is news."""
        far_side = self._far_sides.get(link)
        if far_side is None or not far_side.confirmed < generation <= self.generation:
            return False
        far_side.confirmed = generation
        self._forget_view(far_side)
        if generation == self.generation:
            far_side.told.clear()
        return True

    def has_confirmed(self, link: L) -> bool:
        """Return whether the far side of a link has confirmed all that is known here; so has one that is not asked."""
        far_side = self._far_sides.get(link)
        return far_side is None or far_side.confirmed == self.generation

    def settle(self) -> None:
        """Nothing has changed for a while: forget the states by which no far side goes any more."""
        confirmed = min((far_side.confirmed for far_side in self._far_sides.values()), default=self.generation)
        self._past = {hub: past for hub, past in self._past.items() if past[-1].until > confirmed}

    # What a far side knows.

    def number(self, link: L) -> int:
        """Return the number of what the far side of a link knows; 0 if it knows what is known here.

        While that is the same, so is the number; no number is given twice.
        """
        far_side = self._far_sides.get(link)
        if far_side is None:
            return 0
        if far_side.number is None:
            far_side.number = self._find(far_side)
        return far_side.number

    def view(self, number: int) -> FarView | None:
        """Return the view of that number; None if nobody has it any more."""
        return self._views.get(number)

    def _find(self, far_side: _FarSide) -> int:
        if far_side.confirmed == self.generation:
            return 0
        found = ((hub, _known(far_side, hub, past)) for hub, past in self._past.items())
        view = {hub: neighbours for hub, neighbours in found if neighbours is not None}
        if not view:
            return 0
        self._numbers += 1
        self._views[self._numbers] = FarView(far_side.hub, view)
        return self._numbers

    def _forget_views(self) -> None:
        for far_side in self._far_sides.values():
            self._forget_view(far_side)

    def _forget_view(self, far_side: _FarSide) -> None:
        if far_side.number:
            del self._views[far_side.number]
        far_side.number = None


def _known(far_side: _FarSide, hub: bytes, past: Iterable[_Past]) -> Neighbours | None:
    """Return the links of a hub as a far side knows them; None if it knows what is known here."""
    told = far_side.told.get(hub, _UNTOLD)
    for one in past:
        if one.until > far_side.confirmed and one.next_seq > told.seq:
            return told.neighbours if told.neighbours is not None and told.told_links >= one.seq else one.neighbours
    return None
