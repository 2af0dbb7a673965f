"""`RuleIndex`: which rules does this message match? At the cost of those that do, not of those that exist.

```
rules {a} {b} {a,x} {a,y} {x,z}                        root ─ b ▶ {b}
                                                            ├ y ▶ {a,y}
                                                            ├ x ▶ shelf ─ a ▶ {a,x}
                                                            │           └ z ▶ {x,z}
                                                            └ a ▶ {a}
message {a, x, w}: asks the root for a, x, w; the shelf of x for a, x, w; meets two sets of labels, and both match
```

A shelf is a dictionary: label → what stands under it, a set or a shelf; "" → the set that has no further label.

Rules with the same labels are one *set*, which stands under its rarest label: the one that the fewest sets have. Where
two sets would stand in one place there is a shelf instead, on which they stand under the rarest of their other labels;
and so on. So a message meets, beside the sets that it matches, next to none: those of which it has the labels that led
there and not the last ones. Within a set, rules differ in prefixes: a few are compared, more are a `PrefixMultimap`.
Rules that name a sender stand apart, by it.

A label's rarity is that of the moment when a set is placed. Later changes make a place less good, never wrong.

Owner: whoever made it; generic, for the hub's handlers and a client's streams. Invariants: no empty set, no shelf but a
root without anything; `find` gives each value once.

Cost: `add`, `discard` O(labels); `find` a lookup for each label at each shelf that is met. What time it takes is mostly
memory that is not in the processor's cache: that is why a shelf is nothing but a dictionary, and a lone set has none.
Figures, and memory, are in docs/performance.md. Not here: the route cache in front of it (`hub.routes`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from hub.multimap import PrefixMultimap
from hub.tags.rule import Rule

__all__ = ["RuleIndex"]

V = TypeVar("V", bound=Hashable)

_FEW = 16
"""Pairs of prefix and value of one set that are compared one by one, 0.1 µs each; a multimap takes 1.5 µs."""


class _Set(Generic[V]):
    """The rules with one set of labels: who wants them, under which prefixes."""

    __slots__ = ("labels", "wants", "way")

    way: tuple[str, ...]
    """The labels of the shelves that lead to it."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self.wants: tuple[tuple[str, V], ...] | PrefixMultimap[V] = ()

    def add(self, prefix: str, value: V) -> bool:
        wants = self.wants
        if not isinstance(wants, tuple):
            return wants.add(prefix, value)
        if (prefix, value) in wants:
            return False
        self.wants = wants = (*wants, (prefix, value))
        if len(wants) > _FEW:
            self.wants = PrefixMultimap()
            for each in wants:
                self.wants.add(*each)
        return True

    def discard(self, prefix: str, value: V) -> bool:
        wants = self.wants
        if not isinstance(wants, tuple):
            return wants.discard(prefix, value)
        self.wants = tuple([each for each in wants if each != (prefix, value)])
        return len(self.wants) < len(wants)

    def give(self, topic: str, found: dict[V, None]) -> None:
        """Add to `found` who wants this topic."""
        if isinstance(self.wants, tuple):
            for prefix, value in self.wants:
                if topic.startswith(prefix):
                    found[value] = None
        else:
            found.update(self.wants.find(topic))


_COMPLETE = ""
"""No label is empty."""

_Shelf = dict[str, Any]
"""Of sets and shelves; the type cannot be told of itself."""


