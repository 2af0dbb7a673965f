"""Parting: how a block is stored in parts by groups of topics.

```
block ─ split ─▶ order, [part, part, ...] ─ each stored by a codec ─▶ payload
```

Cost: 0.1 µs a record, and compressing it. Not here: which topics share a part (`peers.journal.segments.grouping`),
when blocks are stored so (`peers.journal.segments.laying`), how they are read (`peers.journal.segments.parted`).
"""

from __future__ import annotations

from hub.errors import JournalCorruptError
from hub.journal.block import Block, split, weave
from hub.journal.layout import CHECKED_FROM
from hub.journal.listing import listing
from hub.journal.segment.parts import encode_parts
from peers.journal.segments.codec import Codec, Compressor
from peers.journal.segments.commit import topic_counts
from peers.journal.segments.grouping import groups_of

__all__ = ["Parter"]


class Parter:
    """Stores blocks in parts, where topics are worth being told apart.

    Args:
        compressor: Says how parts are stored, and blocks that have none.
    """

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor

    def encoded(self, data: bytes, *, in_haste: bool = False) -> tuple[Codec, bytes]:
        """Return how a block is to be stored.

        Args:
            data: A dense one, whose topics are numbered as they come.
            in_haste: Whether there is no time to compress it.

        Raises:
            JournalCorruptError: The block is damaged, or another one.
        """
        block = Block.parse(data, verify=False)
        groups = groups_of(block, topic_counts(block))
        if groups is None:
            return self._compressor.encoded(data, in_haste=in_haste)
        order, parts = split(data, groups)
        if weave(order, list(parts), block.first) != data:
            raise JournalCorruptError("a block whose parts make another one")
        stored = [(order, b""), *((part, listing(Block.parse(part, verify=False).topics)) for part in parts)]
        checksum = int.from_bytes(data[4:CHECKED_FROM], "little")
        return Codec.PARTS, encode_parts(block.first, checksum, [self._part(*one, in_haste) for one in stored])

    def _part(self, data: bytes, listed: bytes, in_haste: bool) -> tuple[int, int, bytes, bytes]:  # noqa: FBT001
        codec, kept = self._compressor.encoded(data, in_haste=in_haste)
        return codec, len(data), listed, kept
