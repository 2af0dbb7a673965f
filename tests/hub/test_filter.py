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
    """Those that no other one covers, by looking at all pairs."""
    return {one for one in wanted if not any(one != other and one.startswith(other) for other in wanted)}


class Receiver:
    """A peer that keeps the filter by what it is told."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def receive(self, change: Change) -> None:
        """Carry a change out; it must change something at every place that it names."""
        assert self.known.isdisjoint(change.added)
        self.known |= set(change.added)
        assert self.known.issuperset(change.removed)
        assert set(change.added).isdisjoint(change.removed)
        self.known -= set(change.removed)


class FilterAgainstNaive(RuleBasedStateMachine):
    """Any sequence of changes leaves the minimal cover, here and at a receiver."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = Filter()
        self.wanted: Counter[str] = Counter()
        self.receiver = Receiver()

    @rule(prefix=prefixes)
    def add(self, prefix: str) -> None:
        """One more wants it."""
        self.wanted[prefix] += 1
        self.receiver.receive(self.filter.add(prefix))

    @precondition(lambda self: self.wanted)
    @rule(choice=st.randoms(use_true_random=False))
    def discard(self, choice: st.random.Random) -> None:  # type: ignore[name-defined]
        """One less wants it."""
        prefix = choice.choice(sorted(self.wanted))
        self.wanted -= Counter([prefix])
        self.receiver.receive(self.filter.discard(prefix))

    @invariant()
    def minimal(self) -> None:
        """The cover is minimal, sorted, and known to the receiver."""
        cover = minimal_cover(set(self.wanted))
        assert list(self.filter.minimal) == sorted(cover)
        assert self.receiver.known == cover

    def teardown(self) -> None:
        """Nothing is left when all is taken back."""
        for prefix in list(self.wanted.elements()):
            self.receiver.receive(self.filter.discard(prefix))
        assert not self.filter.minimal
        assert not self.filter._counts
        assert not self.receiver.known


TestFilterAgainstNaive = FilterAgainstNaive.TestCase


def test_a_covered_prefix_is_not_told() -> None:
    """Whoever wants `/zeek/` gets `/zeek/dns/` anyway."""
    wanted = Filter()
    assert wanted.add("/zeek/") == Change(("/zeek/",))
    assert wanted.add("/zeek/dns/") == Change()
    assert wanted.discard("/zeek/dns/") == Change()


def test_a_wider_prefix_takes_the_place_of_narrower_ones() -> None:
    """One announcement adds the wider and removes what it covers; taking it back does the opposite."""
    wanted = Filter()
    for prefix in ("/a/1", "/a/2", "/a/2/x", "/b"):
        wanted.add(prefix)
    assert wanted.add("/a/") == Change(("/a/",), ("/a/1", "/a/2"))
    assert wanted.discard("/a/") == Change(("/a/1", "/a/2"), ("/a/",))


def test_only_the_last_one_takes_a_prefix_away() -> None:
    """Prefixes are counted by handlers."""
    wanted = Filter()
    assert wanted.add("/a") == Change(("/a",))
    assert wanted.add("/a") == Change()
    assert wanted.discard("/a") == Change()
    assert wanted.discard("/a") == Change(removed=("/a",))


def test_what_nobody_wants_cannot_be_discarded() -> None:
    """That would be a bug of the core: it does not pass unseen."""
    with pytest.raises(KeyError):
        Filter().discard("/a")
