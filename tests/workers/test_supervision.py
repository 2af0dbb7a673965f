"""When which worker is started: what supervision says, by a clock that the test winds."""

from __future__ import annotations

import math
import random

from hypothesis import given, strategies

from peers.transport.backoff import CLIENT_CAP_S
from peers.workers.workers import START_S, STEADY_S, Supervision

DRAWS = random.Random(1)  # noqa: S311 -- spread, not secrecy


def test_all_are_started_at_once() -> None:
    supervision = Supervision(3)
    assert supervision.next_s() == -math.inf
    assert supervision.due(0.0) == [1, 2, 3]
    assert supervision.due(0.0) == []
    assert (len(supervision), supervision.started, supervision.up) == (3, 3, 0)
    for number in (1, 2, 3):
        supervision.serves(number, 1.0)
    assert supervision.up == 3
    assert supervision.next_s() == math.inf


def test_who_ends_is_started_again_after_a_while() -> None:
    supervision = Supervision(2, DRAWS)
    supervision.due(0.0)
    supervision.serves(1, 0.0)
    supervision.serves(2, 0.0)
    wait_s = supervision.end(2, 10.0)
    assert 0 < wait_s <= 0.1
    assert (supervision.up, supervision.ended) == (1, 1)
    assert supervision.next_s() == 10.0 + wait_s
    assert supervision.due(10.0 + wait_s / 2) == []
    assert supervision.due(10.0 + wait_s) == [2]
    assert supervision.started == 3


def test_who_takes_too_long_is_told_once() -> None:
    supervision = Supervision(1)
    supervision.due(0.0)
    assert supervision.next_s() == START_S
    assert supervision.overdue(START_S - 1) == []
    assert supervision.overdue(START_S) == [1]
    assert supervision.overdue(START_S + 1) == []
    assert supervision.due(START_S + 1) == []
    assert supervision.next_s() == math.inf
    wait_s = supervision.end(1, START_S + 2)
    assert supervision.due(START_S + 2 + wait_s) == [1]


def longest_wait_s(served_s: float) -> float:
    supervision, now_s, longest_s = Supervision(1, DRAWS), 0.0, 0.0
    for _ in range(50):
        assert supervision.due(now_s) == [1]
        supervision.serves(1, now_s)
        now_s += served_s
        wait_s = supervision.end(1, now_s)
        longest_s = max(longest_s, wait_s)
        now_s += wait_s
    return longest_s


def test_waits_grow_while_it_ends_at_once() -> None:
    assert 10 < longest_wait_s(1.0) <= CLIENT_CAP_S
    assert longest_wait_s(STEADY_S) <= 0.1


def test_nobody_is_started_while_the_hub_stops() -> None:
    supervision = Supervision(2)
    supervision.due(0.0)
    supervision.serves(1, 0.0)
    supervision.end(2, 0.0)
    supervision.stop()
    assert supervision.due(math.inf) == []
    assert supervision.next_s() == math.inf
    assert supervision.end(1, 1.0) == math.inf
    assert supervision.ended == 1


@given(
    strategies.lists(strategies.tuples(strategies.sampled_from(["serves", "ends", "waits"]), strategies.integers(1, 3)))
)
def test_a_place_has_one_process(steps: list[tuple[str, int]]) -> None:
    supervision, now_s, alive = Supervision(3), 0.0, set[int]()
    for step, number in steps:
        now_s += 1.0
        found = supervision.due(now_s)
        assert alive.isdisjoint(found)
        alive.update(found)
        assert supervision.overdue(now_s) == []
        if step == "serves" and number in alive:
            supervision.serves(number, now_s)
        elif step == "ends" and number in alive:
            supervision.end(number, now_s)
            alive.remove(number)
    assert alive | set(supervision.due(now_s + CLIENT_CAP_S)) == {1, 2, 3}
