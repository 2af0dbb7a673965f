"""`Call`: how the faces that programs hold in their threads reach what lives in the loop thread.

Not here: the thread itself, which provides such a function (`peers.client.blocking.loop_thread`).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

__all__ = ["Call"]

T = TypeVar("T")


class Call(Protocol):
    """A function that runs a coroutine in the loop thread, and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Return what the coroutine returns, or raise `TimeoutError` after `timeout_s`."""
