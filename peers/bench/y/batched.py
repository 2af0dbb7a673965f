"""Pairs that travel in arrays: one body holds all of a batch that want the same operation, and is one request.

A batch is made at once: an operation for each pair, then for each service the records of those that are its own, with
the transaction ids that their pairs have in the batch and operands of their own. The array is kept until its answer is
there; then every record of the answer is compared with what it must be.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hub.errors import HubError
from peers.bench.orders import Ask
from peers.bench.y.bodies import Allocates, opened
from peers.bench.y.operation import Operation, records_topic_of
from peers.bench.y.records import REQUEST_WORDS, Words, fill, requests_in, results_in, wrong
from peers.bench.y.score import Score
from peers.bench.y.singly import LATE_S, TIMEOUT_S, Asks
from peers.shm.ring import Block

__all__ = ["Batches"]

_WORD_BITS = 64
_WORDS = 1 << _WORD_BITS


class Carries(Asks, Allocates, Protocol):
    """What of a client is needed here."""


class Batches:
    """Makes batches, and checks what comes back.

    Args:
        client: Connected.
        topic: Prefix of the services' topics.
        requester: Id in the records.
        shared: Whether requests travel in shared memory.
    """

    def __init__(self, client: Carries, topic: str, requester: int, *, shared: bool = False) -> None:
        self._client = client
        self._shared = shared
        self._topics = {operation: records_topic_of(topic, operation) for operation in Operation}
        self._requester = requester
        self._random = np.random.Generator(np.random.SFC64())  # seeded by the system
        self._transaction = 0

    async def ask(self, order: Ask, score: Score) -> None:
        """Make a run, with so many batches outstanding.

        Args:
            order: How many, and of how many pairs.
            score: Gets the counts, and knows when to end.
        """
        async with asyncio.TaskGroup() as flows:
            for _ in range(order.outstanding):
                flows.create_task(self._flow(order.batch, score))

    async def _flow(self, batch: int, score: Score) -> None:
        """Ask one batch after the other, until the run is to end or an answer does not come."""
        room = {operation: np.empty((batch, REQUEST_WORDS), np.uint64) for operation in Operation}
        try:
            while pairs := min(batch, score.more):
                score.ask(pairs)
                drawn = self.draw(pairs, room)
                await asyncio.gather(*(self._settle(operation, requests, score) for operation, requests in drawn))
        except TimeoutError:
            return

    def draw(self, pairs: int, room: dict[Operation, Words]) -> list[tuple[Operation, Words]]:
        """Make so many pairs.

        Args:
            pairs: 1 or more.
            room: For the requests to each service, enough if all want the same one.

        Returns:
            The requests to each service that has any, in the room for them.
        """
        adding = self._bits(pairs)
        drawn = []
        for operation, chosen in ((Operation.ADD, adding), (Operation.MULTIPLY, ~adding)):
            transactions = np.flatnonzero(chosen).view(np.uint64)
            transactions += np.uint64(self._transaction)
            count = len(transactions)
            if count:
                operands = self._random.integers(0, _WORDS, 2 * count, dtype=np.uint64)
                requests = room[operation][:count]
                fill(requests, operation, transactions, self._requester, operands)
                drawn.append((operation, requests))
        self._transaction += pairs
        return drawn

    def _bits(self, count: int) -> npt.NDArray[np.bool_]:
        """Return so many random bits."""
        words = self._random.integers(0, _WORDS, -(-count // _WORD_BITS), dtype=np.uint64)
        return np.unpackbits(words.view(np.uint8), count=count).view(np.bool_)

    async def _settle(self, operation: Operation, requests: Words, score: Score) -> None:
        """Ask, wait for the answer, and look at every record of it.

        Raises:
            TimeoutError: There is none, although the hub should have answered in place of the service.
        """
        pairs = len(requests)
        try:
            async with asyncio.timeout(TIMEOUT_S + LATE_S):
                value = await self._client.request(
                    self._topics[operation], await self._value(requests), timeout_s=TIMEOUT_S
                )
            with opened(value) as body:
                found = wrong(operation, requests, results_in(body))
        except HubError as error:
            score.fail(pairs, str(error))
        else:
            score.settle(pairs, found)

    async def _value(self, requests: Words) -> memoryview | Block:
        """Return requests as they are sent. They stay what they are: a block is taken back before its answer comes."""
        if not self._shared:
            return requests.data
        block = await self._client.allocate(requests.nbytes)
        np.copyto(requests_in(block.memory), requests)
        return block
