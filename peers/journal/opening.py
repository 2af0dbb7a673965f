"""Opening a journal's file for writing: who may, and how the database is set up.

```
Lock.take(path)   the file itself is locked for as long as the process lives: one hub has a journal, others are told so
create(path)      an empty database becomes a journal, in one transaction
connect(path)     a journal, in WAL mode: readers and the writer do not wait for each other
```

The lock is on the file, not on a name beside it: a hard link or another spelling of the path leads to the same lock. It
also tells whether the file still stands where it stood. SQLite's own locks are of another kind (`fcntl`), which neither
see this one (`flock`) nor are seen by it; but closing any descriptor of a file gives up SQLite's locks of this process
on it, so nobody opens a journal here that this process has open already.

A file is made for its owner alone: it holds what everybody has said. SQLite gives the files beside it the same
permissions. A process that is killed while it creates a journal leaves an empty database, which the next one makes a
journal.
"""

from __future__ import annotations

import fcntl
import os
import secrets

import apsw

from hub.errors import JournalUnavailableError
from peers.journal.schema import APPLICATION_ID, FORMAT, PAGE_BYTES, SCHEMA, check_format, sealed_id

__all__ = ["FILE_MODE", "Lock", "connect", "create"]

FILE_MODE = 0o600
"""Permissions of a journal that is made here; one that is there keeps its own."""

_BUSY_MS = 1_000
"""How long to wait for another that holds the file for a moment, ms: a reader first after a crash, or a copy being
made."""

_WAL_BYTES = 64 * 1024 * 1024
"""The write-ahead log is moved into the file when it has grown so far, and is cut back to it."""

_FileId = tuple[int, int]
"""Device and inode."""

_held: set[_FileId] = set()
"""Journals that this process has open for writing."""


class Lock:
    """A journal's file, taken for this process until `release`.

    Args:
        descriptor: Of the file; the lock lasts as long as it is open.
        path: Path of the file.
    """

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self._file = _file_id(os.fstat(descriptor))
        _held.add(self._file)

    @classmethod
    def take(cls, path: str, *, make: bool = True) -> Lock:
        """Take a journal.

        Args:
            path: Path of the file.
            make: Whether an empty one is made where there is none.

        Raises:
            JournalUnavailableError: Another process has it, or there is no such file or folder.
        """
        in_use = f"{path}: another hub has this journal open; give each its own file"
        if _found(path) in _held:
            raise JournalUnavailableError(in_use)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), FILE_MODE)
        except IsADirectoryError as error:
            raise JournalUnavailableError(f"{path}: that is a folder; name a file in it") from error
        except OSError as error:
            text = f"{path}: {error.strerror}; does its folder exist, and may we write?"
            raise JournalUnavailableError(text) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise JournalUnavailableError(in_use) from error
        return cls(descriptor, path)

    @property
    def is_in_place(self) -> bool:
        """Return whether the file that is locked still stands where it stood."""
        return _found(self._path) == self._file

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the file that is locked stands somewhere else now."""
        return not self.is_in_place and os.fstat(self._descriptor).st_nlink > 0

    def check(self) -> None:
        """See to it that what is written can be found again; to be called while there is a connection.

        Raises:
            JournalUnavailableError: The file was deleted, moved or replaced, or its write-ahead log was deleted.
        """
        if not self.is_in_place or _found(f"{self._path}-wal") is None:
            raise self.gone()

    def gone(self) -> JournalUnavailableError:
        """Return what is to be said of a file that is not where it was."""
        text = f"{self._path}: deleted or moved while the hub had it open; put it back, or restart the hub"
        return JournalUnavailableError(text)

    def release(self) -> None:
        """Leave the file to others; to be called once all that this process has open of it is closed."""
        if self._descriptor >= 0:
            _held.discard(self._file)
            os.close(self._descriptor)
            self._descriptor = -1


def _file_id(status: os.stat_result) -> _FileId:
    return status.st_dev, status.st_ino


def _found(path: str) -> _FileId | None:
    """Return the file that stands there now; None if there is none that can be seen."""
    try:
        return _file_id(os.stat(path))  # noqa: PTH116 -- at every commit
    except OSError:
        return None


def create(path: str, *, full_sync: bool) -> apsw.Connection:
    """Open a journal; make it where there is none, or an empty database. Any other database stays as it is.

    Raises:
        JournalCorruptError, JournalUnavailableError: It is no journal that this version writes.
    """
    connection = _opened(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        is_empty = not connection.pragma("application_id") and not _tables(connection)
        if not is_empty:
            check_format(connection, path)
        _set_up(connection, path, full_sync=full_sync)
        if is_empty:
            _make(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _tables(connection: apsw.Connection) -> int:
    count: int = connection.execute("SELECT count(*) FROM sqlite_schema").get
    return count


def connect(path: str, *, full_sync: bool) -> apsw.Connection:
    """Open a database that is there."""
    connection = _opened(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        _set_up(connection, path, full_sync=full_sync)
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(path: str, flags: int) -> apsw.Connection:
    connection = apsw.Connection(path, flags=flags)
    connection.set_busy_timeout(_BUSY_MS)
    return connection


def _set_up(connection: apsw.Connection, path: str, *, full_sync: bool) -> None:
    """Set what holds for this connection.

    Raises:
        JournalUnavailableError: The file system has no shared memory for readers (a network's).
    """
    connection.pragma("synchronous", "FULL" if full_sync else "NORMAL")
    if not connection.pragma("page_count"):
        connection.pragma("page_size", PAGE_BYTES)
    if connection.pragma("journal_mode", "WAL") != "wal":
        raise JournalUnavailableError(f"{path}: no journal can be kept on this file system; choose a local disk")
    connection.pragma("wal_autocheckpoint", _WAL_BYTES // PAGE_BYTES)
    connection.pragma("journal_size_limit", _WAL_BYTES)


def _make(connection: apsw.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(SCHEMA)
    connection.execute("INSERT INTO meta VALUES ('id', ?)", (sealed_id(secrets.token_bytes(16)),))
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", FORMAT)
    connection.execute("COMMIT")
