"""`Writer`: the one thread that writes the journal, with group commit.

```
event loop ─ submit(entry) ─▶ [entry, entry, ...] ─ every commit_s ─▶ Store ─▶ on_committed(...) ─▶ event loop
                                                                   └─ failed ──▶ on_failed(error, ...)
```

Entries are committed in their order, each once. A failure discards all entries of its epoch: their offsets are reused
in the next one. A writer's batch ends its transaction, so that overlapping batches do not block all others. It is a
thread and no process, since disk, zstd and checksum work without the interpreter's lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

import structlog

from hub.errors import JournalUnavailableError, StorageError
from hub.journal.segment import Write
from peers.journal.store import Store

if TYPE_CHECKING:
    from peers.journal.recorder import Recorder

GROUP_BYTES = 4 * 1024 * 1024
"""Most bytes of one commit: about 10 ms of work, so that a long queue does not make one commit long."""

HASTE_BYTES = 2 * GROUP_BYTES
"""More than this without a pause is not compressed: then the writer is behind, and must not hold back publishers."""

ENTRY_OVERHEAD_BYTES = 512  # charged for an entry beside its frames: its objects, its batch, and a waiting confirmation
_IDLE_S = 5.0  # how often retention runs while nothing is published, seconds


class Entry(NamedTuple):
    """Messages to be written, or the begin or end of a writer's batch."""

    epoch: int
    time_us: int
    frames: bytes
    opens: int = 0  # 1 at the begin of a batch, -1 at its end: everything between them is one commit
    write: Write | None = None  # at the end of a batch: stored with it

    @property
    def size_bytes(self) -> int:
        """Memory of the entry while it waits, bytes."""
        return len(self.frames) + ENTRY_OVERHEAD_BYTES


class Probe(NamedTuple):
    """Asks for a test whether the folder can be written again; from now on entries of this epoch are taken."""

    epoch: int


class Progress(NamedTuple):
    """The result of a commit, and the state of the journal with it."""

    first: int
    next: int  # everything before it is committed
    size_bytes: int
    entries: int = 0  # entries finished since the last time
    entries_bytes: int = 0  # their memory while they waited, bytes
    topics: Collection[str] | None = None  # topics committed since the last time; None if unknown


class Writer:
    """The thread that writes the journal, and alone uses its store; entries are collected for `commit_s`."""

    def __init__(self, store: Store, commit_s: float, clock_us: Callable[[], int] | None = None) -> None:
        self._store = store
        self._listener: Recorder
        self._commit_s = commit_s
        self._clock_us = clock_us or (lambda: time.time_ns() // 1000)
        self._entries: deque[Entry | Probe] = deque()  # the loop appends, the thread takes
        # Set by `submit` and `stop`; cleared by the thread before it reads the entries.
        self._something = threading.Event()
        self._stopping = False
        self._epoch = 0  # entries of other epochs are discarded; a probe begins the next one
        self._failed = False  # true from a failure until a probe has succeeded: entries are thrown away meanwhile
        # How many batches of writers are open in the transaction: it is committed once all have ended.
        self._open_batches = 0
        self._writes: list[Write] = []  # to be stored with the open transaction
        self._done = self._done_bytes = 0  # how many entries the open transaction holds, and how much memory they took
        self._went_on_bytes = 0  # how much was written since nothing waited
        self._thread = threading.Thread(target=self._run, name="journal writer", daemon=True)

    def start(self, listener: Recorder) -> None:
        self._listener = listener
        self._thread.start()

    def submit(self, entry: Entry | Probe) -> None:
        self._entries.append(entry)
        if not self._something.is_set():  # a lock less for most
            self._something.set()

    def stop(self) -> None:
        """Write the rest, end the thread and close the folder; wait for that."""
        self._stopping = True
        self._something.set()
        self._thread.join()
        self._store.close()

    # In the thread.

    def _run(self) -> None:
        began_s = 0.0
        while True:
            if not self._something.wait(_IDLE_S):
                self._attempt(self._retain)
                continue
            wait_s = began_s + self._commit_s - time.monotonic()
            if wait_s > 0 and not self._stopping:
                time.sleep(wait_s)
            began_s = time.monotonic()
            self._something.clear()
            self._went_on_bytes = 0
            while self._entries:
                self._attempt(self._turn)
            if self._stopping and not self._entries:
                return

    def _attempt(self, act: Callable[[], None]) -> None:
        """Use the store; after a failure, take nothing more until a probe."""
        try:
            act()
        except StorageError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 -- the thread must go on
            structlog.get_logger("peers").exception("a bug of the journal, please report it")
            self._fail(JournalUnavailableError(f"a bug of the journal, please report it: {error!r}"))

    def _fail(self, error: StorageError) -> None:
        self._store.roll_back()
        self._failed = True
        self._open_batches = self._done = self._done_bytes = 0
        self._writes = []
        self._listener.on_failed(error, self._store.next)

    def _turn(self) -> None:
        """Write one group, and commit it unless a batch is open; or carry out a probe."""
        if isinstance(self._entries[0], Probe):
            self._probe(self._entries.popleft().epoch)
            return
        group = self._take()
        if not self._failed and group[0].epoch == self._epoch:  # else the recorder has counted them
            self._write(group)

    def _take(self) -> list[Entry]:
        """Take entries of one epoch from the queue, as many as are written at once."""
        group: list[Entry] = []
        size = 0
        open_batches = self._open_batches
        entries = self._entries
        while entries and size < GROUP_BYTES:
            entry = entries[0]
            if isinstance(entry, Probe) or (group and entry.epoch != group[0].epoch):
                break
            entries.popleft()
            group.append(entry)
            size += entry.size_bytes
            open_batches += entry.opens
            if entry.opens < 0 and not open_batches:
                break
        return group

    def _write(self, group: list[Entry]) -> None:
        store = self._store
        self._open_batches += sum(entry.opens for entry in group)
        self._writes += [entry.write for entry in group if entry.write]
        self._done += len(group)
        size_bytes = sum(entry.size_bytes for entry in group)
        self._done_bytes += size_bytes
        in_haste = self._went_on_bytes >= HASTE_BYTES
        self._went_on_bytes += size_bytes
        parts = [(entry.time_us, entry.frames) for entry in group if entry.frames]
        if parts:
            store.add(parts, in_haste=in_haste)
        if self._open_batches:
            return
        topics = store.commit(self._writes, now_us=self._clock_us())
        progress = Progress(store.first, store.next, store.size_bytes, self._done, self._done_bytes, topics)
        self._done = self._done_bytes = 0
        self._writes = []
        self._listener.on_committed(progress)

    def _retain(self) -> None:
        if self._failed or self._open_batches:
            return
        store = self._store
        first = store.first
        store.commit(now_us=self._clock_us())
        if store.first != first:
            self._listener.on_committed(Progress(store.first, store.next, store.size_bytes, topics=()))

    def _probe(self, epoch: int) -> None:
        store = self._store
        store.probe()
        self._failed = False
        self._epoch = epoch
        self._listener.on_recovered(epoch, Progress(store.first, store.next, store.size_bytes), store.writes)
