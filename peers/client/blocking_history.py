"""`BlockingHistory`: a range of a hub's journal, for threads; the loop thread fetches ahead.

Owner: one thread. Cost: what `peers.client.history` says, and 0.1 ms for each piece of a megabyte, which crosses
threads once. Blocks are taken apart in the thread that reads.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, cast

from hub.errors import ClosedError
from hub.journal.block import Block
from peers.client.history import History, Record, records_of
from peers.wire.records import Records

__all__ = ["BlockingHistory"]


class BlockingHistory:
    """A range of the journal, for threads. Made by `BlockingClient.read`; iterating yields records.

    While one piece is worked on, the loop thread fetches the next.
    """

    def __init__(self, call: Callable[[Coroutine[Any, Any, Any]], Any], history: History) -> None:
        self._call = call
        self._history = history

    @property
    def next(self) -> int:
        """Where reading goes on: everything before it was read."""
        return self._history.next

    def pieces(self) -> Iterator[Records]:
        """Yield the hub's answers, one after the other. Raises as `BlockingClient.read` says."""
        pieces = cast("AsyncGenerator[Records]", self._history.pieces())
        try:
            while (found := self._call(_next_of(pieces))) is not None:
                yield found
        finally:
            with suppress(ClosedError):  # then it has ended already
                self._call(pieces.aclose())

    def blocks(self, *, verify: bool = False) -> Iterator[Block]:
        """Yield blocks, their columns ready to be used.

        Args:
            verify: Whether to compare the checksum here too; the hub did when it read them.

        Raises:
            JournalCorruptError: What came is no block.
            TimeoutError, GoneError, RejectedError, ClosedError, PeerError: As `BlockingClient.read` says.
        """
        for found in self.pieces():
            for data in found.blocks:
                yield Block.parse(data, verify=verify)

    def __iter__(self) -> Iterator[Record]:
        for block in self.blocks():
            yield from records_of(block, self._history.on_bad)


async def _next_of(pieces: AsyncGenerator[Records]) -> Records | None:
    return await anext(pieces, None)
