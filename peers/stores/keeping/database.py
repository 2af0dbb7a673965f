"""`Database`: the file of one store, SQLite through apsw.

```
meta     name, epoch, number of the last change, whether the hub has closed the file, how many entries, checksum
entries  key, value, version, when it expires (ns since 1970), user, checksum
notes    name, value, checksum: what those who serve the store elsewhere must know after a restart
```

A transaction brings the entries from the state at one number to that at a later one, so that the file always holds what
the store was at some time. A hub that did not close the file may have told of changes that it no longer has: so it gets
a new epoch then, and whoever has copied the store copies it anew. That a process was killed alone loses nothing:
`is_certain` tells it from a machine that has stopped, by the id that the kernel gives itself when it starts.

SQLite notices damage to its own structure, and not to what it holds: that is what checksums and the number of entries
are for. A damaged file is refused as a whole, as nobody can tell what is missing in it. Only of the write-ahead log (of
a hub that was killed) what stands behind the damage is as if it had never been written.

Owner: one keeper; after `open` one thread at a time uses it. Invariant: no other process has the file open. Cost: about
4 µs an entry, and a sync of the disk a transaction.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812  an exception, named as one
from zlib import crc32

import apsw

from hub.errors import StorageError
from hub.stores.store import Kept
from peers.stores.keeping.unkept import Unkept

__all__ = ["FILE_MODE", "Database", "NoRoomError"]

FILE_MODE = 0o600
"""Permissions of the file: its owner alone."""

_APPLICATION_ID = 0x48554253
"""HUBS: SQLite's mark of whose file it is."""

_FORMAT = 2

_SCHEMA = """
CREATE TABLE meta (
    name TEXT NOT NULL, epoch INTEGER NOT NULL, number INTEGER NOT NULL, is_closed INTEGER NOT NULL,
    entries INTEGER NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE entries (
    key BLOB PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, expires_ns INTEGER, user TEXT,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
"""

_NOTES = "CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER) WITHOUT ROWID"
"""Files of before there were notes have no such table."""

_BOOT = "boot"
"""The note of what holds what was written until the file is closed: the kernel that runs, or the disk."""

_ON_DISK = b"disk"

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_CHECKPOINT_PAGES = 4_000
"""How long the write-ahead log becomes before it is brought into the file: 16 MiB."""

_NUMBERS = Struct("<Iqq")

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError)


