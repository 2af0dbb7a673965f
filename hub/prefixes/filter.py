"""`Filter`: the smallest set of prefixes that covers all subscriptions of this hub; peers receive it.

No prefix of `minimal` is a prefix of another. So the only one that can cover a text is its neighbour to the left in
sorted order: anything sorted between the two would begin with it as well. `add` is O(log n) plus the prefixes that it
newly covers, `discard` plus those that it had covered.
"""

from __future__ import annotations

from typing import NamedTuple

from sortedcontainers import SortedDict, SortedList


class Change(NamedTuple):
    """Prefixes that are wanted from now on, and prefixes that are wanted no longer."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


NOTHING = Change()


class Filter:
    """The wanted prefixes, each with how many handlers want it, and the fewest prefixes that cover them all."""

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
