"""`PrefixSubscriptions`: the prefixes of each handler; `Filter`: the fewest prefixes that cover others, for far sides.

```
subscribe ─▶ may it see that? may it have so many? ─▶ multimap, routes forgotten, links and leaves asked
```

The multimap holds a prefix of a handler once; each change of it forgets the routes beneath that prefix, and goes to the
far sides whose filter changes by it. 10 µs a prefix; many are taken in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from itertools import chain

from sortedcontainers import SortedDict, SortedList

from hub.handlers.delivery import Delivery, RemoteHub
from hub.handlers.handler import Handler
from hub.handlers.holdings import Allowance
from hub.prefixes import NOTHING, Change, PrefixMultimap
from hub.topics import STORES, check_prefix


class Filter:
    """The wanted prefixes, each with how many handlers want it, and the fewest prefixes that cover them all.

    No prefix of `minimal` is a prefix of another. So the only one that can cover a text is its neighbour to the left in
    sorted order: anything sorted between the two would begin with it as well. `add` is O(log n) plus the prefixes that
    it newly covers, `discard` plus those that it had covered.
    """

    __slots__ = ("_counts", "minimal")

    def __init__(self) -> None:
        # Prefix → how many handlers want it. A prefix is there from the first handler that wants it to the last one.
        self._counts: SortedDict = SortedDict()
        # Those prefixes that no other one covers, in their order. `add` and `discard` keep it true.
        self.minimal: SortedList = SortedList()

    def add(self, prefix: str) -> Change:
        """Note that one more handler wants `prefix`; return the change for peers."""
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        if count or self._covered(prefix):
            return NOTHING
        removed = self._below(self.minimal, prefix)
        for covered in removed:
            self.minimal.remove(covered)
        self.minimal.add(prefix)
        return Change((prefix,), tuple(removed))

    def discard(self, prefix: str) -> Change:
        """Note that one handler less wants `prefix`; return the change for peers."""
        count = self._counts[prefix] - 1
        if count:
            self._counts[prefix] = count
            return NOTHING
        del self._counts[prefix]
        place = self.minimal.bisect_left(prefix)
        if place == len(self.minimal) or self.minimal[place] != prefix:
            return NOTHING
        del self.minimal[place]
        added: list[str] = []
        for uncovered in self._below(self._counts, prefix):
            if not added or not uncovered.startswith(added[-1]):
                added.append(uncovered)
        self.minimal.update(added)
        return Change(tuple(added), (prefix,))

    def _covered(self, prefix: str) -> bool:
        place = self.minimal.bisect_right(prefix)
        return place > 0 and prefix.startswith(self.minimal[place - 1])

    @staticmethod
    def _below(ordered: SortedList | SortedDict, prefix: str) -> list[str]:
        found = []
        for entry in ordered.irange(prefix):
            if not entry.startswith(prefix):
                break
            found.append(entry)
        return found


OnFilter = Callable[[Change], None]  # Called with each change of the filter of a far side


class Asked:
    """The filter for far sides of one kind.

    Args:
        counts: Whether a prefix of a handler of this kind is part of the filter; always the same answer.
        always: Prefixes that they are asked for even without subscribers here.
    """

    def __init__(self, counts: Callable[[Delivery, str], bool], always: Iterable[str] = ()) -> None:
        self._counts = counts
        # Checked here, so that a bad one is refused at the start and not with the first leaf.
        self._always = tuple(check_prefix(prefix) for prefix in always)
        # None until `begin`; from then on they hold what each handler wants that counts: first what is wanted of all
        # that is not of stores, then what is wanted of stores, which no prefix of the others covers.
        self._filters: tuple[Filter, Filter] | None = None
        # Far side → its callback, from `tell` until it leaves.
        self._told: dict[Hashable, OnFilter] = {}

    def __len__(self) -> int:
        return len(self.minimal)

    def begin(self, handlers: Iterable[Handler | RemoteHub]) -> None:
        """Keep the filter from now on, if it is not kept already."""
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
        """Call `on_filter` for a far side, a handler or the mesh as a whole, now and with each change."""
        self._told[far_side] = on_filter
        on_filter(Change(self.minimal))

    def forget(self, handler: Hashable) -> None:
        """Call the callback of a far side no more, as it has left; no harm to others."""
        self._told.pop(handler, None)

    def add(self, handler: Handler | RemoteHub, prefix: str) -> None:
        if self._filters is not None and self._counts(handler.delivery, prefix):
            self._spread(self._filters[prefix.startswith(STORES)].add(prefix))

    def discard(self, handler: Handler | RemoteHub, prefix: str) -> None:
        if self._filters is not None and self._counts(handler.delivery, prefix):
            self._spread(self._filters[prefix.startswith(STORES)].discard(prefix))

    @property
    def minimal(self) -> tuple[str, ...]:
        """The fewest prefixes that cover the filter; none before `begin`."""
        return () if self._filters is None else tuple(chain(*(each.minimal for each in self._filters)))

    def _spread(self, change: Change) -> None:
        if change.added or change.removed:
            for on_filter in list(self._told.values()):
                on_filter(change)


_CHECKED_PER_STEP = 10  # Prefixes checked in one step: checking one takes about 1 µs, adding one 10 µs

_JUDGED_PER_STEP = 3  # The same where grants are checked, too, 2 µs each

# A prefix takes a step more for each so many characters: one of 1,000 takes three times as long
_CHARACTERS_PER_STEP = 256


class PrefixSubscriptions:
    """The prefixes to which handlers have subscribed."""

    def __init__(
        self,
        multimap: PrefixMultimap[Handler | RemoteHub],
        forget: Callable[[str], object],
        allowed: Allowance[str],
        attached: Container[int],
        asked_of_leaves: Asked,
    ) -> None:
        self._multimap = multimap
        self._forget = forget
        self.allowed = allowed
        self._attached = attached
        self.asked_of_links = Asked(Delivery.asks_links)
        self.asked_of_links.begin(())
        self._asked_of_leaves = asked_of_leaves
        # Those of the two that have begun.
        self._asked = [self.asked_of_links]

    def __len__(self) -> int:
        return len(self._multimap)

    def subscribing(self, handler: Handler, prefixes: Iterable[str]) -> Iterator[None]:
        """Subscribe an attached handler to each prefix, all or none, in steps.

        All prefixes are checked before the first is added. The rest is dropped when the handler leaves meanwhile.

        Raises:
            InvalidTopicError: One of them is no prefix.
            RejectedError: The handler would have too many, or one is not granted to it.
        """
        wanted: list[str] = []
        rights = handler.rights
        per_step = _CHECKED_PER_STEP if rights is None else _JUDGED_PER_STEP
        for prefix in prefixes:
            wanted.append(check_prefix(prefix))
            handler.check_may_see(prefix)
            if not len(wanted) % per_step:
                yield
        if handler.rights is not rights:  # it was given others meanwhile
            for prefix in wanted:
                handler.check_may_see(prefix)
        for prefix in self.allowed.taking(handler, handler.prefixes, wanted):
            self._add(handler, prefix)
            yield from _steps(prefix)
            if handler.id not in self._attached:
                return

    def unsubscribing(self, handler: Handler, prefixes: Iterable[str]) -> Iterator[None]:
        """Take back one subscription for each prefix, in steps; those that the handler does not have are ignored."""
        for prefix in prefixes:
            if self.allowed.give_back(handler, handler.prefixes, prefix):
                self._remove(handler, prefix)
                yield from _steps(prefix)

    def take_away(self, handler: Handler, prefix: str) -> None:
        """Remove a prefix of a handler, however often it has subscribed to it."""
        if self.allowed.take_away(handler, handler.prefixes, prefix):
            self._remove(handler, prefix)

    def forgetting(self, handler: Handler) -> Iterator[None]:
        """Remove the prefixes of a handler that has left, in steps."""
        while handler.prefixes:
            prefix = self.allowed.give_back_any(handler, handler.prefixes)
            self._remove(handler, prefix)
            yield from _steps(prefix)

    def changing(self, far: RemoteHub, added: Iterable[str], removed: Iterable[str]) -> Iterator[None]:
        """Change the prefixes of another hub of the mesh, in steps."""
        held = far.prefixes
        for prefix in removed:
            if held.pop(prefix, None) is not None:
                self._remove(far, prefix)
                yield from _steps(prefix)
        for prefix in added:
            if prefix not in held:
                held[prefix] = 1
                self._add(far, prefix)
                yield from _steps(prefix)

    def tell(self, handler: Handler, on_filter: OnFilter, receivers: Iterable[Handler | RemoteHub]) -> None:
        """Call `on_filter` for a leaf, now and with each change; `receivers` as for `of_leaves`."""
        self.of_leaves(receivers).tell(handler, on_filter)

    def tell_no_more(self, handler: Handler) -> None:
        """Call the callback of a leaf no more, as it has left; no harm to others."""
        self._asked_of_leaves.forget(handler)

    def of_leaves(self, receivers: Iterable[Handler | RemoteHub]) -> Asked:
        """Return the filter for leaves.

        Args:
            receivers: All with prefixes, also those that are leaving; read only the first time.
        """
        asked = self._asked_of_leaves
        if asked not in self._asked:
            asked.begin(receivers)
            self._asked.append(asked)
        return asked

    def _add(self, handler: Handler | RemoteHub, prefix: str) -> None:
        self._multimap.add(prefix, handler)
        self._forget(prefix)
        for asked in self._asked:
            asked.add(handler, prefix)

    def _remove(self, handler: Handler | RemoteHub, prefix: str) -> None:
        self._multimap.discard(prefix, handler)
        self._forget(prefix)
        for asked in self._asked:
            asked.discard(handler, prefix)


def _steps(prefix: str) -> Iterator[None]:
    for _ in range(1 + len(prefix) // _CHARACTERS_PER_STEP):
        yield
