"""`Mailbox`: a bounded queue from any thread to one event loop.

The loop is woken once for everything that came since it last took items: a wake-up is a system call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from hub.errors import BusyError, ClosedError

MAILBOX_BYTES = 1024 * 1024
"""Default limit; a running loop empties it within milliseconds."""

_ITEM_BYTES = 120
"""Cost of an item beside its payload: a pair (56), a bytes object (33), its place in a list (8), rounded up."""

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue of items for a loop.

    Args:
        on_mail: Called in the loop when something has come; it must lead to `take`.
        limit_bytes: Most bytes held, but for a single larger item.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_mail: Callable[[], object], limit_bytes: int = MAILBOX_BYTES
    ) -> None:
        self._loop = loop
        self._on_mail = on_mail
        self._limit_bytes = limit_bytes
        self._items: list[T] = []
        """Not empty: the loop was woken."""
        self._size_bytes = 0
        self._waiting = 0
        """Threads that wait in `put`."""
        self._error: Exception | None = None
        """The argument of `close`."""
        self._room = threading.Condition(threading.Lock())
        """Its lock guards all fields above."""

    def put_nowait(self, item: T, size_bytes: int) -> None:
        """Add an item; any thread may call it.

        Raises:
            BusyError: There is no room.
            Exception: The one that was given to `close`.
        """
        with self._room:
            if not self._has_room(size_bytes):
                raise BusyError(f"{self._size_bytes} bytes wait for the loop, the limit is {self._limit_bytes}")
            self._append(item, size_bytes)

    def put(self, item: T, size_bytes: int, timeout_s: float | None = None) -> None:
        """Add an item, and wait for room. Not for the loop's own thread, which makes room.

        Raises:
            BusyError: There was no room within `timeout_s`.
            Exception: The one that was given to `close`.
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
        """Remove and return everything; for the loop only."""
        with self._room:
            items, self._items = self._items, []
            self._size_bytes = 0
            if self._waiting:
                self._room.notify_all()
            return items

    def close(self, error: Exception) -> None:
        """Accept nothing more: `put` raises `error`. Items can still be taken."""
        with self._room:
            self._error = error
            self._room.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        """Return whether `put` need not wait. An empty mailbox accepts any item."""
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
