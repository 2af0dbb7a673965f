"""How long the hub takes for what a read brings: of which reads that is measured, and until when."""

from __future__ import annotations

import pytest

from peers.node.read_times import BETWEEN_S, ReadTimes


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def times(clock: Clock) -> ReadTimes:
    return ReadTimes(clock)


def test_a_read_is_measured_until_its_end(times: ReadTimes, clock: Clock) -> None:
    assert times.due_s <= 5.0
    times.begin(5.0, 300)
    assert times.due_s == 5.0 + BETWEEN_S
    clock.now_s += 0.25
    times.end()
    assert times.seconds.statistics().total == 0.25
    assert times.bytes.statistics().total == 300


def test_what_was_put_off_belongs_to_it(times: ReadTimes, clock: Clock) -> None:
    mine, other = object(), object()
    times.begin(5.0, 1)
    times.put_off(mine)
    assert times.due_s > 5.0 + 10 * BETWEEN_S
    clock.now_s += 0.5
    times.go_on(other)
    assert sum(times.seconds.statistics().counts) == 0
    times.go_on(mine)
    times.go_on(mine)
    assert times.seconds.statistics().total == 0.5
    assert sum(times.seconds.statistics().counts) == 1
    assert times.due_s == pytest.approx(5.0 + BETWEEN_S)


def test_one_that_never_comes_to_its_turn(times: ReadTimes, clock: Clock) -> None:
    times.begin(5.0, 1)
    times.put_off(object())
    clock.now_s += 70
    assert times.due_s <= 75.0
    times.begin(75.0, 1)
    clock.now_s += 1
    times.end()
    assert times.seconds.statistics().total == 71
    assert sum(times.seconds.statistics().counts) == 2
