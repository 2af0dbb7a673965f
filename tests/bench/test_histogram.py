"""`Histogram`: percentiles within 0.8 %, exact ends, and nothing lost on the way through JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.bench.histogram import Histogram, bucket_of, top_of

values = st.integers(0, (1 << 40) - 1)


def filled(numbers: list[int]) -> Histogram:
    """A histogram of some numbers."""
    histogram = Histogram()
    for number in numbers:
        histogram.record(number)
    return histogram


@given(values)
def test_a_value_lies_in_its_bucket(value: int) -> None:
    """The top of a value's bucket is not below it, and at most 1/128 above it."""
    top = top_of(bucket_of(value))
    assert value <= top <= value * (1 + 1 / 128)
    assert bucket_of(top) == bucket_of(value)
    assert bucket_of(top + 1) == bucket_of(value) + 1


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


@given(st.lists(values), st.lists(values))
def test_adding_is_recording_both(some: list[int], others: list[int]) -> None:
    """The sum of two histograms is the histogram of all their values."""
    both = filled(some)
    both.add(filled(others))
    assert both.dump() == filled(some + others).dump()


@given(st.lists(values))
def test_dump_and_load_are_inverses_through_json(numbers: list[int]) -> None:
    """A worker's histogram arrives as it was."""
    histogram = filled(numbers)
    loaded = Histogram.load(json.loads(json.dumps(histogram.dump())))
    assert loaded.buckets() == histogram.buckets()
    assert (loaded.total, loaded.sum, loaded.smallest, loaded.largest) == (
        histogram.total,
        histogram.sum,
        histogram.smallest,
        histogram.largest,
    )


def test_recording_several_at_once() -> None:
    """`times` counts a value so often."""
    histogram = Histogram()
    histogram.record(7, times=3)
    assert histogram.total == 3
    assert histogram.mean == 7
    assert histogram.buckets() == [(7, 3)]


def test_clocks_that_disagree_and_waits_without_end() -> None:
    """A negative value counts as 0, one beyond 18 minutes as that."""
    histogram = filled([-5, 1 << 50])
    assert histogram.smallest == 0
    assert histogram.largest == (1 << 40) - 1


@pytest.mark.parametrize("percent", [0, 50, 100])
def test_nothing_recorded(percent: float) -> None:
    """Without values every figure is 0."""
    histogram = Histogram()
    assert histogram.percentile(percent) == 0
    assert histogram.mean == 0
    assert histogram.buckets() == []
