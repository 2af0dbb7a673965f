"""How fast one user may publish."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.quotas.quotas import Rate, RateLimits


def test_no_rate() -> None:
    rate = Rate(RateLimits())
    assert not rate.is_limited
    assert rate.spend(10**9, 10**12, 5.0) == 0


def test_messages() -> None:
    rate = Rate(RateLimits(messages_per_s=10))
    assert rate.is_limited
    assert rate.spend(10, 10**9, 100.0) == 0
    assert rate.spend(5, 0, 100.0) == pytest.approx(0.5)
    assert rate.wait_s(100.2) == pytest.approx(0.3)
    assert rate.wait_s(100.5) == pytest.approx(0)
    assert rate.spend(0, 0, 101.0) == 0


def test_bytes() -> None:
    rate = Rate(RateLimits(messages_per_s=10, bytes_per_s=1000))
    assert rate.spend(11, 3000, 1.0) == pytest.approx(2.0)
    assert rate.spend(40, 0, 1.0) == pytest.approx(4.1)


def test_silence_is_worth_one_second() -> None:
    rate = Rate(RateLimits(messages_per_s=10))
    rate.spend(10, 0, 1.0)
    assert rate.spend(20, 0, 1000.0) == pytest.approx(1.0)


def test_a_clock_that_goes_back() -> None:
    rate = Rate(RateLimits(messages_per_s=10))
    assert rate.spend(20, 0, 1000.0) == pytest.approx(1.0)
    assert rate.wait_s(900.0) == pytest.approx(1.0)
    assert rate.wait_s(1000.5) == pytest.approx(0.5)


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
