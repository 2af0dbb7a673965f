"""`Matcher`: the subscribers of a topic, told by its longest prefix. `Way`: where topics are matched.

All prefixes of one topic are prefixes of each other, so they make a chain, and the longest of them says who gets the
topic. A chain is all that travels: for each topic, Spark carries one number and not a list of subscribers.

```
prefixes, by length      parent      added: who gets a topic by it, and not by its parent already
0  ""                    -           everything
1  "/zeek/"              0           zeeks                /zeek/dns/7 ── longest ──▶ 2, and so 1 and 0:
2  "/zeek/dns"           1           names                                  names, zeeks, everything
```

So each subscriber stands at most once in a chain, however many of its prefixes match: it gets a message once.

Invariant: `parent < number`. Immutable. Cost: a tuple and a string a prefix; `longest` is one `PrefixMultimap.find` of
the hub, 2 to 5 µs. No Spark here.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from hub.errors import UsageError
from hub.multimap import PrefixMultimap
from peers.spark.routing.subscriptions import Subscriptions

__all__ = ["LISTED_LIMIT", "NO_PREFIX", "LongestPrefix", "Matcher", "Totals", "Way"]


class Way(StrEnum):
    """How a job matches messages; `peers.spark.routing.route` says when each is best."""

    AUTO = "auto"
    TOPICS = "topics"
    EXPLODE = "explode"


NO_PREFIX = -1

LISTED_LIMIT = 50_000_000
"""Entries of all lists of subscribers together, 4 bytes each: every executor holds them."""


class LongestPrefix:
    """The longest prefix of a topic, found by the hub's own multimap; can be pickled.

    Args:
        prefixes: The shortest first.
    """

    __slots__ = ("_numbers",)

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._numbers: PrefixMultimap[int] = PrefixMultimap()
        for number, prefix in enumerate(prefixes):
            self._numbers.add(prefix, number)

    def of(self, topic: str) -> int | None:
        """Return its number, None if the topic has none of them."""
        return max(self._numbers.find(topic), default=None)

    def before(self, number: int, prefix: str) -> int:
        """Return the number of the longest prefix that a prefix itself has, `NO_PREFIX` if it has none."""
        return max((found for found in self._numbers.find(prefix) if found != number), default=NO_PREFIX)


class Totals(NamedTuple):
    """What went where."""

    messages: list[int]
    """Of each subscriber."""
    bytes: list[int]
    """The same."""
    delivered: int
    """Deliveries: a message that three subscribers get is three."""
    wanted: int
    """Messages that anybody gets."""


class Matcher:
    """Prefixes, the chains that they make, and who stands in them."""

    __slots__ = ("added", "longest", "names", "parents", "prefixes")

    def __init__(self, subscriptions: Subscriptions) -> None:
        wanted: dict[str, set[int]] = {}
        for prefix, subscriber in subscriptions.wanted:
            wanted.setdefault(prefix, set()).add(subscriber)
        self.names = subscriptions.names
        self.prefixes = sorted(wanted, key=lambda prefix: (len(prefix), prefix))
        self.longest = LongestPrefix(self.prefixes)
        self.parents = [self.longest.before(number, prefix) for number, prefix in enumerate(self.prefixes)]
        self.added = [self._added(number, wanted) for number in range(len(self.prefixes))]
        """For each prefix, the subscribers that it brings into its chain."""

    def _added(self, number: int, wanted: dict[str, set[int]]) -> list[int]:
        left = set(wanted[self.prefixes[number]])
        parent = self.parents[number]
        while parent != NO_PREFIX and left:
            left -= wanted[self.prefixes[parent]]
            parent = self.parents[parent]
        return sorted(left)

    def lists(self) -> list[array[int]]:
        """Return, for each prefix, all subscribers of its chain.

        Raises:
            UsageError: Together they are more than `LISTED_LIMIT`.
        """
        lists: list[array[int]] = []
        listed = 0
        for parent, added in zip(self.parents, self.added, strict=True):
            above = lists[parent] if parent != NO_PREFIX else ()
            listed += len(above) + len(added)
            if listed > LISTED_LIMIT:
                raise UsageError(
                    f"the lists of subscribers of all {len(self.prefixes):,} prefixes have more than {LISTED_LIMIT:,} "
                    "entries: split the subscribers over several files"
                )
            lists.append(array("i", sorted((*above, *added))))
        return lists

    def totals(self, ends: Mapping[int, tuple[int, int]]) -> Totals:
        """Return what each subscriber gets.

        Args:
            ends: Messages and bytes by the number of their longest prefix.
        """
        found = [ends.get(number, (0, 0)) for number in range(len(self.prefixes))]
        for number in range(len(found) - 1, -1, -1):  # children first: what ends in a chain passes through its parents
            parent = self.parents[number]
            if parent != NO_PREFIX:
                found[parent] = (found[parent][0] + found[number][0], found[parent][1] + found[number][1])
        return self.shared(found)

    def shared(self, found: Sequence[tuple[int, int]]) -> Totals:
        """Return the same from the messages and bytes that have each prefix, whether or not it is their longest."""
        totals = Totals([0] * len(self.names), [0] * len(self.names), *self._deliveries(found))
        for (messages, size_bytes), added in zip(found, self.added, strict=True):
            for subscriber in added:
                totals.messages[subscriber] += messages
                totals.bytes[subscriber] += size_bytes
        return totals

    def _deliveries(self, found: Sequence[tuple[int, int]]) -> tuple[int, int]:
        delivered = sum(messages * len(added) for (messages, _), added in zip(found, self.added, strict=True))
        # A message that anybody gets has one prefix that has no other: the beginning of its chain.
        wanted = sum(messages for (messages, _), parent in zip(found, self.parents, strict=True) if parent == NO_PREFIX)
        return delivered, wanted
