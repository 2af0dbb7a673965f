"""The index of rules: always what a comparison with each of them gives, and empty when they are gone."""

from __future__ import annotations

from itertools import combinations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hub.tags.rules import Rule, RuleIndex

LABELS = "abcdef"

label_sets = st.sets(st.sampled_from(LABELS), max_size=5).map(lambda some: tuple(sorted(some)))
prefixes = st.sampled_from(("", "", "", "/", "/a", "/a/", "/b"))
senders = st.sampled_from(("", "", "s.s", "t.t"))
rules = st.builds(Rule, label_sets, prefixes, senders).filter(lambda rule: rule.labels or rule.sender)
values = st.integers(1, 40)


def matches(one: Rule, topic: str, labels: tuple[str, ...], sender: str) -> bool:
    return set(one.labels) <= set(labels) and topic.startswith(one.prefix) and one.sender in {"", sender}


class RulesAgainstAll(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index: RuleIndex[int] = RuleIndex()
        self.held: set[tuple[Rule, int]] = set()

    @rule(some=st.lists(st.tuples(rules, values), min_size=1, max_size=30))
    def add(self, some: list[tuple[Rule, int]]) -> None:
        for one, value in some:
            assert self.index.add(one, value) is ((one, value) not in self.held)
            self.held.add((one, value))

    @rule(labels=label_sets.filter(bool), count=st.integers(1, 40))
    def add_crowd(self, labels: tuple[str, ...], count: int) -> None:
        for value in range(count):
            one = Rule(labels, "/a" * (value % 3))
            self.index.add(one, value)
            self.held.add((one, value))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        for one in data.draw(st.lists(st.sampled_from(sorted(self.held)), max_size=20)):
            assert self.index.discard(*one) is (one in self.held)
            self.held.discard(one)

    @rule(one=rules, value=values)
    def discard_any(self, one: Rule, value: int) -> None:
        assert self.index.discard(one, value) is ((one, value) in self.held)
        self.held.discard((one, value))

    @rule(topic=st.sampled_from(("/", "/a", "/a/b", "/b", "c")), labels=label_sets, sender=senders)
    def find(self, topic: str, labels: tuple[str, ...], sender: str) -> None:
        naive = {value for one, value in self.held if matches(one, topic, labels, sender)}
        assert set(self.index.find(topic, labels, sender)) == naive

    @invariant()
    def counted(self) -> None:
        assert len(self.index) == len(self.held)

    def teardown(self) -> None:
        for one in list(self.held):
            assert self.index.discard(*one)
        assert len(self.index) == 0
        assert not self.index._of_sender
        assert not self.index._general._root
        assert not self.index._general._frequency
        assert not self.index._general._sets


TestRulesAgainstAll = RulesAgainstAll.TestCase


def test_all_pairs() -> None:
    index: RuleIndex[int] = RuleIndex()
    names = [f"{number:02}" for number in range(40)]
    pairs = list(combinations(names, 2))
    for value, pair in enumerate(pairs, 1):
        index.add(Rule(pair), value)
    for value, pair in enumerate(pairs, 1):
        assert list(index.find("/t", pair)) == [value]
    assert len(index.find("/t", tuple(names[:8]))) == 8 * 7 // 2


def test_what_is_met_is_little_more_than_what_matches() -> None:
    index: RuleIndex[int] = RuleIndex()
    for value in range(1, 2001):
        index.add(Rule(("common", f"x{value}")), value)
    assert len(index._general._root.pairs) == 2000
    assert set(index.find("/t", ("common", "x7", "x9", "y"))) == {7, 9}


def test_many_labels_that_are_all_the_same_but_one() -> None:
    index: RuleIndex[int] = RuleIndex()
    common = tuple(f"l{number:02}" for number in range(31))
    rules_deep = [Rule(tuple(sorted((*common, f"m{number}")))) for number in range(5)]
    rules_deep.append(Rule(common))
    for value, one in enumerate(rules_deep, 1):
        index.add(one, value)
    assert set(index.find("/t", rules_deep[2].labels)) == {3, 6}
    for value, one in enumerate(rules_deep, 1):
        index.discard(one, value)
    assert not index._general._root
