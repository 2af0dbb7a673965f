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


def users(
    total: int, *limits: int | None, on_nothing: Callable[[], object] = lambda: None
) -> tuple[Whole, list[Usage]]:
    whole = Whole(Resource.PREFIXES, total)
    return whole, [Usage(whole, f"user{number}", limit, on_nothing) for number, limit in enumerate(limits)]


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
    told: list[int] = []
    whole, (alice, bob) = users(600, 5, None, on_nothing=lambda: told.append(1))
    alice.require(5)
    for usage, amount, text in (
        (alice, 2, "user user0 has 5 prefixes, 2 more are too many: the limit for this user is 5"),
        (bob, 400, "user user1 has 0 prefixes, 400 more are too many: the fair share is 297 now, of 600 in all"),
    ):
        with pytest.raises(RejectedError) as error:
            usage.require(amount)
        assert (error.value.code, error.value.text) == (CloseCode.TRY_AGAIN_LATER, text)
    assert (alice.refused_total, bob.refused_total, whole.refused_total) == (1, 1, 2)
    alice.give_back(4)
    assert not told, "whoever holds nothing more is told of"
    alice.give_back(1)
    alice.require(1)
    alice.give_back(1)
    assert len(told) == 2


STEPS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["all", "some", "less", "gone"]), st.integers(1, 10**6)))


@given(total=st.integers(1, 10**6), limits=st.lists(st.integers(0, 10**6), max_size=3), steps=STEPS)
def test_the_promise(total: int, limits: list[int], steps: list[tuple[int, str, int]]) -> None:
    """Who has no limit of his own is promised a part of what those with limits leave."""
    whole, some = users(total, *[None] * (5 if limits else 8), *limits)
    unbound = some[: -len(limits) or None]
    for number, act, amount in steps:
        usage = some[number % len(some)]
        match act:
            case "all" if usage.limit is None:
                take_all(usage)
            case "all" | "some":
                usage.take(usage.room if act == "all" else min(amount, usage.room))
            case _:
                usage.give_back(usage.held if act == "gone" else min(amount, usage.held))
        held = sorted((usage.held for usage in some), reverse=True)
        assert whole.free == total - sum(held) >= 0
        assert all(one.held <= one.limit for one in some if one.limit is not None)
        if not limits:
            assert whole.sharers == sum(1 for each in held if each)
            assert all(sum(held[:count]) * (count + 1) <= total * count for count in range(1, len(some) + 1))
        by_limits = sum(one.held for one in some if one.limit is not None)
        for one in unbound:
            sharers = whole.sharers + (not one.held)
            parts = sharers * (sharers + 1)
            assert one.most >= total // parts if not limits else one.most * parts > total - sharers * by_limits - parts


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


@pytest.mark.parametrize(
    ("user", "roles", "limits"),
    [
        ("bob", {"small", "large"}, SetLimits({Resource.RULES: 20, Resource.NAMES: 1}, RateLimits(20, 100))),
        ("alice", set(), SetLimits({Resource.RULES: 5}, RateLimits(bytes_per_s=7))),
        ("alice", {"small", "large"}, SetLimits({Resource.RULES: 5, Resource.NAMES: 1}, RateLimits(20, 7))),
    ],
)
def test_the_largest_of_several_roles_and_what_is_set_for_a_user(user: str, roles: set[str], limits: SetLimits) -> None:
    assert LIMITS.of(user, frozenset(roles)) == limits


def test_a_rate() -> None:
    rate = Rate(RateLimits(messages_per_s=10))
    assert rate.is_limited
    assert rate.spend(10, 10**9, 100.0) == 0
    assert rate.spend(5, 0, 100.0) == pytest.approx(0.5)
    assert [rate.wait_s(100.2), rate.wait_s(100.5)] == pytest.approx([0.3, 0])
    assert rate.spend(0, 0, 101.0) == 0
    rate.spend(30, 0, 102.0)
    rate.set_limits(RateLimits(messages_per_s=10, bytes_per_s=5))
    assert rate.wait_s(102.0) == pytest.approx(2.0)
    rate.set_limits(RateLimits(messages_per_s=40))
    assert rate.wait_s(102.0) == 0
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
