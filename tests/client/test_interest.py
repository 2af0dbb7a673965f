"""Which prefixes are asked for: each once, whoever wants it, whatever becomes of the connection."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from peers.client.routes import Claim, Interest


def test_first_and_last() -> None:
    """The first claim on a prefix asks for it, the last one that goes takes it back."""
    interest = Interest()
    one, new = interest.claim(["/a", "/b"], 1)
    assert new == ["/a", "/b"]
    other, new = interest.claim(["/b", "/c"], 2)
    assert new == ["/c"]
    assert {claim.request for claim in other} == {1, 2}
    assert interest.release(one) == ["/a"]
    assert interest.release(other) == ["/b", "/c"]
    assert len(interest) == 0


def test_answers() -> None:
    """A confirmed prefix is held; a refused one is nobody's, and may be asked for again."""
    interest = Interest()
    one, _ = interest.claim(["/a"], 1)
    other, _ = interest.claim(["/b", "/c"], 2)
    assert interest.asked() == {1: ["/a"], 2: ["/b", "/c"]}
    interest.confirm(1)
    assert interest.held() == ["/a"]
    assert one[0].request == 0
    interest.refuse(2)
    assert interest.asked() == {}
    again, new = interest.claim(["/b"], 3)
    assert new == ["/b"]
    assert interest.release(other) == [], "those claims are void"
    interest.confirm(3)
    assert interest.release(again) == ["/b"]


def test_given_up_before_the_answer() -> None:
    """What nobody wants any more is not asked for again, and its late answer changes nothing."""
    interest = Interest()
    claims, _ = interest.claim(["/a"], 1)
    assert interest.release(claims) == ["/a"]
    assert interest.asked() == {1: []}
    interest.claim(["/a"], 2)
    interest.refuse(1)
    assert interest.asked() == {2: ["/a"]}
    interest.confirm(7)
    assert interest.held() == []


class HubModel(RuleBasedStateMachine):
    """A hub that does as it is told must end up with exactly what is wanted."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.interest = Interest()
        self.hub: set[str] = set()
        self.wanted: Counter[str] = Counter()
        self.request = 0

    @rule(target=claims, prefixes=st.sets(st.sampled_from("abcd")))
    def subscribe(self, prefixes: set[str]) -> list[Claim]:
        """Somebody wants something, and the hub confirms."""
        self.request += 1
        claims, new = self.interest.claim(sorted(prefixes), self.request)
        assert not self.hub & set(new)
        self.hub |= set(new)
        self.interest.confirm(self.request)
        self.wanted.update(prefixes)
        return claims

    @rule(claims=consumes(claims))
    def unsubscribe(self, claims: list[Claim]) -> None:
        """Somebody no longer wants it."""
        gone = self.interest.release(claims)
        assert set(gone) <= self.hub
        self.hub -= set(gone)
        self.wanted.subtract(claim.want for claim in claims)

    @rule()
    def reconnect(self) -> None:
        """A new hub is told everything."""
        self.hub = set(self.interest.held())

    @invariant()
    def agree(self) -> None:
        """The hub has what is wanted, no more and no less."""
        assert self.hub == set(+self.wanted) == set(self.interest.held())


TestHubModel = HubModel.TestCase
