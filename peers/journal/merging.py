"""Small blocks become large ones: which are merged when, and with which row. Pure; no file.

```
commits:   [512][3][3][40][3] ... [7]  ──a full one together, or TAIL_BLOCKS of them──▶  [8000][600]
```

A block is small while it is less than half of a full one. Small blocks at the end wait for more; a run of them that a
large block follows is merged at once, since nothing more comes to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from hub.journal.block import merge
from hub.journal.listing import merged
from peers.journal.schema import BlockRow

__all__ = ["BLOCK_BYTES", "BLOCK_RECORDS", "TAIL_BLOCKS", "Plan", "Stored", "is_small", "plan"]

BLOCK_RECORDS = 8_192
"""Records of a full block. Reading is quickest with 1,000 to 16,000; see docs/performance.md."""

BLOCK_BYTES = 1024 * 1024
"""Values of a full block, bytes."""

TAIL_BLOCKS = 128
"""Most blocks of a tail. More would make readers of the newest records slow, fewer would merge more often."""

Stored = tuple[BlockRow, bytes]
"""A block with its row; the bytes are empty where the block is large, since nothing is merged with it."""


class Plan(NamedTuple):
    """What becomes of a tail."""

    replaced: list[tuple[list[Stored], list[Stored]]]
    """Blocks, and what takes their place."""
    rest: list[Stored]
    """The tail from then on: small blocks that wait for more."""


def is_small(row: BlockRow) -> bool:
    """Return whether a block is less than half of a full one."""
    return row.next - row.first < BLOCK_RECORDS // 2 and row.size_bytes < BLOCK_BYTES // 2


def plan(tail: Sequence[Stored]) -> Plan:
    """Say what is to be merged of the last blocks of a journal.

    Raises:
        JournalCorruptError: One of them is damaged.
    """
    start = len(tail)
    while start and is_small(tail[start - 1][0]):
        start -= 1
    rest = list(tail[start:])
    runs = [run for run in _small_runs(tail[:start]) if len(run) > 1]
    replaced = [(run, _joined(run)) for run in runs]
    if len(rest) > 1 and _is_full(rest):
        blocks = _joined(rest)
        replaced.append((rest, blocks))
        rest = blocks[-1:] if is_small(blocks[-1][0]) else []
    return Plan(replaced, rest)


def _is_full(small: Sequence[Stored]) -> bool:
    """Return whether small blocks make a full one together, or are too many."""
    return (
        len(small) >= TAIL_BLOCKS
        or sum(row.next - row.first for row, _ in small) >= BLOCK_RECORDS
        or sum(row.size_bytes for row, _ in small) >= BLOCK_BYTES
    )


def _small_runs(blocks: Sequence[Stored]) -> Iterator[list[Stored]]:
    """Yield each run of small blocks."""
    for small, run in groupby(blocks, key=lambda one: is_small(one[0])):
        if small:
            yield list(run)


def _joined(run: Sequence[Stored]) -> list[Stored]:
    """Merge neighbours, so that each block is as full as the limits allow."""
    joined: list[Stored] = []
    waiting: list[Stored] = []
    records = size = 0
    for row, block in run:
        if waiting and (records + row.next - row.first > BLOCK_RECORDS or size + row.size_bytes > BLOCK_BYTES):
            joined.append(_merged(waiting))
            waiting, records, size = [], 0, 0
        waiting.append((row, block))
        records += row.next - row.first
        size += row.size_bytes
    joined.append(_merged(waiting))
    return joined


def _merged(some: Sequence[Stored]) -> Stored:
    if len(some) == 1:
        return some[0]
    rows = [row for row, _ in some]
    block = merge([block for _, block in some])
    row = BlockRow(
        rows[0].first,
        rows[-1].next,
        min(row.earliest_us for row in rows),
        max(row.latest_us for row in rows),
        len(block),
        merged([row.topics for row in rows]),
    )
    return row.sealed(), block
