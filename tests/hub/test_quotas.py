"""Quotas: what one user may hold, how fast he may publish, and that docs/quotas.md is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.quotas import (
    QuotaLimits,
    Quotas,
    Rate,
    RateLimits,
    Resource,
    SetLimits,
    ShareStatistics,
    Usage,
    Whole,
    WholeStatistics,
)


def users(total: int, *limits: int | None) -> tuple[Whole, list[Usage]]:
    whole = Whole(Resource.PREFIXES, total)
    return whole, [Usage(whole, f"user{number}", limit, lambda: None) for number, limit in enumerate(limits)]


def take_all(usage: Usage) -> int:
    assert usage.take(usage.room)
    assert not usage.take(1)
    return usage.held


def test_another_limit() -> None:
    whole, (alice, bob) = users(600, None, None)
    assert take_all(alice) == 300
    alice.set_limit(200)
    assert (alice.held, alice.room, whole.sharers) == (300, 0, 0)
    assert take_all(bob) == 150
    alice.set_limit(400)
    assert alice.room == 100
    alice.set_limit(None)
    assert (alice.room, whole.sharers) == (0, 2)
    alice.give_back(300)
    alice.set_limit(7)
    assert (take_all(alice), whole.sharers) == (7, 1)


def test_refusals_are_counted_and_told() -> None:
    whole, (alice, bob) = users(600, 5, None)
    alice.require(5)
    with pytest.raises(RejectedError) as error:
        alice.require(2)
    assert error.value.code == CloseCode.TRY_AGAIN_LATER
    assert error.value.text == "user user0 has 5 prefixes, 2 more are too many: the limit for this user is 5"
    with pytest.raises(RejectedError) as error:
        bob.require(400)
    assert error.value.text == (
        "user user1 has 0 prefixes, 400 more are too many: the fair share is 297 now, of 600 in all"
    )
    assert (alice.refused_total, bob.refused_total, whole.refused_total) == (1, 1, 2)


def test_whoever_holds_nothing_more_is_told_of() -> None:
    told: list[int] = []
    usage = Usage(Whole(Resource.RULES, 10), "alice", None, lambda: told.append(1))
    usage.require(2)
    usage.give_back(1)
    assert not told
    usage.give_back(1)
    usage.require(1)
    usage.give_back(1)
    assert len(told) == 2


STEPS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["all", "some", "less", "gone"]), st.integers(1, 10**6)))


def promised(total: int, sharers: int) -> int:
    return total // (sharers * (sharers + 1))


@given(total=st.integers(1, 10**6), steps=STEPS)
def test_the_promise(total: int, steps: list[tuple[int, str, int]]) -> None:
    whole, some = users(total, *[None] * 8)
    acts: dict[str, Callable[[Usage, int], object]] = {
        "all": lambda usage, _: take_all(usage),
        "some": lambda usage, amount: usage.take(min(amount, usage.room)),
        "less": lambda usage, amount: usage.give_back(min(amount, usage.held)),
        "gone": lambda usage, _: usage.give_back(usage.held),
    }
    for number, act, amount in steps:
        acts[act](some[number], amount)
        held = sorted((usage.held for usage in some), reverse=True)
        assert whole.free == total - sum(held)
        assert whole.sharers == sum(1 for each in held if each)
        for count in range(1, len(some) + 1):
            assert sum(held[:count]) * (count + 1) <= total * count
        for usage in some:
            sharers = whole.sharers + (not usage.held)
            assert usage.most >= promised(total, sharers)


@given(total=st.integers(1, 10**6), limits=st.lists(st.integers(0, 10**6), min_size=1, max_size=3), steps=STEPS)
def test_the_promise_beside_those_with_limits(total: int, limits: list[int], steps: list[tuple[int, str, int]]) -> None:
    whole, some = users(total, *[None] * 5, *limits)
    for number, act, amount in steps:
        usage = some[number % len(some)]
        if act in {"all", "some"}:
            usage.take(usage.room if act == "all" else min(amount, usage.room))
        else:
            usage.give_back(usage.held if act == "gone" else min(amount, usage.held))
        assert whole.free >= 0
        assert all(one.held <= one.limit for one in some if one.limit is not None)
        by_limits = sum(one.held for one in some if one.limit is not None)
        for one in some[:5]:
            sharers = whole.sharers + (not one.held)
            assert one.most * sharers * (sharers + 1) > total - sharers * by_limits - sharers * (sharers + 1)


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
    monkeypatch.setattr("hub.quotas.RATES_KEPT", 2)
    users = {name: SetLimits(rate=RateLimits(messages_per_s=10)) for name in ("alice", "bob", "carol")}
    quotas = Quotas(limits=QuotaLimits(users=users))
    share = quotas.join("alice", NOBODY)
    assert share.rate.spend(30, 0, 100.0) == pytest.approx(2.0)
    quotas.leave(share)
    again = quotas.join("alice", NOBODY)
    assert not quotas._rates, "only rates of users who have left are kept"
    assert again.rate.wait_s(100.5) == pytest.approx(1.5)
    for one in (again, quotas.join("bob", NOBODY), quotas.join("carol", NOBODY)):
        quotas.leave(one)
    assert quotas.join("alice", NOBODY).rate.wait_s(100.5) == 0, "two others have left since"
    assert len(quotas) == 1


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


LIMITS = QuotaLimits(
    users={"alice": SetLimits({Resource.RULES: 5}, RateLimits(bytes_per_s=7))},
    roles={
        "small": SetLimits({Resource.RULES: 10, Resource.NAMES: 1}, RateLimits(messages_per_s=10)),
        "large": SetLimits({Resource.RULES: 20}, RateLimits(messages_per_s=20, bytes_per_s=100)),
    },
)


def test_the_largest_of_several_roles() -> None:
    assert LIMITS.of("bob", frozenset({"small", "large"})) == SetLimits(
        {Resource.RULES: 20, Resource.NAMES: 1}, RateLimits(20, 100)
    )


def test_what_is_set_for_the_user_himself_wins() -> None:
    assert LIMITS.of("alice", frozenset()) == SetLimits({Resource.RULES: 5}, RateLimits(bytes_per_s=7))
    assert LIMITS.of("alice", frozenset({"small", "large"})) == SetLimits(
        {Resource.RULES: 5, Resource.NAMES: 1}, RateLimits(20, 7)
    )


def test_messages() -> None:
    rate = Rate(RateLimits(messages_per_s=10))
    assert rate.is_limited
    assert rate.spend(10, 10**9, 100.0) == 0
    assert rate.spend(5, 0, 100.0) == pytest.approx(0.5)
    assert rate.wait_s(100.2) == pytest.approx(0.3)
    assert rate.wait_s(100.5) == pytest.approx(0)
    assert rate.spend(0, 0, 101.0) == 0


def test_another_rate() -> None:
    rate = Rate(RateLimits(messages_per_s=10))
    rate.spend(30, 0, 1.0)
    rate.set_limits(RateLimits(messages_per_s=10, bytes_per_s=5))
    assert rate.wait_s(1.0) == pytest.approx(2.0)
    rate.set_limits(RateLimits(messages_per_s=40))
    assert rate.wait_s(1.0) == 0
    rate.set_limits(RateLimits())
    assert not rate.is_limited


@given(
    per_s=st.integers(1, 1000), reads=st.lists(st.tuples(st.integers(1, 500), st.floats(0, 3)), min_size=1, max_size=50)
)
def test_in_the_long_run_the_rate_is_kept(per_s: int, reads: list[tuple[int, float]]) -> None:
    rate = Rate(RateLimits(messages_per_s=per_s))
    now = 50.0
    published = 0
    for messages, pause in reads:
        published += messages
        wait = rate.spend(messages, 0, now)
        assert published <= per_s * (now - 50.0) + per_s + messages + 1e-6 * published
        now += max(wait, pause)


DOCUMENT = (Path(__file__).parents[2] / "docs" / "quotas.md").read_text()


def test_every_resource_is_in_the_table() -> None:
    section = DOCUMENT.partition("## Resources")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [resource.value for resource in Resource]


def test_the_promised_parts() -> None:
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) MiB \|$", DOCUMENT, re.MULTILINE)
    assert len(rows) == 4
    for users, promised_mib in rows:
        whole = Whole(Resource.QUEUED_BYTES, 1 << 30)
        parts = []
        for _ in range(int(users)):
            usage = Usage(whole, "somebody", None, lambda: None)
            usage.require(usage.room)
            parts.append(usage.held)
        assert f"{parts[-1] / (1 << 20):.4g}".startswith(promised_mib)


def test_the_texts_of_refusals() -> None:
    whole = Whole(Resource.PREFIXES, 10_000_000)
    own = Usage(whole, "sensor-7", 512, lambda: None)
    own.require(500)
    assert own.rejection(20).text in DOCUMENT
    fair = Usage(Whole(Resource.PREFIXES, 1020), "sensor-7", None, lambda: None)
    fair.require(500)
    assert fair.rejection(20).text.replace("1020", "10000000") in DOCUMENT
