"""`Histogram`: percentiles within 0.8 %, an exact end, and nothing lost on the way between processes."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.bench.histogram import Histogram

values = st.integers(0, 1 << 50)


def filled(numbers: list[int]) -> Histogram:
    """A histogram of some numbers."""
    histogram = Histogram()
    for number in numbers:
        histogram.record(number)
    return histogram


@given(values)
def test_a_value_lies_in_its_bucket(value: int) -> None:
    """The top of a value's bucket is not below it, and at most 1/128 above it; the next value is in another one."""
    ((top, count),) = filled([value]).buckets()
    assert count == 1
    assert value <= top <= value * (1 + 1 / 128)
    assert filled([value, top]).buckets() == [(top, 2)]
    assert len(filled([value, top + 1]).buckets()) == 2


@given(st.lists(values, min_size=1), st.sampled_from([0, 1, 50, 90, 99, 99.9, 99.99, 100]))
def test_percentiles_agree_with_a_sorted_list(numbers: list[int], percent: float) -> None:
    """A percentile is that of the sorted values, or up to 0.8 % above, and never above the largest."""
    rank = max(1, math.ceil(round(percent * len(numbers) / 100, 9)))
    true = sorted(numbers)[rank - 1]
    found = filled(numbers).percentile(percent)
    assert true <= found <= min(true * (1 + 1 / 128), max(numbers))


def test_a_share_of_a_thousand_is_exact() -> None:
    """99.9 % of 1,000 values are 999 of them, although 99.9 is no binary fraction."""
    histogram = filled([1] * 999 + [200])
    assert histogram.percentile(99.9) == 1
    assert histogram.percentile(99.99) == 200


def told(histogram: Histogram) -> tuple[object, ...]:
    """All that a histogram tells."""
    return histogram.buckets(), histogram.total, histogram.sum, histogram.largest


@given(st.lists(values), st.lists(values))
def test_adding_is_recording_both(some: list[int], others: list[int]) -> None:
    """The sum of two histograms is the histogram of all their values."""
    both = filled(some)
    both.add(filled(others))
    assert told(both) == told(filled(some + others))


@given(st.lists(values))
def test_a_workers_histogram_arrives_as_it_was(numbers: list[int]) -> None:
    """Pickled, as it travels between processes."""
    histogram = filled(numbers)
    assert told(pickle.loads(pickle.dumps(histogram))) == told(histogram)  # noqa: S301 -- our own


def test_clocks_that_disagree() -> None:
    """A negative value counts as 0."""
    assert filled([-5]).buckets() == [(0, 1)]


@pytest.mark.parametrize("percent", [0, 50, 100])
def test_nothing_recorded(percent: float) -> None:
    """Without values every figure is 0."""
    histogram = Histogram()
    assert histogram.percentile(percent) == 0
    assert histogram.mean == 0
    assert histogram.buckets() == []
