"""The clock of a hub in the test's own loop, which the test may put forward instead of waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["ShiftedLoop"]


class ShiftedLoop:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ahead_s = 0.0

    def time(self) -> float:
        return self._loop.time() + self.ahead_s

    def call_at(self, when_s: float, act: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        return self._loop.call_at(when_s - self.ahead_s, act, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)
