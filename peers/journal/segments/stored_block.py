"""A block as it stands in a segment: read, compared with its checksums, and decompressed."""

from __future__ import annotations

import os

from hub.errors import JournalCorruptError
from hub.journal.block import Block
from hub.journal.segment.entry import payload_of, read_head
from hub.journal.segment.footer import Row
from peers.journal.segments.codec import decoded

__all__ = ["stored_block"]


def stored_block(descriptor: int, row: Row) -> Block:
    """Read a block, checked.

    Args:
        descriptor: Of the segment.
        row: What is known of the block.

    Raises:
        JournalCorruptError: It is not what was written. The text is the cause, without the place.
        JournalUnavailableError: It is stored in a way that this version does not know.
        OSError: It cannot be read.
    """
    data = os.pread(descriptor, row.stored_bytes, row.place)
    try:
        head = read_head(data)
        payload = bytes(payload_of(head, memoryview(data)[head.payload_from :]))
        whole = decoded(payload, head.codec, head.raw_bytes)
        block = Block.parse(whole, verify=False)
    except JournalCorruptError as error:
        raise JournalCorruptError(f"the block is damaged: {error.__cause__ or error}") from error
    if (block.first, block.next) != (row.first, row.next) or len(whole) != head.raw_bytes:
        raise JournalCorruptError(f"another block is there, with offsets {block.first} to {block.next - 1}")
    return block
