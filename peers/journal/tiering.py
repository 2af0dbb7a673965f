"""`Tiering`: the hub's side of the process that copies its journal to a tier.

```
tick ─▶ process is started ─ lines over a socket ─▶ Tiering ─▶ store.copied   these segments may be deleted here
                                                           └─▶ /metrics, log
```

A process that ends by itself is restarted, with growing pauses up to a minute. Failures are logged once at the begin
and once at the end. The event loop never waits for the tier, and no process is left behind.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec
import structlog

from peers.journal.tier.progress import Progress, Told

_FIRST_RESTART_S = 1.0

_LAST_RESTART_S = 60.0  # longest pause before the process is started again

_END_S = 2.0  # how long the process may take to end when the hub stops; then it is killed, which does no harm

_MODULE = "peers.journal.tier.copier"


class TierStatistics(NamedTuple):
    """The state of the tier, as last reported."""

    progress: Progress = Progress()
    failures_total: int = 0  # failed steps
    restarts_total: int = 0  # how often the process ended by itself
    error: str = ""  # empty while copying works


def check_tier(address: str) -> None:
    """Check the address of a tier, and that its packages are installed; raises `UsageError`."""
    from peers.journal.tier.place import check_address, check_installed  # noqa: PLC0415 -- where there is a tier

    check_address(address)
    check_installed()


class Tiering:
    """The process that copies a journal.

    Args:
        order: `peers.journal.tier.progress.Order`, as JSON.
        address: Of the tier, for the log.
        on_copied: Called with an offset: everything before it is copied.
    """

    def __init__(self, order: bytes, address: str, on_copied: Callable[[int], None]) -> None:
        self._order = order
        self._address = address
        self._on_copied = on_copied
        self._loop = asyncio.get_running_loop()
        # The process that runs, our end of its socket, and the task that reads it.
        self._copier: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._watching: asyncio.Task[None] | None = None
        # When the next one is started, s of the loop's clock, and how long the one after it waits.
        self._start_s = self._loop.time()
        self._restart_s = _FIRST_RESTART_S
        self._told = TierStatistics()
        self._failures_before = 0  # failures of processes that have ended
        self._closed = False

    def tick(self, now_s: float) -> None:
        """Start the process if there is none and it is time to; called about once a second."""
        if self._copier is not None or self._closed or now_s < self._start_s:
            return
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._copier = _start(self._order, theirs)
        except OSError as error:
            ours.close()
            self._fail(f"the process that copies could not be started ({error.strerror})")
            return
        ours.setblocking(False)
        self._connection = ours
        self._watching = self._loop.create_task(self._watch(self._copier, ours))

    def statistics(self) -> TierStatistics:
        return self._told

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
                self._tell(msgspec.json.decode(line, type=Told))
        writer.transport.abort()
        try:
            await self._loop.run_in_executor(None, process.wait, _END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await self._loop.run_in_executor(None, process.wait)
        self._copier = self._connection = None
        self._failures_before = self._told.failures_total
        if not self._closed:
            self._note(self._told._replace(restarts_total=self._told.restarts_total + 1))
            self._fail(f"the process that copies has ended (process {process.pid}, code {process.returncode})")

    def _tell(self, told: Told) -> None:
        failures = self._failures_before + told.failures
        self._note(self._told._replace(progress=told.progress, error=told.error, failures_total=failures))
        if not told.error:
            self._restart_s = _FIRST_RESTART_S
            self._on_copied(told.progress.next)

    def _fail(self, error: str) -> None:
        self._start_s = self._loop.time() + self._restart_s
        self._restart_s = min(2 * self._restart_s, _LAST_RESTART_S)
        self._note(self._told._replace(error=error))

    def _note(self, told: TierStatistics) -> None:
        """Keep the state; log when an error begins and ends."""
        log = structlog.get_logger("peers")
        if told.error and not self._told.error:
            log.warning("the journal is not copied to its tier", tier=self._address, error=told.error)
        if self._told.error and not told.error:
            log.info("the journal is copied to its tier again", tier=self._address, copied=told.progress.next)
        self._told = told


def _start(order: bytes, connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process that finds the same modules as this one; raises `OSError`."""
    descriptor = connection.fileno()
    command = [sys.executable, "-P", "-m", _MODULE, order.decode(), str(descriptor)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    # A process group of its own keeps Ctrl-C away. Not a session of its own: Linux (autogroup) lets niceness count
    # within a session alone.
    return subprocess.Popen(  # noqa: S603 -- our own program
        command, pass_fds=(descriptor,), stdin=subprocess.DEVNULL, process_group=0, env=variables
    )
