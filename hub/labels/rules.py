"""`RuleIndex`: which rules does a message match? At the cost of those that do, not of those that exist.

```
rules {b} {a,x} {a,x,z} {a,y} {x,y,z} ...              singles   b ▶ {b}
                                                        pairs   (a,x) ▶ level: complete {a,x}; singles z ▶ {a,x,z}
                                                                (a,y) ▶ {a,y}
                                                                (y,z) ▶ {x,y,z}
message {a, w, x}: no rule has w; singles a, x: none; pairs (a,x): a level, on which {a,x} is complete
```

Rules with the same labels are one *set*. It stands under the two of its labels that the fewest sets have, or under its
only one. Where two sets would stand in one place there is a level instead, on which they stand under the rarest two of
their other labels. So a message meets next to none beside the sets that it matches. Within a set rules differ in
prefixes. Rules that name a sender stand apart. Rarity is that of the moment when a set is placed: later changes make a
place less good, never wrong. `find` is a lookup for each label and each pair of labels: 28 of eight, 496 of 32.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Generic, NamedTuple, TypeVar

from hub.errors import InvalidNameError
from hub.names.claim import check_labels, check_name
from hub.prefixes.multimap import PrefixMultimap
from hub.topics import check_prefix, printable


class Rule(NamedTuple):
    """A condition of one subscriber: labels, a prefix, a sender."""

    labels: tuple[str, ...]  # The labels that a message must bear, ascending, each once
    prefix: str = ""
    sender: str = ""


def characters(rule: Rule) -> int:
    return sum(map(len, rule.labels)) + len(rule.prefix)


def check_rule(labels: Iterable[str], prefix: str = "", sender: str = "") -> Rule:
    """Return a rule that can be subscribed to.

    Raises:
        InvalidTopicError: The prefix is invalid.
        InvalidNameError: A label or the sender is invalid, the labels are too many, or there is neither.
    """
    rule = Rule(check_labels(labels), check_prefix(prefix), check_name(sender) if sender else "")
    if not rule.labels and not rule.sender:
        shown = printable(prefix)
        raise InvalidNameError(f"a rule has a label or a sender; without them, subscribe to the prefix {shown} itself")
    return rule


V = TypeVar("V", bound=Hashable)
Labels = tuple[str, ...]  # Ascending, each once
Pair = tuple[str, str]

# These are compared one by one, 0.1 µs each: prefixes of one set (a multimap takes 1.5 µs), pairs of one level
_FEW = 16


class _Set(Generic[V]):
    """The rules with one set of labels: their prefixes, and the values that want them."""

    __slots__ = ("labels", "wants", "way")

    way: tuple[Pair, ...]  # The pairs of labels that lead to its level

    def __init__(self, labels: Labels) -> None:
        self.labels = labels  # Labels of these rules, ascending
        # Pairs of prefix and value, while they are few; a multimap of them once there are more.
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
        if isinstance(self.wants, tuple):
            for prefix, value in self.wants:
                if topic.startswith(prefix):
                    found[value] = None
        else:
            found.update(self.wants.find(topic))


class _Level(Generic[V]):
    """Sets that have in common the labels of the pairs on the way here, found by the rarest of their other labels."""

    __slots__ = ("complete", "pairs", "singles")

    def __init__(self) -> None:
        self.complete: _Set[V] | None = None  # The set that has no other label; None where there is none
        self.singles: dict[str, _Set[V]] = {}  # Label → the only set that has this one label more, and no other
        # Pair of labels → the set that has both more, and perhaps still others; a level where there are several.
        self.pairs: dict[Pair, _Set[V] | _Level[V]] = {}

    def __bool__(self) -> bool:
        return bool(self.pairs or self.singles) or self.complete is not None

    def find(self, topic: str, known: Sequence[str], labels: frozenset[str], found: dict[V, None]) -> None:
        if self.complete is not None:
            self.complete.give(topic, found)
        if self.singles:
            for label in filter(self.singles.__contains__, known):
                self.singles[label].give(topic, found)
        if self.pairs:
            pairs = self.pairs
            for pair in self._common(known, labels):
                held = pairs[pair]
                if isinstance(held, _Level):
                    held.find(topic, known, labels, found)
                elif labels.issuperset(held.labels):
                    held.give(topic, found)

    def _common(self, known: Sequence[str], labels: frozenset[str]) -> Iterable[Pair]:
        """Return which of the pairs are among the labels; all trying is done without the interpreter."""
        if len(self.pairs) <= _FEW:
            return filter(labels.issuperset, self.pairs)
        return filter(self.pairs.__contains__, combinations(known, 2))


class _Sets(Generic[V]):
    """All sets of labels, of rules without a sender or with the same one."""

    __slots__ = ("_frequency", "_root", "_sets")

    def __init__(self) -> None:
        # Labels → the set of rules with exactly these; it goes with its last value.
        self._sets: dict[Labels, _Set[V]] = {}
        self._frequency: dict[str, int] = {}  # Label → how many sets have it; it decides where new sets are placed
        self._root: _Level[V] = _Level()  # The level without any label on the way to it: every `find` begins here

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

    def find(self, topic: str, labels: Labels, found: dict[V, None]) -> None:
        known = tuple(filter(self._frequency.__contains__, labels))
        self._root.find(topic, known, frozenset(known), found)

    def _place(self, new: _Set[V], level: _Level[V], way: tuple[Pair, ...]) -> None:
        """Put a set on the level to which the pairs on the way lead, or on one below it."""
        while True:
            left = self._left(new, way)
            new.way = way
            if not left:
                level.complete = new
                return
            if len(left) == 1:
                level.singles[left[0]] = new
                return
            one, other = sorted(left, key=self._frequency.__getitem__)[:2]
            pair = (one, other) if one < other else (other, one)
            held = level.pairs.get(pair)
            if held is None:
                level.pairs[pair] = new
                return
            way = (*way, pair)
            if isinstance(held, _Set):
                below = level.pairs[pair] = _Level()
                self._place(held, below, way)
                held = below
            level = held

    def _take_away(self, old: _Set[V]) -> None:
        levels = [self._root]
        for pair in old.way:
            held = levels[-1].pairs[pair]
            assert isinstance(held, _Level)  # noqa: S101 -- the way leads through levels
            levels.append(held)
        level = levels.pop()
        left = self._left(old, old.way)
        if not left:
            level.complete = None
        elif len(left) == 1:
            del level.singles[left[0]]
        else:
            del level.pairs[next(pair for pair in combinations(left, 2) if level.pairs.get(pair) is old)]
        for pair in reversed(old.way):
            above = levels.pop()
            if above.pairs[pair]:
                break
            del above.pairs[pair]

    @staticmethod
    def _left(one: _Set[V], way: tuple[Pair, ...]) -> list[str]:
        on_way = {label for pair in way for label in pair}
        return [label for label in one.labels if label not in on_way]


class RuleIndex(Generic[V]):
    """Rules, and the values that are looked up by them; values must be hashable, not None and no dicts."""

    __slots__ = ("_general", "_of_sender", "_size")

    def __init__(self) -> None:
        self._general: _Sets[V] = _Sets()  # The rules that name no sender
        self._of_sender: dict[str, _Sets[V]] = {}  # Sender → the rules that name it; an entry goes with its last rule
        self._size = 0  # How many pairs of rule and value are held

    def __len__(self) -> int:
        return self._size

    def add(self, rule: Rule, value: V) -> bool:
        """Add a pair; return False if it is there already."""
        sets = self._general
        if rule.sender:
            of_sender = self._of_sender.get(rule.sender)
            sets = self._of_sender[rule.sender] = _Sets() if of_sender is None else of_sender
        added = sets.add(rule, value)
        self._size += added
        return added

    def discard(self, rule: Rule, value: V) -> bool:
        """Remove a pair; return False if it is not there."""
        sets = self._of_sender.get(rule.sender) if rule.sender else self._general
        if sets is None:
            return False
        discarded = sets.discard(rule, value)
        if rule.sender and not sets:
            del self._of_sender[rule.sender]
        self._size -= discarded
        return discarded

    def find(self, topic: str, labels: Labels, sender: str = "") -> dict[V, None]:
        """Return the values that want a message of this topic, these labels and this sender, each once."""
        found: dict[V, None] = {}
        if labels:
            self._general.find(topic, labels, found)
        if sender and (sets := self._of_sender.get(sender)) is not None:
            sets.find(topic, labels, found)
        return found
