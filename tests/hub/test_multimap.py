"""The prefix multimap against a naive model that tries every prefix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from hub.multimap import PrefixMultimap
from tests.hub.fakes import nasty_texts

texts = st.one_of(nasty_texts, st.text(alphabet="/ab\u00e9\U0001f600", max_size=8), st.text(max_size=6))
numbers = st.integers(0, 4)  # 0 too: a value may be false


class Naive:
    def __init__(self) -> None:
        self.pairs: dict[tuple[str, int], None] = {}

    def find(self, topic: str) -> set[int]:
        return {value for prefix, value in self.pairs if topic.startswith(prefix)}


class MultimapAgainstNaive(RuleBasedStateMachine):
    used = Bundle[str]("used")

    def __init__(self) -> None:
        super().__init__()
        self.real: PrefixMultimap[int] = PrefixMultimap()
        self.naive = Naive()

    @rule(target=used, prefix=texts, value=numbers)
    def add(self, prefix: str, value: int) -> str:
        assert self.real.add(prefix, value) is ((prefix, value) not in self.naive.pairs)
        self.naive.pairs[prefix, value] = None
        return prefix

    @rule(prefix=used, value=numbers)
    def add_to_the_same_prefix(self, prefix: str, value: int) -> None:
        self.add(prefix, value)

    @rule(prefix=st.one_of(used, texts), value=numbers)
    def discard(self, prefix: str, value: int) -> None:
        assert self.real.discard(prefix, value) is ((prefix, value) in self.naive.pairs)
        self.naive.pairs.pop((prefix, value), None)

    @rule(topic=st.one_of(used, texts))
    def find(self, topic: str) -> None:
        assert set(self.real.find(topic)) == self.naive.find(topic)

    @rule(prefix=used, rest=texts)
    def find_below(self, prefix: str, rest: str) -> None:
        assert set(self.real.find(prefix + rest)) == self.naive.find(prefix + rest)

    @invariant()
    def size(self) -> None:
        assert len(self.real) == len(self.naive.pairs)

    def teardown(self) -> None:
        for prefix, value in self.naive.pairs:
            assert self.real.discard(prefix, value)
        assert_empty(self.real)


TestMultimapAgainstNaive = MultimapAgainstNaive.TestCase


def assert_empty(multimap: PrefixMultimap[int]) -> None:
    assert len(multimap) == 0
    assert not multimap._trie
    assert list(multimap._trie.items()) == []
    assert not multimap._root.values
    assert not multimap._root.lengths


NASTY = ["", "/", "//", "///", "a", "/a", "a/", "/a/", "/ab", "a/b", "/a/b", "/a//b", "/a//", "//a", "/é", "/漢/😀"]


@pytest.mark.parametrize("topic", [*NASTY, "/abc/d", "/a/b/c", "/e\N{COMBINING ACUTE ACCENT}", "b", "é"])
def test_every_nasty_prefix_at_once(topic: str) -> None:
    multimap: PrefixMultimap[str] = PrefixMultimap()
    for prefix in NASTY:
        assert multimap.add(prefix, prefix)
    assert set(multimap.find(topic)) == {prefix for prefix in NASTY if topic.startswith(prefix)}


@pytest.mark.parametrize("prefix", ["", "a", "/zeek/dns/"])
def test_values_keep_their_order(prefix: str) -> None:
    multimap: PrefixMultimap[int] = PrefixMultimap()
    for value in (3, 1, 2):
        multimap.add(prefix, value)
    assert list(multimap.find(prefix + "x")) == [3, 1, 2]
    multimap.discard(prefix, 3)
    multimap.add(prefix, 3)
    assert list(multimap.find(prefix + "x")) == [1, 2, 3]


@given(st.lists(st.tuples(texts, numbers)), texts)
def test_what_is_found_is_new(pairs: list[tuple[str, int]], topic: str) -> None:
    multimap: PrefixMultimap[int] = PrefixMultimap()
    for prefix, value in pairs:
        multimap.add(prefix, value)
    found = multimap.find(topic)
    before = dict(found)
    found.clear()
    assert multimap.find(topic) == before
