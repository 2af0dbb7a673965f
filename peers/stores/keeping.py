"""Persistence of stores: `InMemory` keeps nothing, `InFile` keeps entries in SQLite.

```
Master ── keep(changes) ─▶ Unkept ── a thread: one transaction ─▶ then(None), in their order
                             └─ failed ─▶ then(error); tried again every RETRY_S, with newer changes
```

A change is published or confirmed once it is kept: then it survives a killed process (with `full_sync`, a power loss).
Failed writes are merged with later changes and written together, so that file and store do not diverge. The event loop
owns a keeper; one thread uses the database.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812
from types import MappingProxyType
from typing import Final, TypeAlias
from zlib import crc32

import apsw
import structlog

from hub.errors import CloseCode, HubError, RejectedError, StorageError
from hub.stores.command import Change, ChangeKind
from hub.stores.store import Kept, Store

Then: TypeAlias = Callable[[HubError | None], object]  # None once changes are kept; else the outcome is unknown yet
Notes: TypeAlias = Mapping[str, bytes | None]  # beside the entries, as numbers of Zeek's stores; None deletes
NO_NOTES: Final[Notes] = MappingProxyType({})


class InMemory:
    """Keeps nothing. The time, µs since 1970, is epoch and first number, so that versions are not reused."""

    failures_total = 0
    notes: dict[str, bytes] | None = None
    is_certain = False

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us

    def open(self, _: str) -> tuple[int, int]:
        now_us = self._now_us()
        return now_us, now_us

    def load(self, store: Store) -> None: ...

    def keep(self, _: Sequence[Change], then: Then, __: Notes = NO_NOTES) -> None:
        then(None)

    async def close(self) -> None: ...


Row: TypeAlias = tuple[bytes, bytes, int, int | None, str | None]  # key, value, version, expiry in ns, charged user


@dataclass(slots=True)
class Unkept:
    """Changes that are not in the file."""

    is_cleared: bool = False  # whether all rows of the file are deleted first
    rows: dict[bytes, Row | None] = field(default_factory=dict)  # key → entry; None deletes it
    number: int = 0  # of the last change; 0 without changes
    entries: int = 0
    notes: dict[str, bytes | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.number or self.notes)

    def add(self, changes: Iterable[Change], store: Store, notes: Notes = NO_NOTES) -> None:
        """Add changes that the store has applied."""
        if notes:
            self.notes.update(notes)
        rows, entries = self.rows, store.entries
        for change in changes:
            number, kind, key, value = change.number, change.kind, change.key, change.value
            if value is not None:
                entry = entries.get(key)
                rows[key] = (key, value, number, change.expires_ns, None if entry is None else entry[2])
            elif kind == ChangeKind.CLEAR:
                rows.clear()
                self.is_cleared = True
            else:
                rows[key] = None
            self.number = number
        self.entries = len(entries)

    def put_behind(self, later: Unkept) -> Unkept:
        """Return these changes followed by later ones."""
        notes = {**self.notes, **later.notes}
        if later.is_cleared:
            later.notes = notes
            return later
        self.notes = notes
        self.rows.update(later.rows)
        if later.number:
            self.number, self.entries = later.number, later.entries
        return self


FILE_MODE = 0o600
_APPLICATION_ID = 0x48554253  # HUBS
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
CREATE TABLE notes (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER) WITHOUT ROWID;
"""

_BOOT = "boot"  # the note that says where writes are before the file is closed: in this kernel's memory, or on disk
_ON_DISK = b"disk"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CHECKPOINT_PAGES = 4_000  # length of the write-ahead log before a checkpoint: 16 MiB
_NUMBERS = Struct("<Iqq")
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError)


class NoRoomError(StorageError):
    """There is no room for the file of a store."""


class Database:
    """The SQLite file of one store, created if missing.

    `first_epoch`, the epoch of a new file, is higher than that of any earlier store of this name. With `full_sync`
    writes survive a power loss. Raises `StorageError`; the text says why and what to do.
    """

    def __init__(self, path: str, name: str, first_epoch: int, *, full_sync: bool) -> None:
        self.path = path
        self._name = name
        self._entries = 0
        self.epoch = self.number = 0
        self.is_certain = True
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        except (apsw.Error, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise NoRoomError(f"store {name!r}: {path}: the disk is full") from error
            raise StorageError(f"store {name!r}: {path}: {_cause(error, path)}") from error
        try:
            pragma = self._connection.pragma
            pragma("locking_mode", "EXCLUSIVE")
            pragma("journal_mode", "WAL")
            pragma("synchronous", "FULL" if full_sync else "NORMAL")
            pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
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

    def _damaged(self, how: str) -> StorageError:
        text = f"{self.path} is damaged, or not a file of a store ({how}); move it away, restore it, or name another"
        return StorageError(f"store {self._name!r}: {text}")

    def _begin(self, first_epoch: int, boot: bytes) -> None:
        """Create missing tables, read epoch and number, and mark the file as open."""
        connection, name = self._connection, self._name
        with connection:
            if not connection.pragma("application_id"):
                connection.execute(_SCHEMA)
                self.epoch = first_epoch
                self._note(0, 0, is_closed=True)
                connection.pragma("application_id", _APPLICATION_ID)
                connection.pragma("user_version", _FORMAT)
            if (connection.pragma("application_id"), connection.pragma("user_version")) != (_APPLICATION_ID, _FORMAT):
                raise StorageError(
                    f"store {name!r}: {self.path} is not a file of a store of this version; name another"
                )
            row = connection.execute("SELECT name, epoch, number, is_closed, entries, checksum FROM meta").fetchone()
            if row is None or row[-1] != crc32(repr(row[:-1]).encode()):
                raise self._damaged("its header is wrong")
            held, epoch, self.number, is_closed, self._entries, _ = row
            if held != name:
                raise StorageError(f"store {name!r}: {self.path} holds another store, {held!r}; name another file")
            self.epoch = epoch if is_closed else max(epoch + 1, first_epoch)
            self._note(self.number, self._entries, is_closed=False)
            written = connection.execute("SELECT value FROM notes WHERE name = ?", (_BOOT,)).fetchone()
            self.is_certain = bool(is_closed) or (written is not None and written[0] in {_ON_DISK, boot or None})
            connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", _note_row(_BOOT, boot))

    def _note(self, number: int, entries: int, *, is_closed: bool) -> None:
        meta = (self._name, self.epoch, number, int(is_closed), entries)
        self._connection.execute("DELETE FROM meta")
        self._connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?)", (*meta, crc32(repr(meta).encode())))

    def read(self) -> Iterator[Kept]:
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
        """Close the file; `is_whole`: every published change is in it. Raises apsw.Error."""
        try:
            if is_whole:
                self._note(self.number, self._entries, is_closed=True)
        finally:
            self._connection.close()


