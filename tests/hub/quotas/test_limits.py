"""Which of several limits applies to a user."""

from __future__ import annotations

from hub.quotas.quotas import NO_LIMITS, QuotaLimits, RateLimits, SetLimits
from hub.quotas.resource import Resource

LIMITS = QuotaLimits(
    users={"alice": SetLimits({Resource.RULES: 5}, RateLimits(bytes_per_s=7))},
    roles={
        "small": SetLimits({Resource.RULES: 10, Resource.NAMES: 1}, RateLimits(messages_per_s=10)),
        "large": SetLimits({Resource.RULES: 20}, RateLimits(messages_per_s=20, bytes_per_s=100)),
    },
)


def test_nothing_is_set() -> None:
    assert NO_LIMITS.of("alice", frozenset({"small"})) == SetLimits()
    assert LIMITS.of("bob", frozenset({"other"})) == SetLimits()


def test_the_largest_of_several_roles() -> None:
    assert LIMITS.of("bob", frozenset({"small", "large"})) == SetLimits(
        {Resource.RULES: 20, Resource.NAMES: 1}, RateLimits(20, 100)
    )


def test_what_is_set_for_the_user_himself_wins() -> None:
    assert LIMITS.of("alice", frozenset()) == SetLimits({Resource.RULES: 5}, RateLimits(bytes_per_s=7))
    assert LIMITS.of("alice", frozenset({"small", "large"})) == SetLimits(
        {Resource.RULES: 5, Resource.NAMES: 1}, RateLimits(20, 7)
    )
