"""`Mailbox`: from any thread to one event loop, bounded.

```
threads ─ put ─▶ [item, item, ...] ──one wake-up of the loop──▶ take() in the loop
```

Owner: shared, the one thing here with a lock. Invariants: at most `limit_bytes` are held; the loop is woken once for
all that came since it last took, because waking it is a system call and an append is not.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from hub.errors import BusyError, ClosedError

__all__ = ["MAILBOX_BYTES", "Mailbox"]

MAILBOX_BYTES = 1024 * 1024
"""Default of most bytes on their way to a loop; a loop that is alive empties it within milliseconds."""

_ITEM_BYTES = 120
"""What an item costs beside its payload: a pair (56), a bytes object (33), its place in a list (8), rounded up."""

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Items on their way to a loop.

    Args:
        loop: Whose.
        on_mail: Called in the loop when something has come; it must lead to `take`.
        limit_bytes: Most that is held.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_mail: Callable[[], object], limit_bytes: int = MAILBOX_BYTES
    ) -> None:
        self._loop = loop
        self._on_mail = on_mail
        self._limit_bytes = limit_bytes
        self._items: list[T] = []
        self._size_bytes = 0
        self._waiting = 0
        self._error: Exception | None = None
        self._room = threading.Condition(threading.Lock())

    def put_nowait(self, item: T, size_bytes: int) -> None:
        """Put an item in; from any thread.

        Raises:
            BusyError: There is no room.
            Exception: What `close` was given.
        """
        with self._room:
            if not self._has_room(size_bytes):
                raise BusyError(f"{self._size_bytes} bytes wait for the loop, the limit is {self._limit_bytes}")
            self._append(item, size_bytes)

    def put(self, item: T, size_bytes: int, timeout_s: float | None = None) -> None:
        """Put an item in, waiting for room; not from the loop's own thread, which makes the room.

        Raises:
            BusyError: There was no room within `timeout_s`.
            Exception: What `close` was given.
        """
        with self._room:
            if not self._has_room(size_bytes):
                self._waiting += 1
                try:
                    found = self._room.wait_for(lambda: self._has_room(size_bytes), timeout_s)
                finally:
                    self._waiting -= 1
                if not found:
                    raise BusyError(f"no room in the mailbox within {timeout_s} s")
            self._append(item, size_bytes)

    def take(self) -> list[T]:
        """Remove and return everything; called in the loop."""
        with self._room:
            items, self._items = self._items, []
            self._size_bytes = 0
            if self._waiting:
                self._room.notify_all()
            return items

    def close(self, error: Exception) -> None:
        """Take nothing more: whoever puts, or waits for room, gets `error`. What is in can still be taken."""
        with self._room:
            self._error = error
            self._room.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        """Whether an item may be put in, or an error is to be raised. An item over the limit has the mailbox alone."""
        if self._error is not None:
            return True
        return not self._items or self._size_bytes + size_bytes + _ITEM_BYTES <= self._limit_bytes

    def _append(self, item: T, size_bytes: int) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)
        if not self._items:
            try:
                self._loop.call_soon_threadsafe(self._on_mail)
            except RuntimeError as error:
                raise ClosedError("the event loop is closed") from error
        self._items.append(item)
        self._size_bytes += size_bytes + _ITEM_BYTES
