"""Waiting between attempts: uniform below a bound that doubles."""

from __future__ import annotations

import random

import pytest

from peers.backoff import Backoff


class Highest(random.Random):
    """Always draws the upper bound."""

    def uniform(self, a: float, b: float) -> float:
        """Return the bound."""
        assert a == 0
        return b


def test_the_bound_doubles_up_to_the_cap() -> None:
    """And stays there."""
    backoff = Backoff(base_s=0.1, cap_s=1.0, source=Highest())
    assert [backoff.next_s() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_success_begins_anew() -> None:
    """With the first bound."""
    backoff = Backoff(base_s=0.1, cap_s=1.0, source=Highest())
    for _ in range(5):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == 0.1


def test_holding_goes_to_the_cap() -> None:
    """At once, until there is a success."""
    backoff = Backoff(base_s=0.1, cap_s=8.0, source=Highest())
    backoff.hold()
    assert [backoff.next_s(), backoff.next_s()] == [8.0, 8.0]


def test_the_draw_is_spread() -> None:
    """Over the whole window, so that many clients do not come back together."""
    source = random.Random(3)  # noqa: S311 -- repeatable
    backoff = Backoff(base_s=10.0, cap_s=10.0, source=source)
    drawn = [backoff.next_s() for _ in range(1000)]
    assert min(drawn) < 0.5
    assert max(drawn) > 9.5
    assert sum(drawn) / 1000 == pytest.approx(5.0, abs=0.5)


def test_defaults() -> None:
    """A tenth of a second to begin with, at most half a minute; each has its own chance."""
    backoff = Backoff()
    drawn = [backoff.next_s() for _ in range(30)]
    assert drawn[0] <= 0.1
    assert max(drawn) <= 30.0
    assert [Backoff().next_s() for _ in range(3)] != [Backoff().next_s() for _ in range(3)]
