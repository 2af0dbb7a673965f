"""What one user may hold of a resource, and what everybody is promised of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.quotas.resource import Resource
from hub.quotas.usage import Usage, Whole


def users(total: int, *limits: int | None) -> tuple[Whole, list[Usage]]:
    whole = Whole(Resource.PREFIXES, total)
    return whole, [Usage(whole, f"user{number}", limit, lambda: None) for number, limit in enumerate(limits)]


def take_all(usage: Usage) -> int:
    assert usage.take(usage.room)
    assert not usage.take(1)
    return usage.held


def test_a_limit_takes_the_place_of_the_fair_part() -> None:
    whole, (alice, bob) = users(600, 550, None)
    assert take_all(alice) == 550
    assert take_all(bob) == 25
    assert whole.sharers == 1
    alice.give_back(100)
    bob.add(100)
    assert take_all(alice) == 475
    assert whole.free == 0


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


def test_what_is_added_without_asking() -> None:
    whole, (alice, bob) = users(600, None, 10)
    alice.add(700)
    assert (whole.free, alice.room, bob.room) == (-100, 0, 0)
    assert not bob.take(1)
    alice.give_back(700)
    assert (whole.free, bob.room) == (600, 10)


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
        "user user1 has 0 prefixes, 400 more are too many: a fair part of what is left is 297 now, of 600 in all"
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
