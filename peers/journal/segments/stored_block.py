"""A block as it stands in a segment, all of it or some parts: read, compared with its checksums, and decompressed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hub.errors import JournalCorruptError
from hub.journal.block import Block
from hub.journal.segment.entry import HEAD, Head, padded, payload_of, read_head
from hub.journal.segment.footer import Row
from hub.journal.segment.parts import DIRECTORY_HEAD_BYTES, Directory, directory_bytes, parse_directory
from hub.journal.wanted import Wanted
from peers.journal.segments.codec import Codec, decoded
from peers.journal.segments.parted import chosen_parts, woven

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
    return _whole(descriptor, row, *_look(descriptor, row))


def _whole(descriptor: int, row: Row, data: bytes, head: Head) -> Block:
    """Read a block whose beginning was read."""
    with _told_as_damage():
        if head.codec == Codec.PARTS:
            directory, read = _directory(descriptor, row, head, data)
            whole = woven(directory, list(range(len(directory.parts))), read)
        else:
            if len(data) < row.stored_bytes:
                data = os.pread(descriptor, row.stored_bytes, row.place)
            payload = bytes(payload_of(head, memoryview(data)[head.payload_from :]))
            whole = decoded(payload, head.codec, head.raw_bytes)
        block = Block.parse(whole, verify=False)
    if (block.first, block.next) != (row.first, row.next) or len(whole) != head.raw_bytes:
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
    data, head = _look(descriptor, row)
    if wanted.is_all or head.codec != Codec.PARTS:
        return _whole(descriptor, row, data, head)
    with _told_as_damage():
        directory, read = _directory(descriptor, row, head, data)
        chosen = chosen_parts(directory, wanted)
        if not chosen:
            return None
        block = Block.parse(woven(directory, chosen, read), verify=False)
    if not row.first <= block.first < block.next <= row.next:
        raise JournalCorruptError(f"other parts are there, with offsets {block.first} to {block.next - 1}")
    return block


@contextmanager
def _told_as_damage() -> Iterator[None]:
    try:
        yield
    except JournalCorruptError as error:
        raise JournalCorruptError(f"the block is damaged: {error.__cause__ or error}") from error


def _look(descriptor: int, row: Row) -> tuple[bytes, Head]:
    """Read the beginning of a block's entry, and its head.

    Raises:
        JournalCorruptError: There is no entry, or its head is damaged.
    """
    size = min(row.stored_bytes, max(_LOOK_BYTES, padded(HEAD.size + len(row.topics))))
    data = os.pread(descriptor, size, row.place)
    with _told_as_damage():
        return data, read_head(data)


def _directory(descriptor: int, row: Row, head: Head, data: bytes) -> tuple[Directory, Callable[[int, int], bytes]]:
    """Return the directory of a block in parts, and what reads from its payload.

    Raises:
        JournalCorruptError: It is damaged.
    """
    start = head.payload_from
    if len(data) < start + DIRECTORY_HEAD_BYTES:
        data = os.pread(descriptor, start + DIRECTORY_HEAD_BYTES, row.place)
    size = directory_bytes(memoryview(data)[start:])
    if start + size > row.stored_bytes:
        raise JournalCorruptError("the directory of a block is cut off")
    if len(data) < start + size:
        data = os.pread(descriptor, start + size, row.place)

    def read(place: int, size: int) -> bytes:
        return os.pread(descriptor, size, row.place + start + place)

    return parse_directory(memoryview(data)[start:], head.stored_bytes), read
