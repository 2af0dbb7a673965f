"""Laying anew: what a sealed segment becomes, so that a reader of one topic in 40 passes over most of it.

```
[8192][8192][8192]...   as they came  ─▶  [65536: order, part, part, ...][65536: ...]...   one file, of the same records
```

Rows are as large as they may be, since each that a reader looks at costs it about as much as 3,000 records of its own;
each has its records in parts by topic (`peers.journal.segments.parted`). What was stored in haste is compressed.

Invariant: what stands in the new file was read back from the disk, and has the checksums of what was read of the old
one; it has another name until `take_place` gives it the old one's, which the owner of the folder does
(`peers.journal.store`): so nothing is put in the place of what has been deleted, or joined with others, meanwhile.

Cost: 1 µs a record of 100 bytes, and memory for two rows; of `take_place` three calls of the system. Not here: which
segments, and when (`peers.journal.regroup`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from hub.errors import JournalCorruptError
from hub.journal.block import Block, weave
from hub.journal.layout import RECORDS_LIMIT
from hub.journal.segment.footer import Row, encode_footer
from hub.journal.segment.header import HEADER_BYTES
from hub.journal.segment.mark import Mark
from peers.journal.segments.codec import Compressor
from peers.journal.segments.commit import Commit, footer_of
from peers.journal.segments.folder import segment_path, stands
from peers.journal.segments.parting import Parter
from peers.journal.segments.segment import Segment
from peers.journal.segments.tidying import merged
from peers.journal.whole_file import FILE_MODE, sync_data

__all__ = ["FORM", "LAID_BYTES", "LAID_RECORDS", "LEAST_BYTES", "Laid", "check_laid", "lay_anew", "take_place"]

FORM = 1
"""What the header of a segment says that is laid so."""

LAID_RECORDS = RECORDS_LIMIT
"""Records of a full row."""

LAID_BYTES = 4 * 1024 * 1024
"""Length of a full row: what an answer of the default size may hold, so that none of it is read twice."""

LEAST_BYTES = 1024 * 1024
"""A shorter segment stays as it is: all of it is read in 10 ms, and it may be joined with others yet."""

_SYNCED_BYTES = 8 * 1024 * 1024
"""How much is written before it is brought to the disk: more at once would have the hub's commits wait."""


class Laid(NamedTuple):
    """A segment that was laid anew, ready to take the place of the old one."""

    first: int
    """What both begin with."""
    old: tuple[int, int]
    """By what the old file is known (`peers.journal.segments.folder.identity`)."""
    path: str
    """Where the new one stands yet."""
    new: tuple[int, int]
    size_bytes: int
    """Of the new one."""


def take_place(folder: str, laid: Laid) -> bool:
    """Put a segment in the place of the old one, if that still stands there; else delete it. Return whether it has.

    To be called by the owner of the folder.
    """
    path = segment_path(folder, laid.first)
    try:
        if stands(path, laid.old) and stands(laid.path, laid.new):
            os.rename(laid.path, path)  # noqa: PTH104
            return True
        os.unlink(laid.path)  # noqa: PTH108
    except OSError:
        pass  # it stays as it is, and is deleted later
    return False


def lay_anew(segment: Segment, path: str, compressor: Compressor, breathe: Callable[[], None]) -> None:
    """Write the records of a segment to a new file, and bring it to the disk.

    Args:
        segment: A sealed one, whole.
        path: Of the new file.
        compressor: Says how parts are stored.
        breathe: Called behind each row; it may raise, to give up.

    Raises:
        StorageError: The segment is damaged, or cannot be laid so.
        OSError: The file cannot be written.
    """
    if segment.header is None or segment.footer is None or not segment.is_whole:
        raise JournalCorruptError(f"{segment.path}: {segment.flaw or 'blocks are missing'}; see `hub journal verify`")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "wb") as file:  # noqa: PTH123 -- with the permissions of a journal
        file.write(segment.header._replace(form=FORM).encode())
        commit = Commit(HEADER_BYTES, segment.first, Parter(compressor))
        synced_bytes = 0
        for data in merged([segment], LAID_RECORDS, LAID_BYTES):
            commit.add_block(_numbered_as_they_come(data))
            file.writelines(commit.take())
            if commit.place - synced_bytes >= _SYNCED_BYTES:
                synced_bytes = _sync(file)
            breathe()
        writes = segment.writes()
        commit.end(
            Mark(commit.place, tuple(writes), epochs=segment.footer.epochs)
        )  # all of it is on the disk before the file has its name
        file.writelines(commit.take())
        footer = footer_of(commit.rows, commit.topics, writes, segment.footer.epochs)
        if segment.footer.are_topics_whole and footer.topics != segment.footer.topics:
            raise JournalCorruptError(f"{segment.path}: its footer counts other records than it has")
        file.write(encode_footer(footer, commit.place, commit.next))
        _sync(file)
        if hasattr(os, "posix_fadvise"):  # not on macOS
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # what is read back comes from the disk


def _sync(file: BinaryIO) -> int:
    file.flush()
    sync_data(file.fileno())
    return file.tell()


def _numbered_as_they_come(data: bytes) -> bytes:
    """Return a block of the same records whose topics are numbered as they come: what its parts make again."""
    block = Block.parse(data, verify=False)
    numbered = weave(bytes(block.count), [data], block.first)
    if numbered != data and not _is_same(block, Block.parse(numbered, verify=False)):
        raise JournalCorruptError(f"a block of {block.count} records that became another one")
    return numbered


def _is_same(one: Block, other: Block) -> bool:
    """Return whether two blocks have the same records."""
    return (
        (one.count, one.first, one.offsets) == (other.count, other.first, other.offsets)
        and (one.times, one.value_ends, one.values) == (other.times, other.value_ends, other.values)
        and bytes(one.encodings or one.count) == bytes(other.encodings or one.count)
        and [one.topics[number] for number in one.topic_nos] == [other.topics[number] for number in other.topic_nos]
    )


def check_laid(segment: Segment, path: str, breathe: Callable[[], None]) -> None:
    """Read back what `lay_anew` has written.

    Args:
        segment: The old one.
        path: Of the new file.
        breathe: As there.

    Raises:
        StorageError: It is not what was to be written.
        OSError: It cannot be read.
    """
    laid = Segment("", segment.first, path)
    try:
        if laid.footer is None or not laid.is_whole or (laid.next, laid.writes()) != (segment.next, segment.writes()):
            raise JournalCorruptError(f"{path}: it was read back as something else: {laid.flaw}")
        for row in laid.rows:
            _check_block(laid, row)
            breathe()
    finally:
        laid.close()


def _check_block(laid: Segment, row: Row) -> None:
    Block.parse(laid.block(row).data)  # its checksum is the one that it had before it was taken apart
