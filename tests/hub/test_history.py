"""What the hub has done, over four spans; no clock, no hub."""

from __future__ import annotations

from typing import Any

import pytest

from hub.history import FIGURES, HEIGHTS, SIZE_BYTES, SPANS, History, Sample, merged


def sample(value: float) -> Sample:
    """A second in which every figure was the same."""
    return Sample(*[value] * len(FIGURES))


def told(history: History, span: str = "1m", after: int | None = None) -> tuple[int, list[float | None]]:
    """The number of the first point, and the points of a rate."""
    found = history.behind(span, after)
    assert {len(values) for values in found["figures"].values()} == {len(found["figures"]["in_messages"])}
    return found["first"], found["figures"]["in_messages"]


def test_nothing_is_known_at_first() -> None:
    """Every span has its names and steps, and no points."""
    for span in SPANS:
        found = History().behind(span.name)
        assert (found["step_s"], found["points"]) == (span.step_s, span.points)
        assert list(found["figures"]) == list(FIGURES)
        assert set(map(len, found["figures"].values())) == {0}


def test_the_spans_are_what_they_are_called() -> None:
    """A minute, ten, an hour and a day; and all of it takes what is said."""
    assert [span.step_s * span.points for span in SPANS] == [60, 600, 3600, 86_400]
    assert SIZE_BYTES == 51_744


def test_seconds_become_points() -> None:
    """The newest minute is there second by second, the newest last; what is before the first second is not known."""
    history = History()
    for second in range(1000, 1003):
        history.add(second, sample(second))
    first, points = told(history)
    assert (first, points[-3:], set(points[:-3])) == (1002 - 59, [1000, 1001, 1002], {None})


def test_a_ring_forgets_what_is_older() -> None:
    """It has as many points as it has, however long it goes on."""
    history = History()
    for second in range(500):
        history.add(second, sample(second))
    assert told(history) == (440, list(range(440, 500)))


@pytest.mark.parametrize("after", [499, 500, 2**63, 2**64 - 1])
def test_behind_what_is_not_there_yet(after: int) -> None:
    """Nothing follows, and the next point is the one that comes: whatever number somebody makes up."""
    history = History()
    for second in range(500):
        history.add(second, sample(second))
    assert told(history, after=after) == (500, [])


def test_rates_have_the_mean_and_heights_the_largest() -> None:
    """A point of five seconds has the mean of the seconds that are in it so far, or the largest of them."""
    history = History()
    for second, value in [(10, 4), (11, 8), (12, 0)]:
        history.add(second, sample(value))
        figures = history.behind("10m")["figures"]
    for name in FIGURES:
        assert figures[name][-1] == (8 if name in HEIGHTS else 4), name
    history.add(15, sample(1))
    assert told(history, "10m")[1][-2:] == [4, 1]


def test_seconds_that_are_missing_are_not_known() -> None:
    """A hub that stood still says so, and a point with some seconds has the mean of these."""
    history = History()
    history.add(100, sample(3))
    history.add(104, sample(5))
    assert told(history)[1][-5:] == [3, None, None, None, 5]
    assert told(history, "10m")[1][-1] == 4
    history.add(104 + 1000, sample(7))
    first, points = told(history)
    assert (first + 59, points[-1], set(points[:-1])) == (1104, 7, {None})


def test_a_clock_that_goes_back_changes_nothing() -> None:
    """What is newer stays."""
    history = History()
    history.add(100, sample(3))
    history.add(90, sample(9))
    assert told(history)[1][-1] == 3


def test_what_one_has_is_left_out() -> None:
    """Only the points behind a number are told; none if there is none, and all of them if one has missed some."""
    history = History()
    for second in range(100, 200):
        history.add(second, sample(second))
    assert told(history, after=197) == (198, [198, 199])
    assert told(history, after=199) == (200, [])
    assert told(history, after=5) == (140, list(range(140, 200)))


def test_a_second_may_be_told_in_parts() -> None:
    """Two looks in one second are one point."""
    history = History()
    history.add(7, sample(1))
    history.add(7, sample(2))
    assert told(history)[1][-1] == 1.5


def part(first: int, *values: float | None, points: int = 60) -> dict[str, Any]:
    """What one process tells of a minute."""
    figures = {name: list(values) for name in FIGURES}
    return {"span": "1m", "step_s": 1, "points": points, "first": first, "figures": figures}


def test_processes_are_added_up_by_number() -> None:
    """What nobody knows is not known; how late the loop is is that of the latest one."""
    found = merged([part(10, 1, 2, None, 3), part(11, 5, None, 7), part(0)])
    assert found["first"] == 10
    assert found["figures"]["in_messages"] == [1, 7, None, 10]
    assert found["figures"]["connections"] == [1, 7, None, 10]
    assert found["figures"]["lag_s"] == [1, 5, None, 7]


def test_processes_wait_for_each_other() -> None:
    """A point that one has not come to yet is told with the next question, unless that one hangs."""
    found = merged([part(10, 1, 2, 3), part(10, 4)])
    assert (found["first"], found["figures"]["in_messages"]) == (10, [5])
    found = merged([part(11, 2, 3), part(11)])
    assert (found["first"], found["figures"]["in_messages"]) == (11, [])
    found = merged([part(10, 1, 2, 3, 4), part(10, 4)])
    assert (found["first"], found["figures"]["in_messages"]) == (10, [5, 2, 3, 4])


def test_processes_together_have_no_more_points_than_one() -> None:
    """Where one is ahead, the oldest of the others are left out."""
    found = merged([part(0, 1, 2, 3, points=3), part(1, 4, 5, 6, points=3)])
    assert (found["first"], found["figures"]["in_messages"]) == (0, [1, 6, 8])
    found = merged([part(0, 1, 2, 3, points=3), part(3, 4, 5, 6, points=3)])
    assert (found["first"], found["figures"]["in_messages"]) == (3, [4, 5, 6])


@pytest.mark.parametrize("parts", [1, 3])
def test_processes_that_know_nothing(parts: int) -> None:
    """Together they know nothing, and say of which span."""
    assert merged([part(0)] * parts) == part(0)
