"""`Receipt` and `Receipts`: what becomes of messages that are to be confirmed by the hub's journal.

The hub confirms in the order of the messages, so that a number of messages suffices to tell which. What was sent and
not answered when the connection is lost may be recorded or not: nobody knows, and that is what its receipt says.

Owner: one client, in its event loop. Invariant: each receipt is settled once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from hub.errors import ConnectionLostError, HubError, RejectedError
from peers.client.conversation import ABNORMAL
from peers.wire.control import Notice

__all__ = ["Receipt", "Receipts"]


class Receipt:
    """A receipt of one message: its offset in the journal, once that is known."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[int | HubError] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: int | HubError) -> None:
        """Say what has become of it: its offset, or why it is not recorded, or that nobody knows."""
        if not self._future.done():
            self._future.set_result(outcome)

    async def wait(self) -> int:
        """Return the offset.

        Raises:
            RejectedError: It was not recorded; the text says why.
            ConnectionLostError: Nobody knows.
            ClosedError: The client was closed before it was sent.
        """
        outcome = await self._future
        if isinstance(outcome, HubError):
            raise outcome
        return outcome


class Receipts:
    """The receipts of what was sent and is not answered yet, the oldest first."""

    __slots__ = ("_awaited",)

    def __init__(self) -> None:
        self._awaited: deque[Receipt] = deque()

    def __len__(self) -> int:
        return len(self._awaited)

    def expect(self, receipts: Iterable[Receipt]) -> None:
        """Take the receipts of messages that were sent."""
        self._awaited.extend(receipts)

    def answer(self, notice: Notice) -> None:
        """Take the hub's answer to one frame."""
        for number in range(min(notice.count, len(self._awaited))):
            receipt = self._awaited.popleft()
            if notice.kind == "recorded" and notice.offset is not None:
                receipt.settle(notice.offset + number)
            else:
                receipt.settle(RejectedError(notice.code, notice.text))

    def disconnected(self) -> None:
        """Settle all of them, as the connection is lost: nobody knows."""
        text = "the connection was lost before the hub confirmed; the message may be recorded or not"
        awaited, self._awaited = self._awaited, deque()
        for receipt in awaited:
            receipt.settle(ConnectionLostError(ABNORMAL, text))