class NoRoomError(StorageError):
    """There is no room for the file of a store."""


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
        self._name = name
        self._entries = 0
        self.epoch = self.number = 0
        """Of the store, as of the last transaction."""
        self.is_certain = True
        """Whether all that anybody was told of the store was in the file when it was opened."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        except (apsw.Error, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise NoRoomError(f"store {name!r}: {path}: the disk is full") from error
            raise StorageError(f"store {name!r}: {path}: {_cause(error, path)}") from error
        try:
            self._set_up(full_sync=full_sync)
            self._begin(first_epoch, _ON_DISK if full_sync else _boot_id())
        except BaseException as error:
            self._connection.close()
            if isinstance(error, _DAMAGE):
                raise self._damaged(str(error)) from error
            if isinstance(error, apsw.BusyError):
                raise StorageError(f"store {name!r}: {path} is in use by another process") from error
            if isinstance(error, apsw.FullError):
                raise NoRoomError(f"store {name!r}: {path}: the disk is full") from error
            if isinstance(error, apsw.Error):
                raise StorageError(f"store {name!r}: {path}: {error}") from error
            raise

    def _set_up(self, *, full_sync: bool) -> None:
        pragma = self._connection.pragma
        pragma("locking_mode", "EXCLUSIVE")
        pragma("journal_mode", "WAL")
        pragma("synchronous", "FULL" if full_sync else "NORMAL")
        pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)

    def _damaged(self, how: str) -> StorageError:
        text = f"{self.path} is damaged, or no file of a store ({how}); move it away, restore it, or name another"
        return StorageError(f"store {self._name!r}: {text}")

    def _begin(self, first_epoch: int, boot: bytes) -> None:
        """Make the tables where there are none; take epoch and number over, and note that the file is open."""
        connection, name = self._connection, self._name
        with connection:
            if not connection.pragma("application_id"):
                connection.execute(_SCHEMA)
                self.epoch = first_epoch
                self._note(0, 0, is_closed=True)
                connection.pragma("application_id", _APPLICATION_ID)
                connection.pragma("user_version", _FORMAT)
            if (connection.pragma("application_id"), connection.pragma("user_version")) != (_APPLICATION_ID, _FORMAT):
                raise StorageError(f"store {name!r}: {self.path} is no file of a store of this version; name another")
            row = connection.execute("SELECT name, epoch, number, is_closed, entries, checksum FROM meta").fetchone()
            if row is None or row[-1] != _checksum_of(row[:-1]):
                raise self._damaged("what it says of itself is wrong")
            held, epoch, self.number, is_closed, self._entries, _ = row
            if held != name:
                raise StorageError(f"store {name!r}: {self.path} holds another store, {held!r}; name another file")
            self.epoch = epoch if is_closed else max(epoch + 1, first_epoch)
            self._note(self.number, self._entries, is_closed=False)
            connection.execute(_NOTES)
            written = connection.execute("SELECT value FROM notes WHERE name = ?", (_BOOT,)).fetchone()
            self.is_certain = bool(is_closed) or (written is not None and written[0] in {_ON_DISK, boot or None})
            connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", _note_row(_BOOT, boot))

    def _note(self, number: int, entries: int, *, is_closed: bool) -> None:
        """Write what the file says of itself."""
        meta = (self._name, self.epoch, number, int(is_closed), entries)
        self._connection.execute("DELETE FROM meta")
        self._connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?)", (*meta, _checksum_of(meta)))

    def read(self) -> Iterator[Kept]:
        """Return all entries.

        Raises:
            StorageError: They cannot be read.
        """
        count = 0
        try:
            for key, value, version, expires_ns, user, checksum in self._connection.execute(
                "SELECT key, value, version, expires_ns, user, checksum FROM entries"
            ):
                try:
                    is_sound = checksum == _checksum(key, value, version, expires_ns, user)
                except (TypeError, AttributeError, StructError):  # something is of another type
                    is_sound = False
                if not is_sound:
                    raise self._damaged("an entry is not as it was written")
                count += 1
                yield Kept(key, value, version, expires_ns, user)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._damaged(str(error)) from error
        if count != self._entries:
            raise self._damaged(f"it holds {count} entries, and not {self._entries}")

    def notes(self) -> dict[str, bytes]:
        """Return all notes.

        Raises:
            StorageError: They cannot be read.
        """
        found: dict[str, bytes] = {}
        try:
            for name, value, checksum in self._connection.execute("SELECT name, value, checksum FROM notes"):
                if not isinstance(value, bytes) or _note_row(name, value)[-1] != checksum:
                    raise self._damaged("a note is not as it was written")
                found[name] = value
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._damaged(str(error)) from error
        found.pop(_BOOT, None)
        return found

    def write(self, unkept: Unkept) -> None:
        """Bring the file to the state behind these changes, in one transaction; nothing of it is there if that fails.

        Raises:
            apsw.Error: It cannot be written.
        """
        connection = self._connection
        rows = [
            (key, value, version, expires_ns, user, _checksum(key, value, version, expires_ns, user))
            for key, value, version, expires_ns, user in filter(None, unkept.rows.values())
        ]
        gone = [(key,) for key, row in unkept.rows.items() if row is None]
        notes = [_note_row(name, value) for name, value in unkept.notes.items() if value is not None]
        gone_notes = [(name,) for name, value in unkept.notes.items() if value is None]
        number, entries = (unkept.number, unkept.entries) if unkept.number else (self.number, self._entries)
        with connection:
            if unkept.is_cleared:
                connection.execute("DELETE FROM entries")
            connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
            connection.executemany("DELETE FROM entries WHERE key = ?", gone)
            connection.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", notes)
            connection.executemany("DELETE FROM notes WHERE name = ?", gone_notes)
            self._note(number, entries, is_closed=False)
        self.number, self._entries = number, entries

    def close(self, *, is_whole: bool) -> None:
        """Close the file.

        Args:
            is_whole: Whether all that anybody was told is in it.

        Raises:
            apsw.Error: It cannot be written.
        """
        try:
            if is_whole:
                self._note(self.number, self._entries, is_closed=True)
        finally:
            self._connection.close()


def _checksum(key: bytes, value: bytes, version: int, expires_ns: int | None, user: str | None) -> int:
    """Return the checksum of an entry."""
    numbers = _NUMBERS.pack(len(key), version, -1 if expires_ns is None else expires_ns)
    checksum = crc32(numbers, crc32(value, crc32(key)))
    return checksum if user is None else crc32(user.encode(), checksum)


def _note_row(name: str, value: bytes) -> tuple[str, bytes, int]:
    """Return the row of a note."""
    return name, value, crc32(value, crc32(name.encode()))


def _cause(error: Exception, path: str) -> str:
    """Say why a file cannot be opened, and what to do."""
    if isinstance(error, PermissionError):
        return "this account may not write there; choose a folder that it may write in"
    if isinstance(error, FileNotFoundError):
        return f"there is no folder {Path(path).parent}; make it first, writable for the hub"
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def _boot_id() -> bytes:
    """Return what tells the running kernel from the one before; empty where nobody can tell."""
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""


def _checksum_of(meta: tuple[object, ...]) -> int:
    """Return the checksum of what the file says of itself."""
    return crc32(repr(meta).encode())
