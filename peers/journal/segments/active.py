"""`Active`: the newest segment of a journal, to which commits are appended.

```
[header][mark] ... [block][mark] | [block][block]
                                 ▲               ▲
                        size_bytes               what was written ahead of its commit
```

Owner: the store, in one thread; `sync` may run in another meanwhile. Invariant: what stands behind `size_bytes` in the
file has not happened.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import NamedTuple

from hub.errors import JournalCorruptError, StorageError
from hub.journal.block import Block
from hub.journal.epoch import Epoch
from hub.journal.segment.entry import payload_of, read_head
from hub.journal.segment.footer import TRAILER_BYTES, Footer, Row, encode_footer, footer_place, parse_footer, row_of
from hub.journal.segment.header import HEADER_BYTES, Header
from hub.journal.segment.mark import Write
from hub.journal.segment.recovery import Recovered, recover
from peers.journal.segments.folder import identity, segment_path, stands
from peers.journal.segments.stored_block import stored_block
from peers.journal.whole_file import making, sync_data


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


_PARTS_PER_CALL = 512
"""Most parts that one system call is given; Linux takes 1024."""


class Active:
    """The newest segment, open for writing.

    Args:
        descriptor: Of the file.
        path: Its path.
        header: What it begins with.
        size_bytes: Where its last commit ends.
        rows: Its blocks.
    """

    def __init__(self, descriptor: int, path: str, header: Header, size_bytes: int, rows: list[Row]) -> None:
        self.path = path
        self.header = header
        self.size_bytes = size_bytes
        """Where the last commit ends."""
        self.end_bytes = size_bytes
        """Where the next entry goes."""
        self.synced_bytes = 0
        """How much of it is known to be on the disk."""
        self.rows = rows
        """The blocks that are committed."""
        self._descriptor = descriptor
        # Where the last commit ends, before a footer was written.
        self._unsealed_bytes = size_bytes
        # Device and inode, to see whether the file still stands where it stood.
        self._id = identity(os.fstat(descriptor))

    @classmethod
    def create(cls, folder: str, header: Header, entries: bytes) -> Active:
        """Make a segment: the file stands under its name once it is whole, and on the disk.

        Args:
            folder: Path of the journal.
            header: What it begins with.
            entries: What stands behind that.

        Raises:
            OSError: It cannot be written.
        """
        path = segment_path(folder, header.first)
        data = header.encode() + entries
        with making(path) as descriptor:
            _write_at(descriptor, [data], 0)
            active = cls(descriptor, path, header, len(data), [])
        active.synced_bytes = len(data)
        return active

    @classmethod
    def open(cls, folder: str, header: Header, size_bytes: int, rows: list[Row]) -> Active:
        """Open a segment that is there, and cut off what stands behind its last commit.

        Raises:
            OSError: It cannot be written.
        """
        path = segment_path(folder, header.first)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size > size_bytes:
                os.ftruncate(descriptor, size_bytes)
            active = cls(descriptor, path, header, size_bytes, rows)
            active.sync()
        except BaseException:
            os.close(descriptor)
            raise
        return active

    @property
    def is_in_place(self) -> bool:
        """Return whether the file still stands where it stood."""
        return stands(self.path, self._id)

    @property
    def next(self) -> int:
        """The offset behind the last record that is committed."""
        return self.rows[-1].next if self.rows else self.header.first

    def block(self, row: Row) -> Block:
        """Read a block, checked.

        Raises:
            StorageError: It is damaged, or of a later version.
            OSError: It cannot be read.
        """
        return stored_block(self._descriptor, row)

    def write(self, entries: list[bytes]) -> None:
        """Write entries behind what is there; they have not happened before `commit`.

        Raises:
            OSError: They cannot be written.
        """
        self.end_bytes += _write_at(self._descriptor, entries, self.end_bytes)

    def commit(self, rows: list[Row]) -> None:
        """Take what was written, which are these blocks and a mark, for committed."""
        self.size_bytes = self.end_bytes
        self.rows += rows

    def cut_back(self) -> None:
        """Take away what is not committed. Where even that fails, whoever opens the file next does it."""
        self.end_bytes = self.size_bytes
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.size_bytes)

    def sync(self) -> None:
        """Wait until all that is written so far is on the disk.

        Raises:
            OSError: It could not be written there, and may be lost.
        """
        end_bytes = self.end_bytes
        sync_data(self._descriptor)
        self.synced_bytes = max(self.synced_bytes, end_bytes)

    def seal(self, footer: Footer) -> None:
        """Write the footer, and wait until all of it is on the disk.

        Raises:
            OSError: It cannot be written; the segment is as it was.
        """
        try:
            self.write([encode_footer(footer, self.size_bytes, self.next)])
            self.sync()
        except OSError:
            self.cut_back()
            raise
        self._unsealed_bytes, self.size_bytes = self.size_bytes, self.end_bytes

    def unseal(self) -> None:
        """Take the footer away again: the segment goes on."""
        self.size_bytes = self._unsealed_bytes
        self.cut_back()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def _write_at(descriptor: int, parts: list[bytes], place: int) -> int:
    """Write parts at a place of a file; return how many bytes.

    Raises:
        OSError: Not all of them could be written.
    """
    total = 0
    left = [memoryview(part) for part in parts if part]
    while left:
        written = os.pwritev(descriptor, left[:_PARTS_PER_CALL], place + total)
        total += written
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]
    return total