class _Sets(Generic[V]):
    """Sets of labels with a root of their own: of rules without a sender, or with the same one."""

    __slots__ = ("_frequency", "_root", "_sets")

    def __init__(self) -> None:
        self._sets: dict[tuple[str, ...], _Set[V]] = {}
        self._frequency: dict[str, int] = {}  # label → how many sets have it
        self._root: _Shelf = {}

    def __bool__(self) -> bool:
        return bool(self._sets)

    def add(self, rule: Rule, value: V) -> bool:
        held = self._sets.get(rule.labels)
        if held is None:
            held = self._sets[rule.labels] = _Set(rule.labels)
            for label in rule.labels:
                self._frequency[label] = self._frequency.get(label, 0) + 1
            self._place(held, self._root, ())
        return held.add(rule.prefix, value)

    def discard(self, rule: Rule, value: V) -> bool:
        held = self._sets.get(rule.labels)
        if held is None or not held.discard(rule.prefix, value):
            return False
        if not len(held.wants):
            del self._sets[rule.labels]
            for label in rule.labels:
                left = self._frequency[label] - 1
                if left:
                    self._frequency[label] = left
                else:
                    del self._frequency[label]
            self._take_away(held)
        return True

    def find(self, topic: str, labels: tuple[str, ...], found: dict[V, None]) -> None:
        """Add to `found` who wants a message."""
        keys = (*labels, _COMPLETE)
        if not self._root.keys().isdisjoint(keys):
            _find(self._root, topic, keys, frozenset(labels), found)

    def _place(self, new: _Set[V], shelf: _Shelf, way: tuple[str, ...]) -> None:
        """Put a set on the shelf to which the labels on the way lead, or on one below it."""
        while len(way) < len(new.labels):
            label = min([label for label in new.labels if label not in way], key=self._frequency.__getitem__)
            held = shelf.get(label)
            if held is None:
                shelf[label] = new
                new.way = way
                return
            way = (*way, label)
            if isinstance(held, _Set):
                below = shelf[label] = {}
                self._place(held, below, way)
                held = below
            shelf = held
        shelf[_COMPLETE] = new
        new.way = way

    def _take_away(self, old: _Set[V]) -> None:
        """Take a set from where it stands, and shelves that have become empty."""
        shelves = [self._root]
        for label in old.way:
            shelves.append(shelves[-1][label])
        shelf = shelves.pop()
        for label in (_COMPLETE, *old.labels):
            if shelf.get(label) is old:
                del shelf[label]
                break
        for label in reversed(old.way):
            shelf = shelves.pop()
            if shelf[label]:
                break
            del shelf[label]


def _find(shelf: _Shelf, topic: str, keys: tuple[str, ...], labels: frozenset[str], found: dict[V, None]) -> None:
    """Add to `found` who wants a message with these labels.

    Args:
        shelf: To which some of the labels lead.
        topic: Of the message.
        keys: Its labels, and what stands for no further one.
        labels: Its labels.
        found: What is added to.
    """
    for key in keys:
        if key not in shelf:
            continue
        held = shelf[key]
        if isinstance(held, _Set):
            if labels.issuperset(held.labels):
                held.give(topic, found)
        elif not held.keys().isdisjoint(keys):  # most often it is, and that is told four times as quick as by a loop
            _find(held, topic, keys, labels, found)


class RuleIndex(Generic[V]):
    """Rules and who wants what they match; values must be hashable, not None and no dicts."""

    __slots__ = ("_general", "_of_sender", "_size")

    def __init__(self) -> None:
        self._general: _Sets[V] = _Sets()
        self._of_sender: dict[str, _Sets[V]] = {}
        self._size = 0

    def __len__(self) -> int:
        """How many pairs of rule and value are held."""
        return self._size

    def add(self, rule: Rule, value: V) -> bool:
        """Let `value` want what matches `rule`; False if it does already."""
        sets = self._general
        if rule.sender:
            of_sender = self._of_sender.get(rule.sender)
            sets = self._of_sender[rule.sender] = _Sets() if of_sender is None else of_sender
        added = sets.add(rule, value)
        self._size += added
        return added

    def discard(self, rule: Rule, value: V) -> bool:
        """Let `value` no longer want it; False if it did not."""
        sets = self._of_sender.get(rule.sender) if rule.sender else self._general
        if sets is None:
            return False
        discarded = sets.discard(rule, value)
        if rule.sender and not sets:
            del self._of_sender[rule.sender]
        self._size -= discarded
        return discarded

    def find(self, topic: str, labels: tuple[str, ...], sender: str = "") -> dict[V, None]:
        """Return who wants a message of this topic, these labels and this sender, each once."""
        found: dict[V, None] = {}
        if labels:
            self._general.find(topic, labels, found)
        if sender and (sets := self._of_sender.get(sender)) is not None:
            sets.find(topic, labels, found)
        return found