def _checksum(key: bytes, value: bytes, version: int, expires_ns: int | None, user: str | None) -> int:
    numbers = _NUMBERS.pack(len(key), version, -1 if expires_ns is None else expires_ns)
    checksum = crc32(numbers, crc32(value, crc32(key)))
    return checksum if user is None else crc32(user.encode(), checksum)


def _note_row(name: str, value: bytes) -> tuple[str, bytes, int]:
    return name, value, crc32(value, crc32(name.encode()))


def _cause(error: Exception, path: str) -> str:
    if isinstance(error, PermissionError):
        return "this account may not write there; choose a folder that it may write in"
    if isinstance(error, FileNotFoundError):
        return f"there is no folder {Path(path).parent}; make it first, writable for the hub"
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def _boot_id() -> bytes:
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""


RETRY_S: Final = 1.0  # pause after a failure, seconds


class InFile:
    """Keeps one store in a file; see `Database`."""

    def __init__(self, path: str, now_us: Callable[[], int], *, full_sync: bool) -> None:
        self._path = path
        self._now_us = now_us
        self._full_sync = full_sync
        self._database: Database
        self._store: Store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._waiting = Unkept()  # neither in the file nor being written, and the callbacks
        self._thens: list[Then] = []
        self._writing: asyncio.Task[None] | None = None  # the transaction that goes on
        self._retry: asyncio.TimerHandle | None = None  # the timer of the next try, after a failure
        self._is_closed = False
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        self.failures_total = 0
        self.commits_total = 0
        self.notes: dict[str, bytes] = {}

    @property
    def is_certain(self) -> bool:
        """Whether every published change was in the store when it was opened."""
        return self._database.is_certain

    def open(self, name: str) -> tuple[int, int]:
        """Open; return epoch and number of the store. Raises `StorageError`."""
        self._database = Database(self._path, name, self._now_us(), full_sync=self._full_sync)
        return self._database.epoch, self._database.number

    def load(self, store: Store) -> None:
        self._store = store
        store.restore(self._database.read(), self._database.number)
        self.notes = self._database.notes()

    def keep(self, changes: Sequence[Change], then: Then, notes: Notes = NO_NOTES) -> None:
        """Keep changes and notes after all earlier ones, and call `then`; without any, only wait for those."""
        if changes or notes:
            self._waiting.add(changes, self._store, notes)
        elif not self._waiting and self._writing is None:
            then(None)
            return
        self._thens.append(then)
        if self._retry is None and self._writing is None:
            self._begin()

    def _begin(self) -> None:
        self._retry = None
        self._writing = asyncio.get_running_loop().create_task(self._write(), name=f"keep {self._path}")

    async def _write(self) -> None:
        unkept, self._waiting = self._waiting, Unkept()
        thens, self._thens = self._thens, []
        loop = asyncio.get_running_loop()
        error: HubError | None = None
        try:
            await loop.run_in_executor(self._thread, self._database.write, unkept)
            self.commits_total += 1
        except (apsw.Error, OSError) as cause:
            error = self._fail(unkept, cause)
        self._writing = None
        if error is not None and not self._is_closed:
            self._retry = loop.call_later(RETRY_S, self._begin)
        for then in thens:
            then(error)
        if self._writing is not None or self._retry is not None or self._is_closed:
            return
        if self._waiting:
            self._begin()
            return
        thens, self._thens = self._thens, []
        for then in thens:  # they have waited for this transaction alone
            then(None)

    def _fail(self, unkept: Unkept, cause: Exception) -> HubError:
        if not self.failures_total:
            self._log.error("a store cannot be written; it is tried again", path=self._path, reason=str(cause))
        self.failures_total += 1
        self._waiting = unkept.put_behind(self._waiting)
        text = f"changes are not written to {self._path} yet, which is tried again: {cause}"
        return RejectedError(CloseCode.TRY_AGAIN_LATER, text)

    async def close(self) -> None:
        if self._is_closed:
            return
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        while self._writing is not None:
            await self._writing
        self._is_closed = True
        if self._waiting:
            await self._write()
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, lambda: self._database.close(is_whole=not self._waiting))
        except apsw.Error as cause:
            self._log.error("the file of a store cannot be closed", path=self._path, reason=str(cause))
        self._thread.shutdown()


Keeper: TypeAlias = InMemory | InFile
