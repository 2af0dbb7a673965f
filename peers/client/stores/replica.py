"""`StoreReplica`: a copy of a store in this process, which is read without asking anybody.

Owner: one client. Cost: about 1 µs a read, and the memory of all entries. Not here: how it stays equal to the store
(`copying`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Self

from hub.errors import ClosedError, UsageError
from hub.stores.command import Change
from peers.client.opened import Opened
from peers.client.stores.copying import Copying
from peers.client.stores.values import value_of
from peers.client.stream import MessageStream
from peers.client.values import encode_value
from peers.stores.operations import canonical_form

__all__ = ["StoreReplica"]

_SECOND_NS = 1_000_000_000


class StoreReplica(Opened):
    """Made by `Store.replica`; use it with `async with`, or call `open` and `close`."""

    def __init__(self, read: Callable[[list[Any]], Awaitable[Any]], stream: MessageStream) -> None:
        self._copying = Copying(read, stream, "", self._ignore, tells_loaded=False)
        self._replica = self._copying.replica
        self._is_open = False

    async def open(self) -> None:
        """Copy the store, and wait until that is done.

        Raises:
            RequestError: The store is not there, or this client may not read it.
            HubError: The client has ended, or the store cannot be subscribed to.
        """
        if self._is_open:
            raise UsageError("a replica is opened once; make another one")
        self._is_open = True
        await self._copying.open()

    async def close(self) -> None:
        """Copy no more. What is there can still be read; it grows old."""
        await self._copying.close()

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key as it is in this copy, `default` if there is none."""
        entry = self._replica.entries.get(canonical_form(encode_value(key)))
        return default if entry is None else value_of(entry[0])

    def version(self, key: Any) -> int:
        """Return the version of a key's entry; 0 if there is none."""
        entry = self._replica.entries.get(canonical_form(encode_value(key)))
        return 0 if entry is None else entry[1]

    def __contains__(self, key: Any) -> bool:
        return canonical_form(encode_value(key)) in self._replica.entries

    def __len__(self) -> int:
        return len(self._replica.entries)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values of one state: that of the moment of the call."""
        entries = list(self._replica.entries.items())
        return ((value_of(key), value_of(entry[0])) for key, entry in entries)

    @property
    def number(self) -> int:
        """The number of the last change that this copy has."""
        return self._replica.number

    @property
    def age_s(self) -> float:
        """How long ago the store was as this copy is, at most, seconds: about 1 s at the longest while all is well."""
        age_ns = self._replica.age_ns(time.monotonic_ns())
        return float("inf") if age_ns is None else age_ns / _SECOND_NS

    async def at_least(self, version: int, *, timeout_s: float = 30.0) -> Self:
        """Wait until this copy has a change, such as one that was written just now; return the copy.

        Raises:
            TimeoutError: It has not come in time.
            HubError: The client, or the copy, has ended.
        """
        if self._copying.error is not None and self._replica.number < version:
            raise ClosedError("the replica is closed")
        async with asyncio.timeout(timeout_s):
            await self._copying.wait_number(version)
        return self

    def _ignore(self, _: list[Change], __: bool) -> None:  # noqa: FBT001 -- a callback
        """Nobody is told."""
