"""`StoreWatch`: the changes of a store, the present state first, by iterating.

Owner: one client. Bounds: `HELD_CHANGES` that were not read; then the store is not read on, and what is missed then is
asked for later: an entry that has changed several times meanwhile may be told once. The entries that the watch copies
are held as well.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Self

from hub.errors import ClosedError, UsageError
from hub.stores.command import Change
from peers.client.opened import Opened
from peers.client.stores.copying import Copying
from peers.client.stores.values import StoreChange, change_of
from peers.client.stream import MessageStream

__all__ = ["BATCH_CHANGES", "HELD_CHANGES", "StoreWatch"]

BATCH_CHANGES = 1_000
"""Most changes of a batch: a few milliseconds."""

HELD_CHANGES = 65_536
"""How many changes that were not read are held before the store is not read on."""


class StoreWatch(Opened):
    """Made by `Store.watch`; use it with `async with`, or call `open` and `close`."""

    def __init__(self, read: Callable[[list[Any]], Awaitable[Any]], stream: MessageStream, prefix: str) -> None:
        self._copying = Copying(read, stream, prefix, self._take, tells_loaded=True)
        # What was not read, each with `present` and `partial`.
        self._changes: deque[tuple[Change, bool, bool]] = deque()
        self._is_present = True
        self._some = asyncio.Event()
        self._is_open = False

    async def open(self) -> None:
        """Begin to watch.

        Raises:
            RequestError: The store is not there, or this client may not read it.
            HubError: The client has ended, or the store cannot be subscribed to.
        """
        if self._is_open:
            raise UsageError("a watch is opened once; watch again for another one")
        self._is_open = True
        await self._copying.open()
        self._is_present = False

    async def close(self) -> None:
        """End it; what was not read is thrown away."""
        self._changes.clear()
        await self._copying.close()

    def __aiter__(self) -> Self:
        if not self._is_open:
            raise UsageError("the watch is not open: write `async with store.watch() as changes:`")
        return self

    async def __anext__(self) -> StoreChange:
        """Return the next change.

        Cancellation: loses nothing.

        Raises:
            StopAsyncIteration: The watch, or the client, is closed.
            HubError: The client has ended with an error.
        """
        try:
            return await self.receive()
        except ClosedError:
            raise StopAsyncIteration from None

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the watch, or the client, is closed, and all is read."""
        return isinstance(self._copying.error, ClosedError) and not self._changes

    async def receive(self) -> StoreChange:
        """Return the next change, waiting for one.

        Cancellation: loses nothing.

        Raises:
            ClosedError: None will come.
            HubError: The client has ended with an error.
        """
        if not await self._some_there():
            raise ClosedError("the watch is closed")
        return self._take_first()

    async def batch(self) -> list[StoreChange]:
        """Return all changes that are there, waiting for one; an empty list once the watch, or the client, is closed.

        Cancellation: loses nothing.

        Raises:
            HubError: The client has ended with an error.
        """
        await self._some_there()
        return [self._take_first() for _ in range(min(len(self._changes), BATCH_CHANGES))]

    async def _some_there(self) -> bool:
        """Wait for a change; return False once there is none to come."""
        while not self._changes:
            error = self._copying.error
            if isinstance(error, ClosedError):
                return False
            if error is not None:
                raise error
            self._some.clear()
            await self._some.wait()
        return True

    def _take_first(self) -> StoreChange:
        change, present, partial = self._changes.popleft()
        if len(self._changes) < HELD_CHANGES // 2:
            self._copying.room.set()
        return change_of(change, present=present, partial=partial)

    def _take(self, changes: list[Change], are_loaded: bool) -> None:  # noqa: FBT001 -- a callback
        last = len(changes) - 1 if are_loaded else 0
        present = self._is_present
        self._changes.extend((change, present, place < last) for place, change in enumerate(changes))
        if len(self._changes) >= HELD_CHANGES:
            self._copying.room.clear()
        self._some.set()
