"""`InFile`: keeps a store in a file, with group commit: what comes while a transaction is written is the next one.

```
keep(changes) ─▶ Unkept ── a thread: one transaction ─▶ then(None), in their order
                             └─ failed ─▶ then(error); tried again every RETRY_S, with what came meanwhile
```

What cannot be written is not lost while the hub runs: it stays with the changes behind it, and reaches the file when
that can be written again. It is not taken back, as later commands have seen it: clients are told that it is unknown
whether it will be kept. So the file and the store do not part.

Owner: the event loop; the database is used by one thread, and by nobody else after `load`. Invariants: `then` is called
once for each `keep`, in their order, and without an error only when the changes survive that the process is killed
(with `full_sync`, that the machine loses power). Memory: what waits is bounded by what the store holds.

Not here: the file (`peers.stores.keeping.database`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import apsw
import structlog

from hub.errors import CloseCode, HubError, RejectedError
from hub.stores.change import Change
from hub.stores.store import Store
from peers.stores.keeper import NO_NOTES, Notes, Then
from peers.stores.keeping.database import Database
from peers.stores.keeping.unkept import Unkept

__all__ = ["RETRY_S", "InFile"]

RETRY_S: Final = 1.0
"""How long after a failure the file is tried again, seconds."""


class InFile:
    """Keeps one store. See `peers.stores.keeper.Keeper`.

    Args:
        path: Of the file.
        now_us: The time, µs since 1970.
        full_sync: See `Database`.
    """

    def __init__(self, path: str, now_us: Callable[[], int], *, full_sync: bool) -> None:
        self._path = path
        self._now_us = now_us
        self._full_sync = full_sync
        self._database: Database
        self._store: Store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        # What is not in the file and is not being written, and who waits for it.
        self._waiting = Unkept()
        self._thens: list[Then] = []
        # The transaction that goes on.
        self._writing: asyncio.Task[None] | None = None
        # The timer of the next try, after a failure.
        self._retry: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        self.failures_total = 0
        """How many transactions could not be written."""
        self.commits_total = 0
        self.notes: Mapping[str, bytes] = {}
        """As they were in the file when it was opened."""

    @property
    def is_certain(self) -> bool:
        """See `Keeper`."""
        return self._database.is_certain

    def open(self, name: str) -> tuple[int, int]:
        """Open the file; return epoch and number of the store.

        Raises:
            StorageError: It cannot be used.
        """
        self._database = Database(self._path, name, self._now_us(), full_sync=self._full_sync)
        return self._database.epoch, self._database.number

    def load(self, store: Store) -> None:
        """Put what was kept into a store.

        Raises:
            StorageError: It cannot be read.
        """
        self._store = store
        store.restore(self._database.read(), self._database.number)
        self.notes = self._database.notes()

    def keep(self, changes: Sequence[Change], then: Then, notes: Notes = NO_NOTES) -> None:
        """Keep changes with the next transaction; call `then` at once where there is nothing to be kept."""
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
        """Put back what could not be written; return the error for those who wait."""
        if not self.failures_total:
            self._log.error("a store cannot be written; it is tried again", path=self._path, reason=str(cause))
        self.failures_total += 1
        self._waiting = unkept.put_behind(self._waiting)
        text = f"changes are not written to {self._path} yet, which is tried again: {cause}"
        return RejectedError(CloseCode.TRY_AGAIN_LATER, text)

    async def close(self) -> None:
        """Write what waits, and close the file. It does no harm if it is closed already."""
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
