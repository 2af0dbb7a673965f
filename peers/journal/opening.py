"""Opening a journal's file for writing: who may, and how the database is set up.

```
lock(path)        PATH.lock, held for as long as the process lives: one hub has a journal, others are told so
create(path)      an empty database becomes a journal, in one transaction
connect(path)     a journal, in WAL mode: readers and the writer do not wait for each other
```

A process that is killed while it creates a journal leaves an empty database, which the next one makes a journal.
"""

from __future__ import annotations

import fcntl
import os
import secrets

import apsw

from hub.errors import JournalUnavailableError
from peers.journal.schema import APPLICATION_ID, FORMAT, PAGE_BYTES, SCHEMA, check_format, sealed_id

__all__ = ["connect", "create", "lock"]

_BUSY_MS = 1_000
"""How long to wait for who holds the file for a moment: a reader that comes first after a crash, a copy being made."""

_WAL_BYTES = 64 * 1024 * 1024
"""The write-ahead log is moved into the file when it has grown so far, and is cut back to it."""


def lock(path: str) -> int:
    """Take the journal for this process; return what holds it, to be closed.

    Raises:
        JournalUnavailableError: Another has it, or there is no such folder.
    """
    try:
        held = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise JournalUnavailableError(f"{path}: {error.strerror}; does its folder exist, and may we write?") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        raise JournalUnavailableError(f"{path}: another hub has this journal open; give each its own file") from error
    return held


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
