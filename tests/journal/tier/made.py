"""What the tests of the tier share: numbered records as blocks."""

from __future__ import annotations

from hub.journal.block import Block, pack
from tests.journal.files import AT_US, numbered

JOURNAL = bytes(range(16))


def blocks(count: int, first: int = 0, *, topics: int = 3, padding: int = 0, each: int = 32) -> list[Block]:
    """Dense blocks of numbered records, a second apart."""
    made: list[Block] = []
    for begin in range(first, first + count, each):
        numbers = range(begin, min(begin + each, first + count))
        parts = [(AT_US + number * 1_000_000, numbered([number], topics=topics, padding=padding)) for number in numbers]
        made += [Block.parse(one) for one in pack(parts, begin)]
    return made
