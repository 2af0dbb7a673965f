"""Which blocks are merged, and into what."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.journal.block import Block, pack
from peers.journal import merging
from peers.journal.merging import Stored, is_small, plan
from peers.journal.schema import BlockRow
from tests.journal.files import AT_US, numbered, small_blocks


def stored(first: int, count: int, *, padding: int = 0, at_us: int = AT_US) -> Stored:
    """A block with its row."""
    (block,) = pack([(at_us, numbered(range(first, first + count), padding=padding))], first, 65_536, 1 << 30)
    row = BlockRow(first, first + count, at_us, at_us, len(block), b"/t/0\n/t/1\n/t/2").sealed()
    return row, block if is_small(row) else b""


def tail(*counts: int, padding: int = 0) -> list[Stored]:
    """Blocks one behind the other, the clock going back and forth."""
    starts = [sum(counts[:place]) for place in range(len(counts))]
    return [
        stored(start, count, padding=padding, at_us=AT_US + (place % 3) * 1000)
        for place, (start, count) in enumerate(zip(starts, counts, strict=True))
    ]


def extents(blocks: list[Stored]) -> list[tuple[int, int]]:
    """Where they begin and end."""
    return [(row.first, row.next) for row, _ in blocks]


def test_a_few_small_ones_wait() -> None:
    """Until they make a full one."""
    blocks = tail(10, 20, 30)
    assert plan(blocks) == ([], blocks)
    assert plan([]) == ([], [])


def test_what_makes_a_full_one_is_merged() -> None:
    """By records; what is over the limit is the next one."""
    blocks = tail(4000, 4000, 4000)
    ((old, new),), rest = plan(blocks)
    assert extents(old) == [(0, 4000), (4000, 8000), (8000, 12000)]
    assert extents(new) == [(0, 8000), (8000, 12000)]
    assert rest == new[-1:]


def test_what_makes_a_full_one_is_merged_by_bytes() -> None:
    """Of few large records as well."""
    blocks = tail(4, 4, 4, padding=100_000)
    ((_, new),), _ = plan(blocks)
    assert extents(new) == [(0, 8), (8, 12)]


def test_too_many_are_merged() -> None:
    """A reader of the newest records must not read hundreds of blocks."""
    blocks = tail(*[1] * merging.TAIL_BLOCKS)
    ((_, new),), rest = plan(blocks)
    assert extents(new) == extents(rest) == [(0, merging.TAIL_BLOCKS)]


def test_small_ones_before_a_large_one_are_merged() -> None:
    """Nothing more comes to them."""
    blocks = tail(5, 5, 5000, 5, 6000, 7)
    ((old, new),), rest = plan(blocks)
    assert extents(old) == [(0, 5), (5, 10)]
    assert extents(new) == [(0, 10)]
    assert extents(rest) == [(11015, 11022)]


def test_a_merged_row_speaks_of_all() -> None:
    """Its times, its topics and its size are those of what it holds, and its checksum is right."""
    blocks = tail(4000, 4000, 500)
    ((_, new),), _ = plan(blocks)
    row, block = new[0]
    parsed = Block.parse(block)
    assert (row.first, row.next, row.size_bytes) == (0, 8000, len(block))
    assert (row.earliest_us, row.latest_us) == (min(parsed.times), max(parsed.times))
    assert row.topics == b"/t/0\n/t/1\n/t/2"
    assert row.crc == row.expected_crc


@given(st.lists(st.integers(1, 20), max_size=20))
def test_nothing_is_lost(counts: list[int]) -> None:
    """Whatever is merged, the records stay, in order, and few small blocks are left to wait."""
    with small_blocks(pytest.MonkeyPatch()):
        blocks = tail(*counts)
        replaced, rest = plan(blocks)
        starts = {row.first: (row, block) for row, block in blocks}
        for old, new in replaced:
            for row, _ in old:
                del starts[row.first]
            starts |= {row.first: (row, block) for row, block in new}
            found = [record.body for _, block in new for record in Block.parse(block).records()]
            assert found == [record.body for _, block in old for record in Block.parse(block).records()]
        after = [row for row, _ in (starts[first] for first in sorted(starts))]
        assert all(one.next == following.first for one, following in pairwise(after))
        assert not after or (after[0].first, after[-1].next) == (0, sum(counts))
        assert len(rest) < merging.TAIL_BLOCKS
        assert all(is_small(row) for row, _ in rest)
        assert extents(rest) == [(row.first, row.next) for row in after[len(after) - len(rest) :]]
