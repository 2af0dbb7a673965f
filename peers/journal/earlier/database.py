"""`Database`: a journal of the first format, one SQLite database, as far as it is needed to take it over.

```
meta      name, value                                    `id`: 16 random bytes and their checksum
blocks    first, next, earliest_us, latest_us, bytes,    one row a block, without its records
          topics, crc
data      first, block                                   the block itself (hub.journal.block), with its own checksum
writes    query, batch, first, next, crc                 the last batch that each writer has committed
```

Owner: one thread. Invariant: what is given was compared with its checksums. While it is open no hub can have it.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812 -- a class
from typing import Any

import apsw

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block
from hub.journal.segment.mark import Write
from peers.journal.damage import Damage

__all__ = ["Database"]

_APPLICATION_ID = 0x4855424A
"""ASCII "HUBJ", in the header of the file."""

_FORMAT = 1

_CRC_BYTES = 4

_WRITE_NUMBERS = Struct("<3q")

_BUSY_MS = 1_000
"""How long to wait for another that holds the file for a moment."""


class Database:
    """A journal of the first format, open for reading.

    Args:
        path: Path of the file.

    Raises:
        JournalCorruptError: It is none, or its id is damaged.
        JournalUnavailableError: There is none, a hub has it, or it cannot be read.
    """

    id: bytes

    def __init__(self, path: str) -> None:
        self.path = path
        if not Path(path).is_file():
            raise JournalUnavailableError(f"{path}: there is no such file")
        self._descriptor = _locked(path)
        try:
            with _translated(path):
                self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
                self._connection.set_busy_timeout(_BUSY_MS)
                self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        application, version = (self._connection.pragma(name) for name in ("application_id", "user_version"))
        if application != _APPLICATION_ID:
            raise JournalCorruptError(f"{self.path}: a database, but not a journal")
        if version != _FORMAT:
            raise JournalUnavailableError(f"{self.path}: a journal of format {version}, this reads format {_FORMAT}")
        sealed = self._connection.execute("SELECT value FROM meta WHERE name = 'id'").get
        if not isinstance(sealed, bytes) or zlib.crc32(sealed[:-_CRC_BYTES]).to_bytes(4, "little") != sealed[-4:]:
            raise JournalCorruptError(f"{self.path}: the id of the journal is damaged")
        self.id = sealed[:-_CRC_BYTES]

    def close(self) -> None:
        """Close the file, and leave it to others."""
        if self._descriptor >= 0:
            with suppress(AttributeError, apsw.Error):
                self._connection.close()  # first: closing another descriptor gives up SQLite's own locks
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def extent(self) -> tuple[int, int]:
        """The oldest offset, and the one behind the newest, as the index says.

        Raises:
            JournalCorruptError, JournalUnavailableError: It cannot be read.
        """
        with _translated(self.path):
            first, following = self._connection.execute("SELECT min(first), max(next) FROM blocks").get or (None, None)
        if first is None or following is None:
            return 0, 0
        return first, following

    def writes(self) -> list[Write]:
        """Return the last batch of each writer; the oldest commit first.

        Raises:
            JournalCorruptError: One is damaged.
            JournalUnavailableError: They cannot be read.
        """
        with _translated(self.path):
            rows = self._connection.execute(
                "SELECT query, batch, first, next, crc FROM writes ORDER BY next"
            ).fetchall()
        writes = []
        for row in rows:
            values: list[Any] = list(row)
            write, crc = Write(*values[:-1]), values[-1]
            try:
                expected = zlib.crc32(write.query.encode(), zlib.crc32(_WRITE_NUMBERS.pack(*write[1:])))
            except (StructError, AttributeError):
                expected = None
            if expected != crc:
                raise JournalCorruptError(f"{self.path}: what writers have committed is damaged")
            writes.append(write)
        return writes

    def blocks(self) -> Iterator[Block | Damage]:
        """Yield all blocks in order, and what is missing or damaged between them.

        Raises:
            JournalCorruptError, JournalUnavailableError: It cannot be read on.
        """
        position, end = self.extent
        with _translated(self.path):
            for first, data in self._connection.execute("SELECT first, block FROM data ORDER BY first"):
                block = _sound(first, data)
                if block is None or first < position:
                    continue
                if first > position:
                    yield Damage(position, first, "no sound block has them")
                yield block
                position = block.next
        if position < end:
            yield Damage(position, end, "no sound block has them")


def _sound(first: object, data: object) -> Block | None:
    """Return a block that is what stands there; None if it is damaged."""
    try:
        block = Block.parse(data if isinstance(data, bytes) else b"")
    except JournalCorruptError:
        return None
    return block if block.first == first and block.offsets is None else None


def _locked(path: str) -> int:
    """Take the file, as a hub of that version did; return what bears the lock.

    Raises:
        JournalUnavailableError: A hub has it, or it cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise JournalUnavailableError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise JournalUnavailableError(f"{path}: a hub has this journal open; stop it first") from error
    return descriptor


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turn what SQLite raises into errors that name the file.

    Raises:
        JournalCorruptError: It is no journal, or damaged.
        JournalUnavailableError: It cannot be read now.
    """
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError) as error:
        raise JournalCorruptError(f"{path}: not a journal, or damaged ({error})") from error
    except apsw.Error as error:
        raise JournalUnavailableError(f"{path}: {str(error).partition(': ')[2] or error}") from error
