"""What stands in the file: one SQLite database, and what its errors mean.

```
meta      name, value                                    `id`: 16 random bytes, made with the file
blocks    first, next, earliest_us, latest_us, bytes,    one row a block, without its records: small, so that time,
          topics, crc                                    size and topics are searched without touching them
data      first, block                                   the block itself (hub.journal.block), with its own checksum
writes    query, batch, first, next                      the last batch that each writer has committed
```

Invariants: the blocks of a journal cover its offsets without gap or overlap; `crc` covers its row, so that a damaged
row cannot make a reader pass over records.

Owner of the state: the file. Not here: writing (`peers.journal.store`), reading (`peers.journal.view`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import NamedTuple

import apsw

from hub.errors import JournalCorruptError, JournalUnavailableError

__all__ = ["APPLICATION_ID", "FORMAT", "PAGE_BYTES", "SCHEMA", "BlockRow", "check_format", "translated"]

APPLICATION_ID = 0x4855424A
"""ASCII "HUBJ", in the header of the file, so that `file` and we can tell a journal from other databases."""

FORMAT = 1

PAGE_BYTES = 16 * 1024
"""Measured, blocks of 1 MiB: 490 MiB/s written, against 230 with pages of 4 KiB and 640 with 64 KiB, which make the
commit of a single message twice as dear."""

SCHEMA = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE blocks(
    first INTEGER PRIMARY KEY, next INTEGER NOT NULL, earliest_us INTEGER NOT NULL, latest_us INTEGER NOT NULL,
    bytes INTEGER NOT NULL, topics BLOB NOT NULL, crc INTEGER NOT NULL
);
CREATE INDEX blocks_by_time ON blocks(latest_us, first);
CREATE TABLE data(first INTEGER PRIMARY KEY, block BLOB NOT NULL);
CREATE TABLE writes(query TEXT PRIMARY KEY, batch INTEGER NOT NULL, first INTEGER NOT NULL, next INTEGER NOT NULL)
    WITHOUT ROWID;
"""

_NUMBERS = Struct("<5q")


class BlockRow(NamedTuple):
    """What is known of a block without reading it."""

    first: int
    next: int
    earliest_us: int
    latest_us: int
    size_bytes: int
    topics: bytes
    """See `hub.journal.listing`."""
    crc: int = 0

    @property
    def expected_crc(self) -> int:
        """What `crc` must be."""
        return zlib.crc32(self.topics, zlib.crc32(_NUMBERS.pack(*self[:5])))

    def sealed(self) -> BlockRow:
        """Return the row with its checksum."""
        return self._replace(crc=self.expected_crc)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn what SQLite raises into errors that say what to do.

    Raises:
        JournalCorruptError: The file is no journal, or damaged.
        JournalUnavailableError: It cannot be opened, read or written now.
    """
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise JournalCorruptError(f"{path}: not a journal, or damaged ({error}); see `hub journal verify`") from error
    except apsw.FullError as error:
        raise JournalUnavailableError(f"{path}: the disk is full") from error
    except apsw.Error as error:
        raise JournalUnavailableError(f"{path}: {_plain(error)}") from error


def _plain(error: apsw.Error) -> str:
    """SQLite's words, without the name of the class in front."""
    return str(error).partition(": ")[2] or str(error)


def check_format(connection: apsw.Connection, path: str) -> bytes:
    """Check that a database is a journal that this version reads; return its id.

    Raises:
        JournalCorruptError: It is none.
        JournalUnavailableError: It is one of another version.
    """
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    if application != APPLICATION_ID:
        raise JournalCorruptError(f"{path}: a database, but not a journal; choose another file")
    if version != FORMAT:
        raise JournalUnavailableError(f"{path}: a journal of format {version}, this version reads format {FORMAT}")
    row = connection.execute("SELECT value FROM meta WHERE name = 'id'").fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise JournalCorruptError(f"{path}: the journal has no id")
    return row[0]
