"""`Database`: the file of one store, SQLite through apsw.

```
meta     name, epoch, number of the last change, whether the hub has closed the file
entries  key, value, version, when it expires (ns since 1970), user
```

A transaction brings the entries from the state at one number to that at a later one, so that the file always holds what
the store was at some time. A hub that did not close the file may have told of changes that it no longer has: so it gets
a new epoch then, and whoever has copied the store copies it anew.

Owner: one keeper; after `open` one thread at a time uses it. Invariant: no other process has the file open. Cost: about
3 µs an entry, and a sync of the disk a transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import apsw

from hub.errors import StorageError
from hub.stores.store import Kept
from peers.stores.keeping.unkept import Unkept

__all__ = ["FILE_MODE", "Database"]

FILE_MODE = 0o600
"""Permissions of the file: its owner alone."""

_APPLICATION_ID = 0x48554253
"""HUBS: SQLite's mark of whose file it is."""

_FORMAT = 1

_SCHEMA = """
CREATE TABLE meta (name TEXT NOT NULL, epoch INTEGER NOT NULL, number INTEGER NOT NULL, is_closed INTEGER NOT NULL);
CREATE TABLE entries (
    key BLOB PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, expires_ns INTEGER, user TEXT
) WITHOUT ROWID;
"""

_CHECKPOINT_PAGES = 4_000
"""How long the write-ahead log becomes before it is brought into the file: 16 MiB."""

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError)


class Database:
    """The file of one store.

    Args:
        path: Of the file, which is made if there is none.
        name: Of the store.
        first_epoch: The epoch of a new file, higher than that of any store of this name before.
        full_sync: Whether what is written must survive that the machine loses power, and not only a killed process.

    Raises:
        StorageError: It cannot be used; the text says why and what to do.
    """

    def __init__(self, path: str, name: str, first_epoch: int, *, full_sync: bool) -> None:
        self.path = path
        self.epoch = self.number = 0
        """Of the store, as of the last transaction."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        except (apsw.Error, OSError) as error:
            raise StorageError(f"store {name!r}: {path}: {error}") from error
        try:
            self._set_up(full_sync=full_sync)
            self._begin(name, first_epoch)
        except BaseException as error:
            self._connection.close()
            if isinstance(error, _DAMAGE):
                text = (
                    f"store {name!r}: {path} is damaged, or no file of a store ({error}); move it away, or name another"
                )
                raise StorageError(text) from error
            if isinstance(error, apsw.BusyError):
                raise StorageError(f"store {name!r}: {path} is in use by another process") from error
            if isinstance(error, apsw.Error):
                raise StorageError(f"store {name!r}: {path}: {error}") from error
            raise

    def _set_up(self, *, full_sync: bool) -> None:
        pragma = self._connection.pragma
        pragma("locking_mode", "EXCLUSIVE")
        pragma("journal_mode", "WAL")
        pragma("synchronous", "FULL" if full_sync else "NORMAL")
        pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)

    def _begin(self, name: str, first_epoch: int) -> None:
        """Make the tables where there are none; take epoch and number over, and note that the file is open."""
        connection = self._connection
        with connection:
            if not connection.pragma("application_id"):
                connection.execute(_SCHEMA)
                connection.execute("INSERT INTO meta VALUES (?, ?, 0, 1)", (name, first_epoch))
                connection.pragma("application_id", _APPLICATION_ID)
                connection.pragma("user_version", _FORMAT)
            if (connection.pragma("application_id"), connection.pragma("user_version")) != (_APPLICATION_ID, _FORMAT):
                raise StorageError(f"store {name!r}: {self.path} is no file of a store of this version; name another")
            row = connection.execute("SELECT name, epoch, number, is_closed FROM meta").fetchone()
            if row is None or row[0] != name:
                held = "none" if row is None else repr(row[0])
                raise StorageError(f"store {name!r}: {self.path} holds another store, {held}; name another file")
            _, epoch, self.number, is_closed = row
            self.epoch = epoch if is_closed else max(epoch + 1, first_epoch)
            connection.execute("UPDATE meta SET epoch = ?, is_closed = 0", (self.epoch,))

    def read(self) -> Iterator[Kept]:
        """Return all entries.

        Raises:
            StorageError: They cannot be read.
        """
        try:
            for row in self._connection.execute("SELECT key, value, version, expires_ns, user FROM entries"):
                yield Kept(*row)
        except apsw.Error as error:
            raise StorageError(f"{self.path} is damaged ({error}); move it away, or restore it") from error

    def write(self, unkept: Unkept) -> None:
        """Bring the file to the state behind these changes, in one transaction; nothing of it is there if that fails.

        Raises:
            apsw.Error: It cannot be written.
        """
        connection = self._connection
        rows = [row for row in unkept.rows.values() if row is not None]
        gone = [(key,) for key, row in unkept.rows.items() if row is None]
        with connection:
            if unkept.is_cleared:
                connection.execute("DELETE FROM entries")
            connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)", rows)
            connection.executemany("DELETE FROM entries WHERE key = ?", gone)
            connection.execute("UPDATE meta SET number = ?", (unkept.number,))
        self.number = unkept.number

    def close(self, *, is_whole: bool) -> None:
        """Close the file.

        Args:
            is_whole: Whether all that anybody was told is in it.

        Raises:
            apsw.Error: It cannot be written.
        """
        try:
            if is_whole:
                self._connection.execute("UPDATE meta SET is_closed = 1")
        finally:
            self._connection.close()
