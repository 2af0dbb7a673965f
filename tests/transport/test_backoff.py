"""Waiting between attempts: uniform below a bound that doubles."""

from __future__ import annotations

import random

import pytest

from peers.transport.backoff import HELD_S, LINK_CAP_S, Backoff


class Highest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        assert a == 0
        return b


def test_the_bound_doubles_up_to_the_cap() -> None:
    backoff = Backoff(base_s=0.1, cap_s=1.0, source=Highest())
    assert [backoff.next_s() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_in_the_first_minute_clients_come_back_soon() -> None:
    backoff = Backoff(source=Highest())
    for _ in range(2):
        drawn = [backoff.next_s() for _ in range(19)]
        assert drawn[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
        assert drawn[7:17] == [5.0] * 10
        assert drawn[17:] == [30.0, 30.0]
        backoff.reset()


def test_links_come_back_sooner() -> None:
    """A hub has few peers: the bound of a link stops growing at two seconds, however long the far side is away."""
    backoff = Backoff.for_link()
    drawn = [backoff.next_s() for _ in range(1000)]
    assert drawn[0] <= 0.1
    assert max(drawn) <= LINK_CAP_S == 2.0
    assert max(drawn) > 1.0


def test_a_refusal_that_stands() -> None:
    backoff = Backoff(base_s=0.1, cap_s=8.0)
    held = [backoff.held_s() for _ in range(100)]
    assert HELD_S / 2 <= min(held) < max(held) <= HELD_S
    assert backoff.next_s() <= 0.1


def test_the_draw_is_spread() -> None:
    source = random.Random(3)  # noqa: S311 -- repeatable
    backoff = Backoff(base_s=10.0, cap_s=10.0, source=source)
    drawn = [backoff.next_s() for _ in range(1000)]
    assert min(drawn) < 0.5
    assert max(drawn) > 9.5
    assert sum(drawn) / 1000 == pytest.approx(5.0, abs=0.5)
