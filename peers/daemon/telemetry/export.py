"""`Export`: spans on their way from the event loop to a collector.

```
event loop: take ─▶ queue of `telemetry.queue_spans` ─▶ thread: up to 512 at a time, once a second ─▶ collector
              └─ full? counted                                     └─ failed? counted, and gone
```

Owner of the queue: the loop puts, the thread takes; a `deque` is made for that. Invariants: the loop never waits,
neither for the thread nor for the collector; what waits is bounded; each span is exported, failed, overflowed, or still
waits. A collector that is slow or away loses spans, and nothing else.

Cost: 1 µs a span in the loop. In the thread some 100 µs, which it shares with the loop as all of Python does: this is
why `telemetry.spans_per_s` is a limit. Not here: what is sent, and how often that is tried
(`peers.daemon.telemetry.otlp`).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Final, Protocol

import structlog

from hub.spans import Span
from peers.node.span_statistics import SpanStatistics

__all__ = ["BATCH_SPANS", "Collector", "Export"]

BATCH_SPANS: Final = 512
"""Most spans of one request: about 0.3 MiB."""

_EVERY_S: Final = 1.0
"""How long spans are collected for one request."""


class Collector(Protocol):
    """Where spans go."""

    def send(self, spans: list[Span]) -> bool:
        """Send spans, and return whether they were taken; waits."""

    def close(self) -> None:
        """End what `send` waits for; called in any thread."""


class Export:
    """The queue, and the thread.

    Args:
        collector: Where spans go.
        limit: How many may wait.
    """

    def __init__(self, collector: Collector, limit: int) -> None:
        self._collector = collector
        self._limit = limit
        self._queue: deque[Span] = deque()
        # The thread counts what has become of what it took, and the loop what it could not put into the queue.
        self._exported = self._failed = 0
        self._overflowed = 0
        # Spans that the thread has taken, and that are neither exported nor failed yet.
        self._sending = 0
        # Whether the collector took the last request; None before the first one.
        self._is_well: bool | None = None
        # Set once, by `stop`: the thread sends what waits, and ends.
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    def start(self) -> None:
        """Begin to send."""
        _LibraryLog.install()
        self._thread.start()

    def take(self, span: Span) -> None:
        """Take a span: to be sent, or, where there is no room, to be counted. Never waits."""
        if len(self._queue) >= self._limit:
            self._overflowed += 1
        else:
            self._queue.append(span)

    def statistics(self, skipped: int = 0) -> SpanStatistics:
        """Return what has become of spans."""
        waiting = len(self._queue) + self._sending
        return SpanStatistics(waiting, self._limit, self._exported, self._failed, self._overflowed, skipped)

    def stop(self, patience_s: float) -> None:
        """Send what waits, and end; for at most so long. It waits: for a thread that is no event loop's."""
        self._ending.set()
        self._thread.join(patience_s)
        self._collector.close()

    def _run(self) -> None:
        while not self._ending.wait(_EVERY_S):
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        """Send what waits now; what comes meanwhile is for the next second."""
        left = len(self._queue)
        while left > 0:
            spans = [self._queue.popleft() for _ in range(min(left, BATCH_SPANS))]
            left -= len(spans)
            self._sending = len(spans)
            is_taken = self._is_sent(spans)
            self._sending = 0
            if is_taken:
                self._exported += len(spans)
            else:
                self._failed += len(spans)
            self._tell(is_taken)

    def _is_sent(self, spans: list[Span]) -> bool:
        try:
            return self._collector.send(spans)
        except Exception as error:  # noqa: BLE001 -- whatever a library raises: spans are lost, and the hub goes on
            _LibraryLog.last = str(error) or type(error).__name__
            return False

    def _tell(self, is_taken: bool) -> None:  # noqa: FBT001 -- as it is
        """Log when the collector begins or ceases to take spans, and not each time."""
        if is_taken is self._is_well:
            return
        if not is_taken:
            self._log.warning("spans are lost: the collector does not take them", reason=_LibraryLog.last)
        elif self._is_well is not None:
            self._log.info("the collector takes spans again")
        self._is_well = is_taken


class _LibraryLog(logging.Handler):
    """Keeps the last thing that OpenTelemetry has logged, as the reason of a failure: it says it in no other way."""

    last = "it gave no reason"
    """Of the process, as the library's logger is."""

    @classmethod
    def install(cls) -> None:
        """Hear the library's lines from now on; once for the process."""
        logger = logging.getLogger("opentelemetry")
        if not any(isinstance(handler, cls) for handler in logger.handlers):
            logger.addHandler(cls(logging.WARNING))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        type(self).last = record.getMessage()
