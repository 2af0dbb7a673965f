"""What stands in the file: one SQLite database, and what its errors mean.

```
meta      name, value                                    `id`: 16 random bytes, made with the file, and their checksum
blocks    first, next, earliest_us, latest_us, bytes,    one row a block, without its records: small, so that time,
          topics, crc                                    size and topics are searched without touching them
data      first, block                                   the block itself (hub.journal.block), with its own checksum
writes    query, batch, first, next, crc                 the last batch that each writer has committed
```

Invariants: the blocks of a journal cover its offsets without gap or overlap; `crc` covers its row, so that a damaged
row neither makes a reader pass over records nor a writer's batch count twice, or never.

Owner of the state: the file. Not here: writing (`peers.journal.store`), reading (`peers.journal.view`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import apsw

from hub.errors import JournalCorruptError, JournalUnavailableError

__all__ = [
    "APPLICATION_ID",
    "FORMAT",
    "PAGE_BYTES",
    "SCHEMA",
    "BlockRow",
    "Write",
    "check_format",
    "check_is_file",
    "check_version",
    "plain",
    "sealed_id",
    "stored_id",
    "translated",
]

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
CREATE INDEX blocks_by_time ON blocks(latest_us, first, bytes);
CREATE TABLE data(first INTEGER PRIMARY KEY, block BLOB NOT NULL);
CREATE TABLE writes(
    query TEXT PRIMARY KEY, batch INTEGER NOT NULL, first INTEGER NOT NULL, next INTEGER NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
"""
"""`bytes` stands in the index so that the size of a journal is summed up without a look at its listings of topics."""

_BLOCK_NUMBERS = Struct("<5q")
_WRITE_NUMBERS = Struct("<3q")
_CRC_BYTES = 4


class BlockRow(NamedTuple):
    """What is known of a block without reading it."""

    first: int
    next: int
    earliest_us: int
    latest_us: int
    size_bytes: int
    topics: bytes
    """The listing of its topics, see `hub.journal.listing`."""
    crc: int = 0

    @property
    def expected_crc(self) -> int:
        """The checksum that the row must have."""
        return zlib.crc32(self.topics, zlib.crc32(_BLOCK_NUMBERS.pack(*self[:5])))

    def sealed(self) -> BlockRow:
        """Return the row with its checksum."""
        return self._replace(crc=self.expected_crc)


class Write(NamedTuple):
    """The last batch that a writer has committed."""

    query: str
    """Behind the name of its user and a slash, if he had one."""
    batch: int
    first: int
    next: int

    @property
    def crc(self) -> int:
        """The checksum of the row."""
        return zlib.crc32(self.query.encode(), zlib.crc32(_WRITE_NUMBERS.pack(*self[1:])))


def check_is_file(path: str) -> None:
    """Check that there is a file, before SQLite says of all else that it cannot be opened.

    Raises:
        JournalUnavailableError: There is none, or it is a folder.
    """
    place = Path(path)
    if not place.exists():
        raise JournalUnavailableError(f"{path}: there is no such journal")
    if place.is_dir():
        raise JournalUnavailableError(f"{path}: that is a folder; a journal is a file")


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn what SQLite raises into errors that say what to do.

    Raises:
        JournalCorruptError: The file is no journal, or damaged.
        JournalUnavailableError: It cannot be opened, read or written now.
    """
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, apsw.ConstraintError, apsw.SQLError, UnicodeDecodeError) as error:
        raise JournalCorruptError(f"{path}: not a journal, or damaged ({error}); see `hub journal verify`") from error
    except apsw.FullError as error:
        raise JournalUnavailableError(f"{path}: the disk is full") from error
    except apsw.Error as error:
        raise JournalUnavailableError(f"{path}: {plain(error)}") from error


def plain(error: Exception) -> str:
    """Return SQLite's words, without the name of the class in front."""
    return str(error).partition(": ")[2] or str(error)


def sealed_id(journal_id: bytes) -> bytes:
    """Return the id of a journal as it stands in the file, with its checksum."""
    return journal_id + zlib.crc32(journal_id).to_bytes(_CRC_BYTES, "little")


def check_format(connection: apsw.Connection, path: str) -> bytes:
    """Check that a database is a journal that this version reads; return its id.

    Raises:
        JournalCorruptError: It is no journal, or damaged.
        JournalUnavailableError: It is one of another version.
    """
    check_version(connection, path)
    return stored_id(connection, path)


def check_version(connection: apsw.Connection, path: str) -> None:
    """Check that a database is a journal that this version reads.

    Raises:
        JournalCorruptError: It is no journal.
        JournalUnavailableError: It is one of another version.
    """
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    if application != APPLICATION_ID:
        raise JournalCorruptError(f"{path}: a database, but not a journal; choose another file")
    if version != FORMAT:
        raise JournalUnavailableError(f"{path}: a journal of format {version}, this version reads format {FORMAT}")


def stored_id(connection: apsw.Connection, path: str) -> bytes:
    """Return the id of a journal.

    Raises:
        JournalCorruptError: It is damaged.
    """
    sealed = connection.execute("SELECT value FROM meta WHERE name = 'id'").get
    if not isinstance(sealed, bytes) or sealed != sealed_id(sealed[:-_CRC_BYTES]):
        raise JournalCorruptError(f"{path}: the id of the journal is missing or damaged; see `hub journal verify`")
    return sealed[:-_CRC_BYTES]
