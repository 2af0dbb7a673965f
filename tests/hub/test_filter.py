"""The filter against a naive minimal cover."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hub.filter import Change, Filter
from tests.hub.fakes import nasty_texts

prefixes = st.one_of(nasty_texts, st.text(alphabet="/ab", max_size=4))


def minimal_cover(wanted: set[str]) -> set[str]:
    return {one for one in wanted if not any(one != other and one.startswith(other) for other in wanted)}


class Receiver:
    def __init__(self) -> None:
        self.known: set[str] = set()

    def receive(self, change: Change) -> None:
        assert self.known.isdisjoint(change.added)
        self.known |= set(change.added)
        assert self.known.issuperset(change.removed)
        assert set(change.added).isdisjoint(change.removed)
        self.known -= set(change.removed)


class FilterAgainstNaive(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.filter = Filter()
        self.wanted: Counter[str] = Counter()
        self.receiver = Receiver()

    @rule(prefix=prefixes)
    def add(self, prefix: str) -> None:
        self.wanted[prefix] += 1
        self.receiver.receive(self.filter.add(prefix))

    @precondition(lambda self: self.wanted)
    @rule(choice=st.randoms(use_true_random=False))
    def discard(self, choice: st.random.Random) -> None:  # type: ignore[name-defined]
        prefix = choice.choice(sorted(self.wanted))
        self.wanted -= Counter([prefix])
        self.receiver.receive(self.filter.discard(prefix))

    @invariant()
    def minimal(self) -> None:
        cover = minimal_cover(set(self.wanted))
        assert list(self.filter.minimal) == sorted(cover)
        assert self.receiver.known == cover

    def teardown(self) -> None:
        for prefix in list(self.wanted.elements()):
            self.receiver.receive(self.filter.discard(prefix))
        assert not self.filter.minimal
        assert not self.filter._counts
        assert not self.receiver.known


TestFilterAgainstNaive = FilterAgainstNaive.TestCase


def test_what_nobody_wants_cannot_be_discarded() -> None:
    with pytest.raises(KeyError):
        Filter().discard("/a")
