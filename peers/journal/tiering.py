"""`Tiering`: the hub's side of the process that copies its journal to a tier.

```
tick ─▶ started where there is none ─▶ process ─ how far it is ─▶ Tiering ─▶ store.copied   what may be deleted here
                                                                         └─▶ /metrics, log
```

A process that ends is started again, later each time, up to a minute. What is wrong is logged in one line when it
begins, and in one when it is over.

Owner: the event loop, which never waits for the tier. Invariant: no process is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog

from peers.journal.side_process import SideProcess
from peers.journal.tier.progress import Progress, Told

__all__ = ["TierStatistics", "Tiering", "check_tier"]

_FIRST_RESTART_S = 1.0

_LAST_RESTART_S = 60.0
"""How long it takes until a process that has ended is started again, at most, seconds."""

_MODULE = "peers.journal.tier.process"


class TierStatistics(NamedTuple):
    """How the tier is, as it was told last."""

    progress: Progress = Progress()
    """How far it is."""
    failures_total: int = 0
    """How often a step failed."""
    restarts_total: int = 0
    """How often the process ended by itself."""
    error: str = ""
    """What is wrong; empty if nothing is."""


def check_tier(address: str) -> None:
    """See to it that an address can be one, and that what a tier needs is installed.

    Raises:
        UsageError: It cannot be, or is not.
    """
    from peers.journal.tier.place import check_address, check_installed  # noqa: PLC0415 -- where there is a tier

    check_address(address)
    check_installed()


class Tiering:
    """The process that copies a journal.

    Args:
        order: What it is told: `peers.journal.tier.process.Order`, as JSON.
        address: Where the tier stands, for the log.
        on_copied: Called with an offset: everything before it is copied.
    """

    def __init__(self, order: bytes, address: str, on_copied: Callable[[int], None]) -> None:
        self._order = order
        self._address = address
        self._on_copied = on_copied
        self._loop = asyncio.get_running_loop()
        # The process that runs; None until the first tick, and after it has ended.
        self._copier: SideProcess | None = None
        # When the next one is started, s of the loop's clock, and how long the one after it waits.
        self._start_s = self._loop.time()
        self._restart_s = _FIRST_RESTART_S
        # What was told last.
        self._told = TierStatistics()
        # Failures of processes that have ended.
        self._failures_before = 0
        # True once `stop` was called: nothing is started any more.
        self._closed = False

    def tick(self, now_s: float) -> None:
        """Start the process if there is none and it is time to; it is to be called about once a second."""
        if self._copier is not None or self._closed or now_s < self._start_s:
            return
        try:
            self._copier = SideProcess(_MODULE, self._order, self._tell, self._ended)
        except OSError as error:
            self._fail(f"the process that copies could not be started ({error.strerror})")

    def statistics(self) -> TierStatistics:
        """Return how far the tier is."""
        return self._told

    async def stop(self) -> None:
        """End the process: what it has half copied is copied by the next one."""
        self._closed = True
        if self._copier is not None:
            await self._copier.end()

    def _tell(self, line: bytes) -> None:
        """Take note of what the process tells."""
        told = msgspec.json.decode(line, type=Told)
        failures = self._failures_before + told.failures
        self._note(self._told._replace(progress=told.progress, error=told.error, failures_total=failures))
        if not self._told.error:
            self._restart_s = _FIRST_RESTART_S
            self._on_copied(told.progress.next)

    def _ended(self, pid: int, code: int) -> None:
        self._copier = None
        self._failures_before = self._told.failures_total
        if not self._closed:
            self._note(self._told._replace(restarts_total=self._told.restarts_total + 1))
            self._fail(f"the process that copies has ended (process {pid}, code {code})")

    def _fail(self, error: str) -> None:
        self._start_s = self._loop.time() + self._restart_s
        self._restart_s = min(2 * self._restart_s, _LAST_RESTART_S)
        self._note(self._told._replace(error=error))

    def _note(self, told: TierStatistics) -> None:
        """Keep what was told; log what is wrong when it begins, and when it is over."""
        log = structlog.get_logger("peers")
        if told.error and not self._told.error:
            log.warning("the journal is not copied to its tier", tier=self._address, error=told.error)
        if self._told.error and not told.error:
            log.info("the journal is copied to its tier again", tier=self._address, copied=told.progress.next)
        self._told = told
