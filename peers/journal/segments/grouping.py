"""Grouping: which topics of a block are stored together.

Topics that sort near one another share a group until it has `GROUP_BYTES`, and a part in `_GROUPS_LIMIT` of the block;
a topic with so much has one of its own. So a reader of one topic in 40 unpacks a part in 40, and no part is so small
that it does not compress.

No state. Cost: 1 µs a topic. Not here: how groups are stored (`peers.journal.segments.parting`).
"""

from __future__ import annotations

from collections.abc import Mapping

from hub.journal.block import Block

__all__ = ["GROUP_BYTES", "groups_of"]

GROUP_BYTES = 16 * 1024
"""Values after which a group is large enough, bytes: half of that compresses worse by a tenth."""

_GROUPS_LIMIT = 64
"""A group has this part of a block at least: unpacking a part costs 20 µs, however small it is."""


def groups_of(block: Block, counts: Mapping[str, int]) -> bytes | None:
    """Return the group of each topic of a block, one byte each; None if they are not worth being told apart.

    Args:
        block: Which.
        counts: How many records each of its topics has.
    """
    values_bytes = len(block.values)
    if len(block.topics) == 1 or values_bytes < 2 * GROUP_BYTES:
        return None
    enough = max(GROUP_BYTES, values_bytes // _GROUPS_LIMIT)
    groups = bytearray(len(block.topics))
    group, size = 0, 0.0
    for number in sorted(range(len(block.topics)), key=block.topics.__getitem__):
        # As if values were of one length: what each topic has of them would have to be counted record by record.
        more = counts[block.topics[number]] * values_bytes / block.count
        if size >= enough or (size and more >= enough):
            group, size = group + 1, 0.0
        groups[number] = group
        size += more
    return bytes(groups) if group else None
