"""`RuleIndex`: which rules does a message match?

Rules with the same labels are one *set*: within it they differ in prefixes. A set stands under one of its labels, the
one under which the fewest sets stood when it came: so a message is compared with the sets under its own labels only.
Rules that name a sender stand apart. Cost: 0.1 µs a compared set; the answer is remembered (`hub.routing`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from hub.errors import InvalidNameError
from hub.names.claim import check_labels, check_name
from hub.prefixes import PrefixMultimap
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

_FEW = 16  # Prefixes of one set are compared one by one, 0.1 µs each; a multimap takes 1.5 µs


class _Set(Generic[V]):
    """The rules with one set of labels: their prefixes, and the values that want them."""

    __slots__ = ("labels", "place", "wants")

    def __init__(self, labels: Labels, place: str) -> None:
        self.labels = labels
        self.place = place  # the label under which it stands; empty without labels
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


class _Sets(Generic[V]):
    """All sets of labels, of rules without a sender or with the same one."""

    __slots__ = ("_places", "_sets")

    def __init__(self) -> None:
        self._sets: dict[Labels, _Set[V]] = {}  # Labels → the rules with exactly these
        self._places: dict[str, dict[Labels, _Set[V]]] = {}  # Label → the sets that stand under it

    def __bool__(self) -> bool:
        return bool(self._sets)

    def add(self, rule: Rule, value: V) -> bool:
        labels, places = rule.labels, self._places
        held = self._sets.get(labels)
        if held is None:
            place = min(labels, key=lambda label: len(places.get(label, ())), default="")
            held = self._sets[labels] = _Set(labels, place)
            places.setdefault(place, {})[labels] = held
        return held.add(rule.prefix, value)

    def discard(self, rule: Rule, value: V) -> bool:
        held = self._sets.get(rule.labels)
        if held is None or not held.discard(rule.prefix, value):
            return False
        if not len(held.wants):
            del self._sets[rule.labels]
            place = self._places[held.place]
            del place[rule.labels]
            if not place:
                del self._places[held.place]
        return True

    def find(self, topic: str, labels: Labels, found: dict[V, None]) -> None:
        known = frozenset(labels)
        for label in ("", *filter(self._places.__contains__, labels)):
            for own, held in self._places.get(label, {}).items():
                if known.issuperset(own):
                    held.give(topic, found)


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
