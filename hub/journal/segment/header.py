"""`Header`: the first 64 bytes of a segment: of which journal it is, and where it begins.

```
 0  4s   magic HJS1      all little-endian
 4  u32  crc32 of the bytes 8 to 64
 8  u32  version, 1
12  u32  0
16  16s  id of the journal
32  i64  first           offset of the first record
40  i64  made_us         when it was begun, µs since 1970 UTC
48  16s  0
```
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple
from zlib import crc32

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.layout import OFFSET_LIMIT

__all__ = ["HEADER_BYTES", "ID_BYTES", "Header"]

_HEADER = Struct("<4sIII16sqq16x")

HEADER_BYTES = _HEADER.size

ID_BYTES = 16

_MAGIC = b"HJS1"

_VERSION = 1

_CHECKED_FROM = 8


class Header(NamedTuple):
    """What a segment begins with."""

    id: bytes
    first: int
    made_us: int

    def encode(self) -> bytes:
        """Return it as bytes."""
        rest = _HEADER.pack(_MAGIC, 0, _VERSION, 0, *self)[_CHECKED_FROM:]
        return _MAGIC + crc32(rest).to_bytes(4, "little") + rest

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Header:
        """Read it.

        Raises:
            JournalCorruptError: It is none, or damaged.
            JournalUnavailableError: It is one of another version.
        """
        if len(data) < HEADER_BYTES or data[:4] != _MAGIC:
            raise JournalCorruptError("it does not begin as a segment of a journal does")
        _, crc, version, _, *fields = _HEADER.unpack_from(data)
        header = cls(*fields)
        if crc != crc32(data[_CHECKED_FROM:HEADER_BYTES]) or not 0 <= header.first < OFFSET_LIMIT:
            raise JournalCorruptError("the header of the segment is damaged")
        if version != _VERSION:
            raise JournalUnavailableError(f"a segment of format {version}, this version reads format {_VERSION}")
        return header
