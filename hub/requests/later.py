"""`Later`: an answer of the hub itself that comes in a later turn, as its service works in steps or waits for files.

Owner: the service that has made it, which gives it a value or fails it, exactly once. Cost: one object an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hub.errors import HubError

__all__ = ["Later"]


class Later:
    """One answer."""

    __slots__ = ("_then", "error", "value")

    def __init__(self) -> None:
        self.value: Any = None
        """What was answered; without a meaning where there is an error."""
        self.error: HubError | None = None
        """Why there is no value."""
        self._then: Callable[[], object] | None = None
        """Called once it is there, in that turn. Whoever asks sets it before."""

    def then(self, act: Callable[[], object]) -> None:
        """Call `act` once there is an answer; at the earliest in the next turn, as the service has only begun."""
        self._then = act

    def give(self, value: Any) -> None:
        """Answer with a value."""
        self.value = value
        self._tell()

    def fail(self, error: HubError) -> None:
        """Answer with the reason why there is no value."""
        self.error = error
        self._tell()

    def _tell(self) -> None:
        if self._then is not None:
            act, self._then = self._then, None
            act()
