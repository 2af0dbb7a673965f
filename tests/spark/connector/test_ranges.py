"""Cutting a range of offsets into the shares of tasks."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from peers.spark.connector.shares import PARTITION_LEAST_ROWS, PARTITION_MOST_ROWS, OffsetRange, split

OFFSETS = st.integers(0, 10**9)


@given(start=OFFSETS, rows=OFFSETS, partitions=st.integers(1, 100))
def test_shares_cover_the_range_evenly(start: int, rows: int, partitions: int) -> None:
    """Each offset is in one share, in order; shares differ by one at most and are neither too small nor too large."""
    shares = split(start, start + rows, partitions, "ab")
    assert [share.start for share in shares[1:]] == [share.end for share in shares[:-1]]
    assert [shares[0].start, shares[-1].end] == [start, start + rows] if rows else not shares
    sizes = [share.end - share.start for share in shares]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert not sizes or max(sizes) <= PARTITION_MOST_ROWS
    assert len(shares) <= 1 or min(sizes) >= PARTITION_LEAST_ROWS


def test_a_range_that_ends_before_it_starts_is_empty() -> None:
    assert split(5, 3, 2, "ab") == []


def test_shares_travel_to_tasks() -> None:
    share = OffsetRange(1, 2, "ab")
    assert pickle.loads(pickle.dumps(share)) == share  # noqa: S301 -- our own
