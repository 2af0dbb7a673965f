"""What the newest segment of a journal holds, when it is opened for writing.

A segment that ends with a footer is sealed, and its footer says it all. Of one that does not, everything up to its last
commit is looked at (`hub.journal.segment.recovery`).
"""

from __future__ import annotations

import mmap
import os
from typing import NamedTuple

from hub.errors import JournalCorruptError, StorageError
from hub.journal.epoch import Epoch
from hub.journal.segment.entry import payload_of, read_head
from hub.journal.segment.footer import TRAILER_BYTES, Footer, Row, footer_place, parse_footer, row_of
from hub.journal.segment.header import HEADER_BYTES, Header
from hub.journal.segment.mark import Write
from hub.journal.segment.recovery import Recovered, recover
from peers.journal.segments.folder import segment_path

__all__ = ["Newest", "newest"]


class Newest(NamedTuple):
    """What the newest segment holds."""

    header: Header
    size_bytes: int
    """Where its last commit ends."""
    rows: list[Row]
    writes: list[Write]
    epochs: tuple[Epoch, ...]
    next: int
    is_final: bool
    """Whether nothing may be appended: it is sealed, or damaged in its midst."""


def newest(folder: str, first: int, before: int | None) -> Newest:
    """Look at a segment.

    Args:
        folder: Path of the journal.
        first: What its name says.
        before: The same of the segment before it; None if there is none.

    Raises:
        JournalCorruptError: Its header is damaged, or says something else than its name; or nobody knows what writers
            have committed.
        OSError: It cannot be read.
    """
    path = segment_path(folder, first)
    with open(path, "rb") as file:  # noqa: PTH123
        size = os.fstat(file.fileno()).st_size
        if size < HEADER_BYTES:
            raise JournalCorruptError(f"{path}: it is cut off; see `hub journal verify`")
        # It is unmapped with the last view of it: one may stand in the traceback of an error.
        view = memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ))
    try:
        header = Header.parse(view)
        if header.first != first:
            raise JournalCorruptError(f"it begins at {header.first}, its name says {first}")
        footer = _footer(view)
        if footer is not None:
            following = footer.rows[-1].next if footer.rows else first
            return Newest(header, size, footer.rows, footer.writes, footer.epochs, following, is_final=True)
        last = None if before is None else _footer_of(folder, before)
        found = recover(view, first, None if last is None else last.writes)
        if found.lacks_writes:
            raise JournalCorruptError("what writers have committed is damaged")
        if not found.epochs and last is not None:
            found = found._replace(epochs=last.epochs)
        return _recovered(view, header, found)
    except StorageError as error:
        raise type(error)(f"{path}: {error}; see `hub journal verify`") from error


def _footer_of(folder: str, first: int) -> Footer | None:
    """Return what a sealed segment says at its end, of which alone is read; None if it does not."""
    with open(segment_path(folder, first), "rb") as file:  # noqa: PTH123
        file.seek(max(0, file.seek(0, os.SEEK_END) - TRAILER_BYTES))
        place = footer_place(file.read())
        if place is None:
            return None
        file.seek(place)
        return _footer_at(place, memoryview(file.read()))


def _footer(view: memoryview) -> Footer | None:
    """Return the footer of a sealed segment; None if it has none that is sound."""
    place = footer_place(bytes(view[-TRAILER_BYTES:]))
    return None if place is None else _footer_at(place, view[place:])


def _footer_at(place: int, entry: memoryview) -> Footer | None:
    """Return the footer that an entry is; None if it is damaged."""
    try:
        head = read_head(entry)
        return parse_footer(payload_of(head, entry[head.payload_from :]), place)
    except JournalCorruptError:
        return None


def _recovered(view: memoryview, header: Header, found: Recovered) -> Newest:
    """Return what a segment without a footer holds."""
    is_damaged = False
    expected = header.first
    for place, head in found.blocks:
        is_damaged |= head.first != expected
        expected = head.next
        try:
            payload_of(head, view[place + head.payload_from :])
        except JournalCorruptError:
            is_damaged = True
    is_damaged |= expected != found.next
    rows = [row_of(*placed) for placed in found.blocks]
    return Newest(header, found.size_bytes, rows, found.writes, found.epochs, found.next, is_final=is_damaged)
