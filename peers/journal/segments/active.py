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

import os
from contextlib import suppress

from hub.journal.block import Block
from hub.journal.segment.footer import Footer, Row, encode_footer
from hub.journal.segment.header import Header
from peers.journal.segments.folder import identity, segment_path, stands
from peers.journal.segments.stored_block import stored_block
from peers.journal.whole_file import making, sync_data

__all__ = ["Active"]

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
