"""`Tiering`: the hub's side of the process that copies its journal to a tier; and how far a tier is.

A process that ends by itself is restarted, with growing pauses up to a minute. Failures are logged once at the begin
and once at the end. The event loop never waits for the tier, and no process is left behind.

Segments are deleted once `tier.json` beside them says that they were copied. If the tier holds less than that, it is
another one (as when the wrong file system is mounted), and nothing is copied or deleted. Files before `first` were
deleted on purpose: a rebuilt manifest leaves them out.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec
import structlog

from hub.errors import JournalCorruptError, JournalUnavailableError
from peers.journal.folder import FILE_MODE, sync_data, translated
from peers.journal.readers import start_process

_FIRST_RESTART_S = 1.0
_LAST_RESTART_S = 60.0  # longest pause before the process is started again
_END_S = 2.0  # how long the process may take to end when the hub stops; then it is killed, which does no harm
TIER_FILE = "tier.json"
_LIMIT_BYTES = 64 * 1024


class Progress(NamedTuple):
    """Progress of a tier."""

    first: int = 0
    next: int = 0  # everything before it is, or was, in the tier
    files: int = 0
    size_bytes: int = 0
    missed: int = 0  # offsets deleted here before they were copied, as far as the manifest goes back


class Order(msgspec.Struct, frozen=True):
    """Arguments of the copying process; a limit of 0 is none."""

    path: str
    tier: str
    keep_bytes: int = 0
    keep_us: int = 0


class Told(msgspec.Struct, frozen=True):
    """A report of the copying process, as a line of JSON."""

    progress: Progress = Progress()  # the last one known
    failures: int = 0  # failed steps since the process was started
    error: str = ""


class Copied(msgspec.Struct, frozen=True):
    """How far a journal was copied, and where to."""

    tier: str
    journal: str
    next: int  # everything before it was copied
    first: int | None = None  # files that end here or before are not kept


class Ownership:
    """The right to copy a journal, until `release`: a lock on its `tier.json`; raises `JournalUnavailableError`."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}/{TIER_FILE}"
        with translated(self._path):
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise JournalUnavailableError(f"{path}: another process copies this journal to its tier") from error

    def read(self) -> Copied | None:
        """Return how far the journal was copied; None if it never was. Raises `JournalCorruptError` for damage."""
        with translated(self._path):
            data = os.pread(self._descriptor, _LIMIT_BYTES, 0)
        return _parsed(data, self._path)

    def write(self, copied: Copied) -> None:
        """Write and sync how far it was copied, before segments are deleted; raises `JournalUnavailableError`."""
        data = msgspec.json.encode(copied) + b"\n"
        with translated(self._path):
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
            sync_data(self._descriptor)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_copied(path: str) -> Copied | None:
    """Return how far a journal was copied, without a lock; None if it never was. Raises `StorageError`."""
    name = f"{path}/{TIER_FILE}"
    with translated(name):
        try:
            with open(name, "rb") as file:  # noqa: PTH123
                data = file.read(_LIMIT_BYTES)
        except FileNotFoundError:
            return None
    return _parsed(data, name)


def _parsed(data: bytes, name: str) -> Copied | None:
    try:
        return msgspec.json.decode(data, type=Copied) if data else None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise JournalCorruptError(f"{name}: damaged ({error}); delete it if the tier is the right one") from error


class TierStatistics(NamedTuple):
    """The state of the tier, as last reported."""

    progress: Progress = Progress()
    failures_total: int = 0  # failed steps
    restarts_total: int = 0  # how often the process ended by itself
    error: str = ""  # empty while copying works


class Tiering:
    """The process that copies a journal; `on_copied` gets the offset before which everything is copied."""

    def __init__(self, order: Order, on_copied: Callable[[int], None]) -> None:
        self._order = order
        self._on_copied = on_copied
        self._loop = asyncio.get_running_loop()
        # The running process, our end of its socket, and the task that reads it.
        self._copier: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._watching: asyncio.Task[None] | None = None
        # When the next one is started, s of the loop's clock, and how long the one after it waits.
        self._start_s = self._loop.time()
        self._restart_s = _FIRST_RESTART_S
        self.statistics = TierStatistics()
        self._failures_before = 0  # of processes that have ended
        self._closed = False

    def tick(self, now_s: float) -> None:
        """Start the process if there is none and it is time to; called about once a second."""
        if self._copier is not None or self._closed or now_s < self._start_s:
            return
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                order = msgspec.json.encode(self._order).decode()
                self._copier = start_process("peers.journal.tier.copier", order, connection=theirs)
        except OSError as error:
            ours.close()
            self._fail(f"the process that copies could not be started ({error.strerror})")
            return
        ours.setblocking(False)
        self._connection = ours
        self._watching = self._loop.create_task(self._watch(self._copier, ours))

    async def stop(self) -> None:
        """End the process; the next one repeats a file that is half copied."""
        self._closed = True
        if self._connection is not None and self._watching is not None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            await asyncio.wait([self._watching])

    async def _watch(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        with suppress(OSError, ValueError):  # ValueError: a line that is too long
            while (line := await reader.readline()).endswith(b"\n"):
                self._take(msgspec.json.decode(line, type=Told))
        writer.transport.abort()
        try:
            await self._loop.run_in_executor(None, process.wait, _END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await self._loop.run_in_executor(None, process.wait)
        self._copier = self._connection = None
        self._failures_before = self.statistics.failures_total
        if not self._closed:
            self._note(self.statistics._replace(restarts_total=self.statistics.restarts_total + 1))
            self._fail(f"the process that copies has ended (process {process.pid}, code {process.returncode})")

    def _take(self, told: Told) -> None:
        failures = self._failures_before + told.failures
        self._note(self.statistics._replace(progress=told.progress, error=told.error, failures_total=failures))
        if not told.error:
            self._restart_s = _FIRST_RESTART_S
            self._on_copied(told.progress.next)

    def _fail(self, error: str) -> None:
        self._start_s = self._loop.time() + self._restart_s
        self._restart_s = min(2 * self._restart_s, _LAST_RESTART_S)
        self._note(self.statistics._replace(error=error))

    def _note(self, now: TierStatistics) -> None:
        log, tier, before = structlog.get_logger("peers"), self._order.tier, self.statistics
        if now.error and not before.error:
            log.warning("the journal is not copied to its tier", tier=tier, error=now.error)
        if before.error and not now.error:
            log.info("the journal is copied to its tier again", tier=tier, copied=now.progress.next)
        self.statistics = now
