"""`BlockingService`: a service of the blocking client, held by a thread.

Its function is called in the loop thread, as all that are given to the client. Owner: whoever has it; thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from peers.client.service import Service

__all__ = ["BlockingService"]

T = TypeVar("T")


class Call(Protocol):
    """Runs a coroutine in the loop thread, and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """Return what it returns."""


class BlockingService:
    """A function that answers requests; use it in a `with` statement.

    Args:
        call: Of the client.
        make: Makes the service.
    """

    def __init__(self, call: Call, make: Callable[[], Service]) -> None:
        self._call = call
        self._service = make()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def requests(self) -> int:
        """How many requests came."""
        return self._service.requests

    @property
    def failures(self) -> int:
        """How many of them were answered with a failure."""
        return self._service.failures

    def open(self) -> None:
        """Serve; raises as `Service.open`."""
        self._call(self._service.open())

    def close(self) -> None:
        """Serve no longer; what runs is waited for, as by `Service.close`."""
        self._call(self._service.close())
