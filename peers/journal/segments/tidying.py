"""Tidying: what sealed segments become when their blocks are small.

```
[3][1][40][3] ... [7]  commits of single messages   ─merged─▶  [8192][8192][611]   one file, put in its place
```

Under load nothing is written twice. What trickles in by single messages is written again when its segment is sealed,
and once more whenever two neighbours of like size become one: a byte is written as often as the number of segments that
fill a joined one has digits, in base two.

Invariant: the new file is whole, and on the disk, before it stands in the place of the first of those that it is made
of; the others are deleted then. A crash in between leaves a segment that the one before it covers.

Owner: the store. Cost: reading from memory mostly, 20 ns a record, compressing, and one write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from hub.errors import JournalCorruptError
from hub.journal.block import merge
from hub.journal.segment.footer import Row, encode_footer
from hub.journal.segment.header import HEADER_BYTES
from hub.journal.segment.mark import Mark
from peers.journal.segments import commit as sizes
from peers.journal.segments.codec import Compressor
from peers.journal.segments.commit import Commit, footer_of
from peers.journal.segments.folder import segment_path
from peers.journal.segments.segment import Segment
from peers.journal.whole_file import making

__all__ = ["is_untidy", "join", "merged"]

_FULL_SHARE = 2
"""A block is small while it is less than one part in so many of a full one."""

_SMALL_LIMIT = 16
"""So many small blocks in a segment are worth no second writing."""


_TIDIED_BYTES = 32 * 1024 * 1024
"""A segment whose blocks are longer together, before they are compressed, is not written again: the writer waits for it
0.2 s, and what fills a segment so far comes in blocks of 80 records and more."""


def is_untidy(rows: Sequence[Row]) -> bool:
    """Return whether a segment with these blocks is worth being written again."""
    return sum(map(_is_small, rows)) > _SMALL_LIMIT and sum([row.size_bytes for row in rows]) <= _TIDIED_BYTES


def _is_small(row: Row) -> bool:
    records, size_bytes = row.next - row.first, row.size_bytes
    return records < sizes.BLOCK_RECORDS // _FULL_SHARE and size_bytes < sizes.BLOCK_BYTES // _FULL_SHARE


def join(folder: str, segments: Sequence[Segment], compressor: Compressor) -> int:
    """Make one segment of neighbours, and put it in the place of the first; return its length, bytes.

    Args:
        folder: Path of the journal.
        segments: Sealed ones, whole, that follow one another.
        compressor: Says how blocks are stored.

    Raises:
        StorageError: One is damaged; nothing has changed.
        OSError: It cannot be written; nothing has changed.
    """
    path = segment_path(folder, segments[0].first)
    with making(path) as descriptor, open(descriptor, "wb", closefd=False) as file:
        size_bytes = _write(file, segments, compressor)
    os.close(descriptor)
    return size_bytes


def _write(file: BinaryIO, segments: Sequence[Segment], compressor: Compressor) -> int:
    header, writes = segments[0].header, segments[-1].writes()
    if header is None:
        raise JournalCorruptError(segments[0].flaw)
    last = segments[-1].footer
    epochs = () if last is None else last.epochs
    file.write(header.encode())
    commit = Commit(HEADER_BYTES, header.first, compressor)
    for block in merged(segments, sizes.BLOCK_RECORDS, sizes.BLOCK_BYTES):
        commit.add_block(block)
        file.writelines(commit.take())
    # All of it is on the disk before the file has its name; so what is damaged in it was damaged later.
    commit.end(Mark(commit.place, tuple(writes), epochs=epochs))
    file.writelines(commit.take())
    footer = footer_of(commit.rows, commit.topics, writes, epochs)
    file.write(encode_footer(footer, commit.place, commit.next))
    return file.tell()


def merged(segments: Sequence[Segment], most_records: int, most_bytes: int) -> Iterator[bytes]:
    """Yield all blocks of segments, neighbours merged as long as they make no more than that.

    Args:
        segments: Whole ones, that follow one another.
        most_records: Of a block that is merged.
        most_bytes: The same of its length.

    Raises:
        StorageError: One is damaged, or sparse.
    """
    waiting: list[bytes] = []
    records = size = 0
    for segment in segments:
        for row in segment.rows:
            count = row.next - row.first
            if waiting and (records + count > most_records or size + row.size_bytes > most_bytes):
                yield merge(waiting)
                waiting, records, size = [], 0, 0
            waiting.append(bytes(segment.block(row).data))
            records += count
            size += row.size_bytes
    if waiting:
        yield merge(waiting)
