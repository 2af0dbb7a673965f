"""`BlockingService`: a function that answers requests in the loop thread, as a thread sees it.

Owner: whoever has it; any thread may call. What it shows and does is that of a `Service`.
"""

from __future__ import annotations

from peers.client.blocking.call import Call
from peers.client.blocking.opened import Opened
from peers.client.service import Service

__all__ = ["BlockingService"]


class BlockingService(Opened):
    """A function that answers requests, in the loop thread; use it in a `with` statement.

    Args:
        call: Runs coroutines in the loop thread of the client.
        service: Not open yet.
    """

    def __init__(self, call: Call, service: Service) -> None:
        self._call = call
        self._service = service

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of the topics that it serves."""
        return self._service.prefixes

    @property
    def requests(self) -> int:
        """How many requests came."""
        return self._service.requests

    @property
    def failures(self) -> int:
        """How many of them were answered with a failure."""
        return self._service.failures

    @property
    def running(self) -> int:
        """How many calls of an async function are awaited."""
        return self._service.running

    def open(self, *, timeout_s: float | None = None) -> None:
        """Serve; raises as `Service.open`, and `TimeoutError`: then it does not serve."""
        self._call(self._service.open(), timeout_s)

    def close(self, *, timeout_s: float | None = None) -> None:
        """Serve no longer; what runs is waited for, as by `Service.close`."""
        self._call(self._service.close(), timeout_s)
