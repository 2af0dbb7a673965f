"""`Mailbox`: a bounded queue from any thread to one event loop.

```
threads ─ put ─▶ [item, item, ...] ──one wake-up of the loop──▶ take() in the loop
```

Owner: threads and the loop share it, under its lock. Invariants: at most `limit_bytes` are held, except for a single
item that is larger; the loop is woken once for everything that came since it last took, because waking it is a system
call, and an append is none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from hub.errors import BusyError, ClosedError

__all__ = ["MAILBOX_BYTES", "Mailbox"]

MAILBOX_BYTES = 1024 * 1024
"""Default of the most bytes in a mailbox; a loop that is alive empties it within milliseconds."""

_ITEM_BYTES = 120
"""What an item costs beside its payload: a pair (56), a bytes object (33), its place in a list (8), rounded up."""

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Items on their way to a loop.

    Args:
        loop: The loop that takes the items.
        on_mail: Called in the loop when something has come; it must lead to `take`.
        limit_bytes: Most bytes that are held.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_mail: Callable[[], object], limit_bytes: int = MAILBOX_BYTES
    ) -> None:
        self._loop = loop
        self._on_mail = on_mail
        self._limit_bytes = limit_bytes
        self._items: list[T] = []
        """What was put in and not taken yet. If it is not empty, the loop has been woken."""
        self._size_bytes = 0
        """What the items count as, `_ITEM_BYTES` for each included."""
        self._waiting = 0
        """How many threads wait for room in `put`; while it is 0, `take` need not notify anybody."""
        self._error: Exception | None = None
        """What `close` was given; None while items are taken in."""
        self._room = threading.Condition(threading.Lock())
        """Holds the lock of all fields above; notified when there is room, and when the mailbox is closed."""

    def put_nowait(self, item: T, size_bytes: int) -> None:
        """Put an item in; any thread may call it.

        Raises:
            BusyError: There is no room.
            Exception: The one that `close` was given.
        """
        with self._room:
            if not self._has_room(size_bytes):
                raise BusyError(f"{self._size_bytes} bytes wait for the loop, the limit is {self._limit_bytes}")
            self._append(item, size_bytes)

    def put(self, item: T, size_bytes: int, timeout_s: float | None = None) -> None:
        """Put an item in, and wait for room. The loop's own thread must not call it, since it is the one to make room.

        Raises:
            BusyError: There was no room within `timeout_s`.
            Exception: The one that `close` was given.
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
        """Remove and return everything; only the loop calls it."""
        with self._room:
            items, self._items = self._items, []
            self._size_bytes = 0
            if self._waiting:
                self._room.notify_all()
            return items

    def close(self, error: Exception) -> None:
        """Take nothing more in: whoever puts, or waits for room, gets `error`. Items that are in can still be taken."""
        with self._room:
            self._error = error
            self._room.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        """Tell whether `put` need not wait: there is room, or an error to raise.

        An empty mailbox takes any item, as one that is over the limit could never be put in otherwise.
        """
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
