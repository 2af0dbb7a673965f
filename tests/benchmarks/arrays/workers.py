"""The requester, which makes arrays of pairs and checks the results, and the services: each is a process of its own.

A batch is made at once: an operation for each pair, then for each service the records of those that are its own, with
the transaction ids that their pairs have in the batch and operands of their own. The array is kept until its answer is
there; then every record of the answer is compared with what it must be.

```
               as bytes                              as blocks (`--shared`)
sent           a view, copied by the client          `Client.allocate`: written where the far side reads it
received       bytes                                 a view of the far side's block, which must be left to be believed
```

Blocks come from a ring that is not much larger than what is outstanding, so that its memory stays in the processors'
caches. Each process owns its connection, and ends with the command.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import numpy as np

from hub.errors import HubError
from peers.bench.y.asking import Ask, Asked, Asks
from peers.bench.y.workers import orders_of, run_worker
from peers.client import Client
from peers.client.service import ServiceRequest
from peers.shm.ring import Block
from peers.shm.views import View
from tests.benchmarks.arrays import records
from tests.benchmarks.arrays.records import Operation, Words

__all__ = ["ArraySetup", "Batches", "Carries", "request", "serve"]

_TIMEOUT_S = 30.0
"""How long a request may take, and a block that is read may be held."""

_LATE_S = 5.0
"""What is not answered so long after that ends the run."""

_WORD_BITS = 64
_WORDS = 1 << _WORD_BITS
_LEAST_RING_BYTES = 1024 * 1024
_SPARE = 2
"""Blocks are taken back in the order of the ring: one that is late keeps the room of those behind it."""


class ArraySetup(NamedTuple):
    """What all must know; they answer None when they are connected."""

    url: str
    topic: str
    """What the services' topics begin with."""
    shared: bool
    """Whether arrays travel in shared memory."""
    batch: int
    """Pairs that are made at a time; about half of them go to each service, in one body."""
    batches: int
    """Batches that are asked and not yet answered."""
    operation: Operation = Operation.ADD
    """What a service does."""

    @property
    def options(self) -> dict[str, Any]:
        """The options of a client that sends and receives so."""
        if not self.shared:
            return {"shared_memory": False}
        outstanding_bytes = self.batches * self.batch * records.REQUEST_BYTES
        ring_bytes = max(_LEAST_RING_BYTES, _SPARE * outstanding_bytes)
        return {"shared_memory": True, "views": True, "ring_bytes": ring_bytes, "lease_s": _TIMEOUT_S}

    def topic_of(self, operation: Operation) -> str:
        """Return where arrays for a service go."""
        return f"{self.topic}/{operation.name.lower()}"


class Carries(Asks, Protocol):
    """What is needed of a `peers.client.Client`; tests have something that stands in for one."""

    def allocate(self, size_bytes: int) -> Awaitable[Block]:
        """Return a block when there is room."""


class Batches:
    """Makes batches, and checks what comes back.

    Args:
        client: A connection to the hub.
        setup: How arrays travel.
        requester: The requester's id in the records.
    """

    def __init__(self, client: Carries, setup: ArraySetup, requester: int) -> None:
        self._client = client
        self._setup = setup
        self._requester = requester
        self._random = np.random.Generator(np.random.SFC64())  # seeded by the system
        self._transaction = 0

    async def ask(self, order: Ask) -> Asked:
        """Make a run, with as many batches outstanding as the order says."""
        asked, began_ns = Asked(), time.perf_counter_ns()

        def more() -> int:
            if order.seconds and time.perf_counter_ns() - began_ns > order.seconds * 1e9:
                return 0
            left = order.pairs - asked.pairs if order.pairs else self._setup.batch
            return min(self._setup.batch, left)

        async def flow() -> None:
            room = {one: np.empty((self._setup.batch, records.REQUEST_WORDS), np.uint64) for one in Operation}
            while pairs := more():
                asked.pairs += pairs
                await asyncio.gather(
                    *(self._settle(operation, drawn, asked) for operation, drawn in self._draw(pairs, room))
                )

        async with asyncio.TaskGroup() as flows:
            for _ in range(order.outstanding):
                flows.create_task(flow())
        asked.elapsed_ns = time.perf_counter_ns() - began_ns
        return asked

    def _draw(self, pairs: int, room: dict[Operation, Words]) -> list[tuple[Operation, Words]]:
        """Make so many pairs; return the requests to each service that has any, in the room for them."""
        words = self._random.integers(0, _WORDS, -(-pairs // _WORD_BITS), dtype=np.uint64)
        adding = np.unpackbits(words.view(np.uint8), count=pairs).view(np.bool_)
        drawn = []
        for operation, chosen in ((Operation.ADD, adding), (Operation.MULTIPLY, ~adding)):
            transactions = np.flatnonzero(chosen).view(np.uint64)
            transactions += np.uint64(self._transaction)
            count = len(transactions)
            if count:
                operands = self._random.integers(0, _WORDS, 2 * count, dtype=np.uint64)
                requests = room[operation][:count]
                records.fill(requests, operation, transactions, self._requester, operands)
                drawn.append((operation, requests))
        self._transaction += pairs
        return drawn

    async def _settle(self, operation: Operation, requests: Words, asked: Asked) -> None:
        """Ask, wait for the answer, and look at every record of it.

        Raises:
            TimeoutError: There is none, although the hub should have answered in place of the service.
        """
        try:
            async with asyncio.timeout(_TIMEOUT_S + _LATE_S):
                value = await self._client.request(
                    self._setup.topic_of(operation), await self._value(requests), timeout_s=_TIMEOUT_S
                )
            with _opened(value) as body:
                asked.wrong += records.wrong(operation, requests, records.results_in(body))
        except HubError as error:
            asked.fail(len(requests), error)

    async def _value(self, requests: Words) -> memoryview | Block:
        """Return requests as they are sent. They stay what they are: a block is taken back before its answer comes."""
        if not self._setup.shared:
            return requests.data
        block = await self._client.allocate(requests.nbytes)
        np.copyto(records.requests_in(block.memory), requests)
        return block


def _opened(value: bytes | View) -> AbstractContextManager[bytes | memoryview]:
    """Return what came, for a `with` statement; its end raises `BlockGoneError` if that may have changed meanwhile."""
    return value if isinstance(value, View) else nullcontext(value)


def request(pipe: Connection, setup: ArraySetup) -> None:
    """Be the requester until the command is gone."""

    async def ask(client: Client) -> None:
        batches = Batches(client, setup, secrets.randbits(_WORD_BITS))
        pipe.send(None)
        async for order in orders_of(pipe):
            pipe.send(await batches.ask(order))

    run_worker(setup.url, "arrays requester", ask, **setup.options)


def serve(pipe: Connection, setup: ArraySetup) -> None:
    """Be a service until the command is gone."""

    def answer(asked: ServiceRequest) -> memoryview:
        requests = records.requests_in(asked.value)
        results = records.results_for(requests)
        records.answer(setup.operation, requests, results)
        return results.data

    async def stand_by(client: Client) -> None:
        async def answer_in_block(asked: ServiceRequest) -> Block:
            with _opened(asked.value) as body:
                requests = records.requests_in(body)
                block = await client.allocate(len(requests) * records.RESULT_BYTES)
                records.answer(setup.operation, requests, records.results_in(block.memory))
                del requests
            return block

        async with client.serve(setup.topic_of(setup.operation), answer_in_block if setup.shared else answer):
            pipe.send(None)
            async for _ in orders_of(pipe):
                pass

    run_worker(setup.url, f"arrays {setup.operation.name.lower()}", stand_by, **setup.options)
