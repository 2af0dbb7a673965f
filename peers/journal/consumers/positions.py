"""`Positions`: the positions of named consumers, in an SQLite file in the folder of the journal.

Changes are collected for `SAVE_S` and written by a thread. A lost position only repeats messages, so only the creation
of a consumer waits for the disk. Failed writes are retried with the next save, and counted. The file has the id of the
journal; positions in another journal are dropped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import apsw
import msgspec
import structlog

from hub.consumers.consumer import Progress, Terms
from hub.errors import CloseCode, JournalCorruptError, JournalUnavailableError, RejectedError, StorageError
from peers.journal.folder import FILE_MODE, JournalFullError

SAVE_S = 0.05  # how long changes are collected: a crash repeats at most the messages acknowledged in this time
_APPLICATION_ID = 0x48554243  # HUBC: SQLite's mark of the application
_FORMAT = 1

_SCHEMA = """
CREATE TABLE meta (journal BLOB NOT NULL);
CREATE TABLE consumers (name TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
"""


_BUSY_MS = 1_000
_AT_ONCE = 1_000  # most pages of the write-ahead log: positions are small and written often
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, msgspec.DecodeError)

OnSaved = Callable[[RejectedError | None], object]  # called once a change is on the disk, or with the reason why not


class Kept(msgspec.Struct, frozen=True):
    """The stored state of a consumer."""

    terms: Terms
    progress: Progress
    heard_s: float | None = None  # when a query has last committed, s since 1970; None with members
    epoch: int = 0  # of the journal at the time of writing: this file and the journal reach the disk separately


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode


class Positions:
    """The file of positions, created with the first consumer. Raises `StorageError`."""

    def __init__(self, path: str, journal_id: bytes, *, epoch: int = 0, full_sync: bool) -> None:
        self._path = path
        self._epoch = epoch
        self._loop = asyncio.get_running_loop()
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        self.kept: dict[str, Kept] = {}  # the entries at the time of opening
        self._open = partial(_open, path, journal_id, full_sync=full_sync)
        self._connection: apsw.Connection | None = None
        if Path(path).exists():
            self._connection, self.kept = self._open()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="consumers")
        # Name → function that returns the state, or None to delete it; emptied by each save.
        self._waiting: dict[str, Callable[[], Kept] | None] = {}
        self._tickets: list[OnSaved] = []  # callbacks of the next save
        # The timer of the next save; None while nothing waits, and while a save goes on.
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._stopped = False
        self.failures_total = 0

    def put(self, name: str, kept: Callable[[], Kept] | None, on_saved: OnSaved | None = None) -> None:
        """Write the state of a consumer with the next save; None deletes it."""
        self._waiting[name] = kept
        if on_saved is not None:
            self._tickets.append(on_saved)
        self._plan()

    def _plan(self) -> None:
        if self._timer is None and self._saving is None and not self._stopped:
            self._timer = self._loop.call_later(SAVE_S, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._saving = self._loop.create_task(self._save(), name="save positions of consumers")

    async def _save(self) -> None:
        waiting, self._waiting = self._waiting, {}
        tickets, self._tickets = self._tickets, []
        error: RejectedError | None = None
        kept = {
            name: None if describe is None else msgspec.structs.replace(describe(), epoch=self._epoch)
            for name, describe in waiting.items()
        }
        try:
            await self._loop.run_in_executor(self._thread, self._write, kept)
        except (apsw.Error, OSError, StorageError) as cause:
            error = RejectedError(CloseCode.JOURNAL_FAILED, f"{self._path}: {cause}")
            self.failures_total += 1
            self._waiting = waiting | self._waiting
            self._log.error("positions of consumers cannot be written; it is tried again", reason=str(cause))
        self._saving = None
        for ticket in tickets:
            ticket(error)
        if self._waiting and error is None:
            self._plan()

    def _write(self, kept: dict[str, Kept | None]) -> None:
        if self._connection is None:
            self._connection, _ = self._open()
        _write(self._connection, kept)

    def retry(self) -> None:
        if self._waiting:
            self._plan()

    async def stop(self) -> None:
        if self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._begin()
        while self._saving is not None:
            await self._saving
            if self._timer is not None:  # something came meanwhile
                self._timer.cancel()
                self._begin()
        self._stopped = True
        if self._connection is not None:
            await self._loop.run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()


def _write(connection: apsw.Connection, waiting: dict[str, Kept | None]) -> None:
    with connection:
        for name, kept in waiting.items():
            if kept is None:
                connection.execute("DELETE FROM consumers WHERE name = ?", (name,))
            else:
                connection.execute("INSERT OR REPLACE INTO consumers VALUES (?, ?)", (name, _encode(kept)))


def _open(path: str, journal_id: bytes, *, full_sync: bool) -> tuple[apsw.Connection, dict[str, Kept]]:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    except (apsw.Error, OSError) as error:
        raise JournalUnavailableError(f"{path}: {error}") from error
    try:
        connection.set_busy_timeout(_BUSY_MS)
        connection.pragma("synchronous", "FULL" if full_sync else "NORMAL")
        connection.pragma("journal_mode", "WAL")
        connection.pragma("wal_autocheckpoint", _AT_ONCE)
        kept = _read(connection, path, journal_id)
    except BaseException as error:
        connection.close()
        if isinstance(error, _DAMAGE):
            text = f"{path}: damaged positions of consumers ({error}); move it away: all consumers then start again"
            raise JournalCorruptError(text) from error
        if isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE:
            raise JournalFullError(f"{path}: the disk is full") from error
        if isinstance(error, apsw.Error):
            raise JournalUnavailableError(f"{path}: {error}") from error
        raise
    return connection, kept


def _read(connection: apsw.Connection, path: str, journal_id: bytes) -> dict[str, Kept]:
    """Return all entries; create missing tables, and drop the entries of another journal."""
    kept: dict[str, Kept] = {}
    with connection:
        if not connection.pragma("application_id"):
            connection.execute(_SCHEMA)
            connection.execute("INSERT INTO meta VALUES (?)", (journal_id,))
            connection.pragma("application_id", _APPLICATION_ID)
            connection.pragma("user_version", _FORMAT)
        if (connection.pragma("application_id"), connection.pragma("user_version")) != (_APPLICATION_ID, _FORMAT):
            raise JournalCorruptError(f"{path}: not a file of consumer positions of this version; move it away")
        if connection.execute("SELECT journal FROM meta").get != journal_id:
            connection.execute("DELETE FROM consumers")
            connection.execute("UPDATE meta SET journal = ?", (journal_id,))
            structlog.get_logger("peers").warning("another journal than before: all consumers start again", path=path)
        for name, state in connection.execute("SELECT name, state FROM consumers"):
            kept[name] = _decode(state)
    return kept
