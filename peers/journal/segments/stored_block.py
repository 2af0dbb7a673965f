"""A block as it stands in a segment, all of it or some parts: read, compared with its checksums, and decompressed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hub.errors import JournalCorruptError
from hub.journal.block import Block
from hub.journal.segment.entry import HEAD, padded, payload_of, read_head
from hub.journal.segment.footer import Row
from hub.journal.segment.parts import DIRECTORY_HEAD_BYTES, Directory, directory_bytes, parse_directory
from hub.journal.wanted import Wanted
from peers.journal.segments.codec import Codec, decoded
from peers.journal.segments.parted import chosen_parts, woven, woven_some

__all__ = ["stored_block", "stored_parts"]

_LOOK_BYTES = 8_192
"""Read at once to find the head and the directory of a block: enough for 64 parts."""


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
    with _told_as_damage():
        head = read_head(data)
        payload = bytes(payload_of(head, memoryview(data)[head.payload_from :]))
        if head.codec == Codec.PARTS:
            whole = woven(payload)
            if len(whole) != head.raw_bytes:
                raise JournalCorruptError(f"parts that make {len(whole)} bytes and should make {head.raw_bytes}")
        else:
            whole = decoded(payload, head.codec, head.raw_bytes)
        block = Block.parse(whole, verify=False)
    if (block.first, block.next) != (row.first, row.next):
        raise JournalCorruptError(f"another block is there, with offsets {block.first} to {block.next - 1}")
    return block


def stored_parts(descriptor: int, row: Row, wanted: Wanted) -> Block | None:
    """Read those parts of a block that may hold a topic that is wanted, checked; all of it if it has no parts.

    Args:
        descriptor: Of the segment.
        row: What is known of the block.
        wanted: Which topics.

    Returns:
        A block of these parts; None if no part may hold such a topic.

    Raises:
        JournalCorruptError: It is not what was written. The text is the cause, without the place.
        JournalUnavailableError: It is stored in a way that this version does not know.
        OSError: It cannot be read.
    """
    if wanted.is_all or row.stored_bytes <= _LOOK_BYTES:
        return stored_block(descriptor, row)
    with _told_as_damage():
        place, directory = _directory(descriptor, row)
        if directory is not None:
            chosen = chosen_parts(directory, wanted)
            if not chosen:
                return None
            if len(chosen) < len(directory.parts):
                some = woven_some(directory, chosen, lambda at, size: os.pread(descriptor, size, place + at))
                block = Block.parse(some, verify=False)
                if not row.first <= block.first < block.next <= row.next:
                    text = f"other parts are there, with offsets {block.first} to {block.next - 1}"
                    raise JournalCorruptError(text)
                return block
    return stored_block(descriptor, row)


@contextmanager
def _told_as_damage() -> Iterator[None]:
    try:
        yield
    except JournalCorruptError as error:
        raise JournalCorruptError(f"the block is damaged: {error.__cause__ or error}") from error


def _directory(descriptor: int, row: Row) -> tuple[int, Directory | None]:
    """Return where the payload of a block stands in its segment, and the directory of its parts; None without parts."""
    data = os.pread(descriptor, _LOOK_BYTES, row.place)
    start = padded(HEAD.size + len(row.topics))
    head = read_head(data if len(data) >= start else os.pread(descriptor, start, row.place))
    if head.codec != Codec.PARTS:
        return 0, None
    start = head.payload_from
    if len(data) < start + DIRECTORY_HEAD_BYTES:
        data = os.pread(descriptor, start + DIRECTORY_HEAD_BYTES, row.place)
    size = directory_bytes(memoryview(data)[start:])
    if start + size > row.stored_bytes:
        raise JournalCorruptError("the directory of a block is cut off")
    if len(data) < start + size:
        data = os.pread(descriptor, start + size, row.place)
    return row.place + start, parse_directory(memoryview(data)[start:], head.stored_bytes)
