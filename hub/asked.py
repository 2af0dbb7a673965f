"""`Asked`: what far sides of one kind are asked for, and how they hear of each change of that.

A hub asks its peer hubs (links) for what its own subscribers want, and Zeeks (leaves) for what may be asked of them.
The core has one `Asked` for each of the two; `hub.delivery` says which subscriptions count for which.

Owner: the core. Invariants: who replays the changes that it was told knows the fewest prefixes that cover what is
asked. Cost: that of `hub.filter` for each prefix that comes or goes, and a call for each far side if the filter changes
by it. Nothing before `begin`: a hub without leaves need not pay for their filter.

Not here: who wants what (`hub.multimap`), the frames (`peers.links`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import chain

from hub.delivery import Delivery
from hub.far_hub import FarHub
from hub.filter import Change, Filter
from hub.handler import Handler
from hub.topics import STORES, check_prefix

__all__ = ["Asked", "OnFilter"]

OnFilter = Callable[[Change], None]
"""Tells a far side how the filter has changed."""


class Asked:
    """What is asked of far sides of one kind.

    Args:
        counts: Whether they are asked for what a handler of this kind wants under a prefix; always the same answer for
            the same two.
        always: Prefixes that they are asked for even if nobody here subscribes to them.
    """

    __slots__ = ("_always", "_counts", "_filters", "_told")

    def __init__(self, counts: Callable[[Delivery, str], bool], always: Iterable[str] = ()) -> None:
        self._counts = counts
        # Checked here, so that a bad one is refused at the start and not with the first leaf.
        self._always = tuple(check_prefix(prefix) for prefix in always)
        # None until `begin`; from then on they hold what each handler wants that counts: first what is wanted of all
        # that is not of stores, then what is wanted of stores, which no prefix of the others covers.
        self._filters: tuple[Filter, Filter] | None = None
        # Far side → the function that tells it; from `tell` until it leaves.
        self._told: dict[Hashable, OnFilter] = {}

    def __len__(self) -> int:
        """Return of how many prefixes `minimal` consists."""
        return len(self.minimal)

    def begin(self, handlers: Iterable[Handler | FarHub]) -> None:
        """Keep the filter from now on, if it is not kept already.

        Args:
            handlers: All that stand in the multimap, with the prefixes that they have there.
        """
        if self._filters is not None:
            return
        self._filters = filters = (Filter(), Filter())
        for prefix in self._always:
            filters[prefix.startswith(STORES)].add(prefix)
        for handler in handlers:
            for prefix in handler.prefixes:
                if self._counts(handler.delivery, prefix):
                    filters[prefix.startswith(STORES)].add(prefix)

    def tell(self, far_side: Hashable, on_filter: OnFilter) -> None:
        """Tell a far side what is asked of it, now and whenever that changes: a handler, or the mesh as a whole."""
        self._told[far_side] = on_filter
        on_filter(Change(self.minimal))

    def forget(self, handler: Hashable) -> None:
        """Tell a far side nothing more, as it has left. This does no harm to others."""
        self._told.pop(handler, None)

    def add(self, handler: Handler | FarHub, prefix: str) -> None:
        """Take note that a handler wants a prefix."""
        if self._filters is not None and self._counts(handler.delivery, prefix):
            self._spread(self._filters[prefix.startswith(STORES)].add(prefix))

    def discard(self, handler: Handler | FarHub, prefix: str) -> None:
        """Take note that a handler wants a prefix no more."""
        if self._filters is not None and self._counts(handler.delivery, prefix):
            self._spread(self._filters[prefix.startswith(STORES)].discard(prefix))

    @property
    def minimal(self) -> tuple[str, ...]:
        """The fewest prefixes that cover what is asked; none before `begin`."""
        return () if self._filters is None else tuple(chain(*(each.minimal for each in self._filters)))

    def _spread(self, change: Change) -> None:
        if change.added or change.removed:
            for on_filter in list(self._told.values()):
                on_filter(change)
