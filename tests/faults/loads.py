"""Load on a hub until it is killed: publishers of all kinds, a writer of batches, a reader of history.

Everybody connects once, goes on until the connection is lost, and notes in the ledger what it did. The moment of the
kill is a number of messages sent, not a time, so that a seed tells how far the load got.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

from hub.batch import Batch
from hub.errors import ClosedError, PeerError
from peers.client.client import Client
from tests.faults.hubs import DEADLINE_S, RunningHub
from tests.faults.ledger import Ledger, topic_of, value_of

__all__ = [
    "BATCH_MESSAGES",
    "BatchWriter",
    "Moment",
    "frames_of",
    "publish_confirmed",
    "publish_plain",
    "read_history",
    "until_lost",
]

BATCH_MESSAGES = 12_000
"""Of one batch of a writer: 2 MB, so that it is routed in several turns of the hub's loop."""

_PARTS = 3
_FRAME_MESSAGES = 50
_PLAIN_MESSAGES = 100
"""Published between two looks at whether the hub takes them."""


class Moment:
    """Comes when so many messages were sent, as soon as it also suits.

    Args:
        messages: So many.
        suits: Whether it may come now.
        act: Called when it comes, at once: nothing is read in between.
    """

    def __init__(self, messages: int, suits: Callable[[], bool], act: Callable[[], None]) -> None:
        self._left = messages
        self._suits = suits
        self._act = act
        self._come = asyncio.Event()

    def count(self, messages: int) -> None:
        """Messages were sent."""
        self._left -= messages
        if self._left <= 0 and not self._come.is_set() and self._suits():
            self._act()
            self._come.set()

    @property
    def has_come(self) -> bool:
        """Whether it came."""
        return self._come.is_set()

    async def wait(self) -> None:
        """Wait for it."""
        async with asyncio.timeout(DEADLINE_S):
            await self._come.wait()


@asynccontextmanager
async def until_lost(hub: RunningHub) -> AsyncIterator[Client]:
    """A client that works until the hub is killed; what the client is told of that is no error."""
    async with hub.connect() as client:
        with suppress(PeerError, ClosedError):
            yield client


async def publish_confirmed(hub: RunningHub, ledger: Ledger, name: str, moment: Moment, *, together: int) -> None:
    """Publish and wait for the offsets, so many messages at a time."""
    async with until_lost(hub) as client:
        for start in count(0, together):
            numbers = range(start, start + together)
            ledger.sent[name] += together
            moment.count(together)
            calls = [client.publish_confirmed(topic_of(name, each), value_of(name, each)) for each in numbers]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            for number, outcome in zip(numbers, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                ledger.confirmed[name, number] = outcome


async def publish_plain(hub: RunningHub, ledger: Ledger, name: str, moment: Moment) -> None:
    """Publish as fast as the hub takes it."""
    async with until_lost(hub) as client:
        for start in count(0, _PLAIN_MESSAGES):
            for number in range(start, start + _PLAIN_MESSAGES):
                ledger.sent[name] += 1
                await client.publish(topic_of(name, number), value_of(name, number))
            await client.drain()
            await asyncio.sleep(0)  # a socket that takes it all does not let others in
            moment.count(_PLAIN_MESSAGES)


async def read_history(hub: RunningHub, start: int) -> None:
    """Read what there is, again and again, so that a reader process is at work when the hub is killed."""
    async with until_lost(hub) as client:
        while True:
            async for block in client.read(start=start).blocks(verify=True):
                start = block.next
            await asyncio.sleep(0)


class BatchWriter:
    """A writer of batches that outlives hubs: what is in doubt it does again, under the same number.

    Args:
        ledger: Gets what it sends.
        query: Its name.
    """

    def __init__(self, ledger: Ledger, query: str) -> None:
        self._ledger = ledger
        self.query = query
        self.next_batch = 0
        """What comes before it was told to be committed."""
        self.is_committing = False
        """Whether a COMMIT is on its way."""
        self.in_doubt = False
        """Whether the batch may have been committed without our hearing of it."""
        self.again_total = 0

    @property
    def recorded(self) -> int:
        """How many batches the ledger has found in the journal; each is whole.

        Raises:
            AssertionError: One is not.
        """
        batches, rest = divmod(self._ledger.recorded(self.query), BATCH_MESSAGES)
        assert not rest, f"{rest} messages of batch {batches} of {self.query} are recorded without the others"
        assert self.next_batch <= batches <= self.next_batch + 1
        return batches

    async def write(self, hub: RunningHub, moment: Moment) -> None:
        """Write one batch after the other. If one was in doubt, the ledger must have read what the crash has left."""
        async with until_lost(hub) as client:
            if self.in_doubt:
                expected = self.recorded > self.next_batch
                assert await self._write_batch(client, moment) is expected
                self.again_total += expected
            while True:
                assert await self._write_batch(client, moment) is False

    async def _write_batch(self, client: Client, moment: Moment) -> bool:
        """Stage and commit the next batch; return whether it had been committed before."""
        batch = self.next_batch
        transaction = f"{self.query}.{batch}"
        for part in range(_PARTS):
            await client.stage(transaction, part, self._frames(batch, part))
        self._ledger.sent[self.query] = (batch + 1) * BATCH_MESSAGES
        moment.count(BATCH_MESSAGES)
        self.in_doubt = self.is_committing = True
        try:
            committed = await client.commit(transaction, list(range(_PARTS)), query=self.query, batch=batch)
        finally:
            self.is_committing = False
        self.in_doubt = False
        self.next_batch += 1
        first = batch * BATCH_MESSAGES
        if not committed.again:
            self._ledger.confirmed[self.query, first] = committed.first
        return committed.again

    def _frames(self, batch: int, part: int) -> bytes:
        size = BATCH_MESSAGES // _PARTS
        first = batch * BATCH_MESSAGES + part * size
        return frames_of(self.query, range(first, first + size))


def frames_of(name: str, numbers: range) -> bytes:
    """Return messages as frames, as STAGE takes them."""
    starts = range(numbers.start, numbers.stop, _FRAME_MESSAGES)
    return b"".join(_frame(name, range(start, min(start + _FRAME_MESSAGES, numbers.stop))) for start in starts)


def _frame(name: str, numbers: range) -> bytes:
    return Batch.of(topic_of(name, numbers[0]), [value_of(name, number) for number in numbers]).frames
