"""`Opened`: what is open for as long as a `with` block lasts. No state.

Not here: what is open from the beginning (`Client`, `ServiceName`, `CallbackSubscription`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Opened"]


class Opened(ABC):
    """Opens as the block begins, and closes as it ends."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def open(self, *, timeout_s: float | None = None) -> None:
        """Open it, for those who do not write `with`."""

    @abstractmethod
    def close(self, *, timeout_s: float | None = None) -> None:
        """Close it."""
