"""Values by their size."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from hub.statistics import Histogram


def test_values_fall_into_the_first_bucket_that_holds_them() -> None:
    histogram = Histogram((1, 10))
    assert histogram.statistics().counts == (0, 0, 0)
    for value in (0, 1, 1.5, 10, 11, 1e9):
        histogram.observe(value)
    assert histogram.statistics() == ((1, 10), (2, 2, 2), 0 + 1 + 1.5 + 10 + 11 + 1e9)


def test_what_was_told_does_not_change() -> None:
    histogram = Histogram((1.0,))
    before = histogram.statistics()
    histogram.observe(5)
    assert before.counts == (0, 0)


@given(st.lists(st.integers(-5, 30)), st.lists(st.integers(0, 20), unique=True).map(sorted))
def test_nothing_is_lost(values: list[int], bounds: list[int]) -> None:
    histogram = Histogram(tuple(bounds))
    for value in values:
        histogram.observe(value)
    counted = histogram.statistics()
    assert sum(counted.counts) == len(values)
    for bound, so_far in zip(bounds, accumulate(counted.counts), strict=False):
        assert so_far == sum(value <= bound for value in values)
    assert counted.total == sum(values)
