"""`Opened`: what is open for as long as an `async with` block lasts. No state.

Not here: what closes without waiting (`MessageStream`), or is open from the beginning (`Client`, `ServiceName`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Opened"]


class Opened(ABC):
    """Opens as the block begins, and closes, waiting for that, as it ends."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None:
        """Open it, for those who do not write `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Close it."""
