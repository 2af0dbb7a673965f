"""`Regrouping`: the hub's side of the process that lays sealed segments anew.

```
tick ─▶ started when a segment was sealed ─▶ process ─ a segment is laid ─▶ store.laid: it is given its place
                                                    └─ nothing left to do ─▶ it ends
                                          Regrouping ─▶ /metrics, log
```

A process that ends by anything but its work is started again, later each time, up to a minute. What is wrong is logged
in one line when it begins, and in one when it is over. Nothing waits for it: a journal whose segments are not laid anew
is read as before.

Owner: the event loop. Invariant: no process is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog

from peers.journal.segments.laying import Laid
from peers.journal.side_process import SideProcess

__all__ = ["RegroupStatistics", "Regrouping"]

_FIRST_RESTART_S = 1.0

_LAST_RESTART_S = 60.0
"""How long it takes until a process that has failed is started again, at most, seconds."""

_MODULE = "peers.journal.regroup.process"


class RegroupStatistics(NamedTuple):
    """What was laid anew since the hub was started."""

    laid_total: int = 0
    """Segments that were."""
    before_bytes_total: int = 0
    """What these took before."""
    after_bytes_total: int = 0
    skipped_total: int = 0
    """Segments that are damaged, and stay as they are; each process counts them anew."""
    failures_total: int = 0
    """How often it failed, and was tried again."""
    restarts_total: int = 0
    """How often the process ended by itself before its work was done."""
    error: str = ""
    """What is wrong; empty if nothing is."""


class _Told(NamedTuple):
    """What a process has told last: `peers.journal.regroup.process.Told`."""

    laid: int = 0
    before_bytes: int = 0
    after_bytes: int = 0
    skipped: int = 0
    failures: int = 0
    error: str = ""


class Regrouping:
    """The process that lays the segments of a journal anew.

    Args:
        order: What it is told: `peers.journal.regroup.process.Order`, as JSON.
        sealed: How many segments were sealed so far that are worth it.
        on_laid: Called with each segment that is to be given its place.
    """

    def __init__(self, order: bytes, sealed: Callable[[], int], on_laid: Callable[[Laid], None]) -> None:
        self._order = order
        self._sealed = sealed
        self._on_laid = on_laid
        self._loop = asyncio.get_running_loop()
        # The process that runs; None while there is nothing to do.
        self._process: SideProcess | None = None
        # How many segments were sealed when the last process was started that has done its work, and the one that runs.
        self._done_for = self._started_for = 0
        # When the next one may be started, s of the loop's clock, and how long the one after it waits.
        self._start_s = self._loop.time()
        self._restart_s = _FIRST_RESTART_S
        # What processes that have ended have counted, and what the one that runs has told.
        self._before = RegroupStatistics()
        self._told = _Told()
        # What is wrong; empty if nothing is.
        self._error = ""
        # The segment that was handed on last, so that it is handed on once.
        self._handed: Laid | None = None
        # True once `stop` was called: nothing is started any more.
        self._closed = False

    def tick(self, now_s: float) -> None:
        """Start the process if there is something to do and it is time to; it is to be called about once a second."""
        sealed = self._sealed()
        if self._process is not None or self._closed or sealed == self._done_for or now_s < self._start_s:
            return
        self._started_for = sealed
        try:
            self._process = SideProcess(_MODULE, self._order, self._tell, self._ended)
        except OSError as error:
            self._fail(f"the process that does it could not be started ({error.strerror})")

    def statistics(self) -> RegroupStatistics:
        """Return what was done."""
        before, told = self._before, self._told
        return RegroupStatistics(
            before.laid_total + told.laid,
            before.before_bytes_total + told.before_bytes,
            before.after_bytes_total + told.after_bytes,
            before.skipped_total + told.skipped,
            before.failures_total + told.failures,
            before.restarts_total,
            self._error,
        )

    async def stop(self) -> None:
        """End the process: what it has half done is done by the next one."""
        self._closed = True
        if self._process is not None:
            await self._process.end()

    def _tell(self, line: bytes) -> None:
        """Take note of what the process tells."""
        told = msgspec.json.decode(line, type=dict)
        offered = msgspec.convert(told.pop("offered"), Laid | None)
        self._told = _Told(**told)
        if offered is not None and offered != self._handed:
            self._handed = offered
            self._on_laid(offered)
        self._note(self._told.error)
        if not self._told.error:
            self._restart_s = _FIRST_RESTART_S

    def _ended(self, pid: int, code: int) -> None:
        self._process = None
        is_done = code == 0
        self._before = self.statistics()._replace(restarts_total=self._before.restarts_total + (not is_done), error="")
        self._told = _Told()
        if is_done:
            self._done_for = self._started_for
            self._note("")
        elif not self._closed:
            self._fail(f"the process that does it has ended (process {pid}, code {code})")

    def _fail(self, error: str) -> None:
        self._start_s = self._loop.time() + self._restart_s
        self._restart_s = min(2 * self._restart_s, _LAST_RESTART_S)
        self._note(error)

    def _note(self, error: str) -> None:
        """Keep what is wrong; log it when it begins, and when it is over."""
        log = structlog.get_logger("peers")
        if error and not self._error:
            log.warning("segments of the journal are not laid anew", error=error)
        if self._error and not error:
            log.info("segments of the journal are laid anew again")
        self._error = error
