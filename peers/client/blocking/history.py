"""`BlockingHistory`: a range of the journal, read by a thread.

Owner: whoever has it. Cost: history crosses threads once per piece of a megabyte, whose blocks are taken apart in the
thread that reads.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from typing import cast

from hub.errors import ClosedError
from hub.journal.block import Block
from hub.journal.column import Column
from hub.journal.excerpt import whole_of
from peers.client.blocking.call import Call
from peers.client.history import History, Record, records_of
from peers.client.values import BadMessage
from peers.wire.records import Records

__all__ = ["BlockingHistory"]


class BlockingHistory:
    """A range of the journal, for threads. Made by `BlockingClient.read`; iterating yields records.

    While one piece is worked on, the loop thread fetches the next.

    Args:
        call: Runs coroutines in the loop thread of the client.
        history: In the loop thread.
        on_bad: Is told of values that cannot be read, from any thread.
        timeout_s: Most to wait for one answer of the hub.
    """

    def __init__(
        self, call: Call, history: History, on_bad: Callable[[BadMessage], None], timeout_s: float | None
    ) -> None:
        self._call = call
        self._history = history
        self._on_bad = on_bad
        self._timeout_s = timeout_s

    @property
    def hub(self) -> str:
        """Whose journal is read; empty for that of the hub that is connected."""
        return self._history.hub

    @property
    def next(self) -> int:
        """Where reading goes on: everything before it was read."""
        return self._history.next

    @property
    def epoch(self) -> int:
        """The epoch of the journal in which `next` was told; 0 where nobody knows."""
        return self._history.epoch

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """What of each record is wanted; None for all of it."""
        return self._history.columns

    def pieces(self) -> Iterator[Records]:
        """Yield the hub's answers, one after the other. Raises as `BlockingClient.read` says."""
        pieces = cast("AsyncGenerator[Records]", self._history.pieces())
        try:
            while (found := self._call(_next_of(pieces), self._timeout_s)) is not None:
                yield found
        finally:
            with suppress(ClosedError):  # then it has ended already
                self._call(pieces.aclose())

    def blocks(self, *, verify: bool = False) -> Iterator[Block]:
        """Yield blocks, their columns ready to be used. What stands in one that was not asked for means nothing.

        Args:
            verify: Whether to compare the checksum here too; the hub did when it read them.

        Raises:
            JournalCorruptError: What came is no block.
            TimeoutError, GoneError, RejectedError, ClosedError, PeerError: As `BlockingClient.read` says.
        """
        for found in self.pieces():
            for data in found.blocks:
                yield Block.parse(whole_of(data), verify=verify)

    def __iter__(self) -> Iterator[Record]:
        for block in self.blocks():
            yield from records_of(block, self._on_bad, self._history.columns)


async def _next_of(pieces: AsyncGenerator[Records]) -> Records | None:
    return await anext(pieces, None)
