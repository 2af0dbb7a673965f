"""Shares: one for each user, with what is set for him."""

from __future__ import annotations

import pytest

from hub.errors import RejectedError
from hub.quotas.quotas import UNBOUNDED, QuotaLimits, Quotas, RateLimits, SetLimits, ShareStatistics, WholeStatistics
from hub.quotas.resource import Resource

NOBODY: frozenset[str] = frozenset()


def test_a_share_stays_while_something_is_charged_to_it() -> None:
    quotas = Quotas()
    share = quotas.join("alice", NOBODY)
    share[Resource.STAGED_BYTES].require(100)
    quotas.leave(share)
    assert len(quotas) == 1
    assert quotas.join("alice", NOBODY) is share
    quotas.leave(share)
    share[Resource.STAGED_BYTES].give_back(100)
    assert len(quotas) == 0


def test_whoever_comes_again_is_as_fast_as_he_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.quotas.quotas.RATES_KEPT", 2)
    users = {name: SetLimits(rate=RateLimits(messages_per_s=10)) for name in ("alice", "bob", "carol")}
    quotas = Quotas(limits=QuotaLimits(users=users))
    share = quotas.join("alice", NOBODY)
    assert share.rate.spend(30, 0, 100.0) == pytest.approx(2.0)
    quotas.leave(share)
    again = quotas.join("alice", NOBODY)
    assert again.rate.wait_s(100.5) == pytest.approx(1.5)
    for one in (again, quotas.join("bob", NOBODY), quotas.join("carol", NOBODY)):
        quotas.leave(one)
    assert quotas.join("alice", NOBODY).rate.wait_s(100.5) == 0, "two others have left since"
    assert len(quotas) == 1


def test_what_nobody_has_bounded() -> None:
    quotas = Quotas()
    share = quotas.join("alice", NOBODY)
    share[Resource.QUEUED_BYTES].require(UNBOUNDED // 4)
    quotas.join("bob", NOBODY)[Resource.QUEUED_BYTES].require(UNBOUNDED // 16)


def test_other_limits() -> None:
    quotas = Quotas()
    share = quotas.join("alice", NOBODY)
    share[Resource.RULES].require(5)
    quotas.adopt(QuotaLimits(users={"alice": SetLimits({Resource.RULES: 6, Resource.NAMES: 1})}))
    assert share[Resource.RULES].room == 1
    assert share[Resource.NAMES].room == 1
    other = quotas.join("bob", frozenset({"small"}))
    quotas.adopt(QuotaLimits(roles={"small": SetLimits({Resource.RULES: 3})}))
    assert share[Resource.RULES].room > 10**6
    assert other[Resource.RULES].room == 3


def test_less_or_more_than_there_was() -> None:
    quotas = Quotas({Resource.CONNECTIONS: 10})
    shares = [quotas.join("alice", NOBODY) for _ in range(5)]
    quotas.set_total(Resource.CONNECTIONS, 4)
    assert quotas.statistics()["connections"] == WholeStatistics(total=4, held=5, refused_total=0)
    with pytest.raises(RejectedError):
        quotas.join("bob", NOBODY)
    quotas.leave(shares[0])
    with pytest.raises(RejectedError):
        quotas.join("bob", NOBODY)
    quotas.set_total(Resource.CONNECTIONS, 100)
    assert shares[0][Resource.CONNECTIONS].most == 50


def test_who_holds_most_is_shown_first() -> None:
    quotas = Quotas({Resource.RULES: 1000, Resource.NAMES: 10})
    shares = {user: quotas.join(user, NOBODY) for user in ("alice", "bob", "carol", "dave")}
    shares["alice"][Resource.RULES].require(100)
    shares["bob"][Resource.NAMES].require(3)
    shares["carol"][Resource.RULES].require(10)
    shares["dave"][Resource.RULES].require(20)
    assert not shares["dave"][Resource.NAMES].take(9)
    shares["carol"].rate.held_back(1.5)
    assert quotas.largest(2) == [
        ShareStatistics("bob", 1, {"connections": 1, "names": 3}, 0, 0.0),
        ShareStatistics("alice", 1, {"connections": 1, "rules": 100}, 0, 0.0),
        ShareStatistics("", 2, {"connections": 2, "rules": 30}, 1, 1.5),
    ]
    assert quotas.held_back_total == 1
    assert [each.user for each in quotas.largest(4)] == ["bob", "alice", "dave", "carol"]
