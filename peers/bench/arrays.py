"""Pairs of numbers in arrays, as bytes or in shared memory: the requester and the services.

A request is 4 words of 8 bytes (header, requester id, two operands), a result 3 (header, requester id, result modulo
2^64). A header has the type in bits 16 to 23 (1 add, 2 multiply, +0x80 for a result), the length in words in bits 24 to
31, and above them the transaction id. Numbers are little-endian; every record of an answer is checked.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hub.errors import CloseCode, HubError, RejectedError
from peers.bench.pairs import Ask, Asked, orders_of, run_worker
from peers.client import Client
from peers.client.service import ServiceRequest
from peers.shm.ring import Block
from peers.shm.views import View


class Operation(IntEnum):
    """The operation on a pair, by the type of its record. Each has a service of its own."""

    ADD = 1
    MULTIPLY = 2


Words: TypeAlias = npt.NDArray[np.uint64]

_RESULT = 0x80
"""The bit of the type that marks a result."""

REQUEST_WORDS = 4
RESULT_WORDS = 3
_WORD = np.dtype("<u8")
_WORD_BYTES = 8

REQUEST_BYTES = REQUEST_WORDS * _WORD_BYTES
RESULT_BYTES = RESULT_WORDS * _WORD_BYTES

_TYPE_BIT = 16
_LENGTH_BIT = 24
_ID_BIT = 32
_BELOW_ID = (1 << _ID_BIT) - 1
_HEADER, _REQUESTER, _FIRST, _SECOND = range(4)
_VALUE = _FIRST

_ARITHMETIC = {Operation.ADD: np.add, Operation.MULTIPLY: np.multiply}


def requests_in(body: bytes | bytearray | memoryview) -> Words:
    """Return the requests in `body`, without copying; raise `RejectedError` unless it holds whole records."""
    return _rows(body, REQUEST_WORDS)


def results_in(body: bytes | bytearray | memoryview) -> Words:
    return _rows(body, RESULT_WORDS)


def results_for(requests: Words) -> Words:
    return np.empty((len(requests), RESULT_WORDS), _WORD)


def write_results(operation: Operation, requests: Words, results: Words) -> None:
    """Write the results of requests; raise `RejectedError`, and write none, if one is not for this operation."""
    headers = requests[:, _HEADER]
    strange = (headers & np.uint64(_BELOW_ID)) != np.uint64(_below_id(operation, REQUEST_WORDS))
    if strange.any():
        at = int(np.argmax(strange))
        text = f"record {at:,} begins with {int(headers[at]):#018x}: no request to {operation.name.lower()}"
        raise RejectedError(CloseCode.BAD_DATA, text)
    np.add(headers, np.uint64(_step(operation)), out=results[:, _HEADER])
    results[:, _REQUESTER] = requests[:, _REQUESTER]
    _ARITHMETIC[operation](requests[:, _FIRST], requests[:, _SECOND], out=results[:, _VALUE])


def wrong(operation: Operation, requests: Words, results: Words) -> int:
    """Return how many of `requests` do not have their right result in the same row."""
    if len(results) != len(requests):
        return len(requests)
    same = requests[:, _HEADER] + np.uint64(_step(operation)) == results[:, _HEADER]
    same &= requests[:, _REQUESTER] == results[:, _REQUESTER]
    same &= _ARITHMETIC[operation](requests[:, _FIRST], requests[:, _SECOND]) == results[:, _VALUE]
    return len(requests) - int(np.count_nonzero(same))


def _rows(body: bytes | bytearray | memoryview, words: int) -> Words:
    size_bytes = memoryview(body).nbytes
    if not size_bytes or size_bytes % (words * _WORD_BYTES):
        raise RejectedError(CloseCode.BAD_DATA, f"{size_bytes:,} bytes are no records of {words * _WORD_BYTES}")
    return np.frombuffer(body, _WORD).reshape(-1, words)


def _below_id(operation: Operation, words: int) -> int:
    """Return the header of a request with transaction id 0."""
    return operation << _TYPE_BIT | words << _LENGTH_BIT


def _step(operation: Operation) -> int:
    """Return the difference, modulo 2^64, of the headers of a result and its request."""
    result = (operation | _RESULT) << _TYPE_BIT | RESULT_WORDS << _LENGTH_BIT
    return (result - _below_id(operation, REQUEST_WORDS)) % (1 << 64)


_TIMEOUT_S = 30.0
"""Of a request, and of a block that is read."""

_LATE_S = 5.0
"""A request without an answer so long after its timeout ends the run."""

_WORD_BITS = 64
_WORDS = 1 << _WORD_BITS
_LEAST_RING_BYTES = 1024 * 1024
_SPARE = 2
"""Blocks are taken back in the order of the ring: one that is late keeps the room of those behind it."""


class ArraySetup(NamedTuple):
    """The set-up of requester and services; they answer None when they are connected."""

    url: str
    topic: str
    shared: bool
    batch: int
    """Pairs that are made at a time; about half of them go to each service, in one body."""
    batches: int
    operation: Operation = Operation.ADD

    @property
    def options(self) -> dict[str, Any]:
        if not self.shared:
            return {"shared_memory": False}
        outstanding_bytes = self.batches * self.batch * REQUEST_BYTES
        ring_bytes = max(_LEAST_RING_BYTES, _SPARE * outstanding_bytes)
        return {"shared_memory": True, "views": True, "ring_bytes": ring_bytes, "lease_s": _TIMEOUT_S}

    def topic_of(self, operation: Operation) -> str:
        return f"{self.topic}/{operation.name.lower()}"


class Batches:
    """Makes batches, and checks the answers."""

    def __init__(self, client: Client, setup: ArraySetup, requester: int) -> None:
        self._client = client
        self._setup = setup
        self._requester = requester
        self._random = np.random.Generator(np.random.SFC64())
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
            room = {one: np.empty((self._setup.batch, REQUEST_WORDS), np.uint64) for one in Operation}
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
            if not (count := len(transactions)):
                continue
            operands = self._random.integers(0, _WORDS, 2 * count, dtype=np.uint64)
            requests = room[operation][:count]
            header = requests[:, _HEADER]
            np.left_shift(transactions, np.uint64(_ID_BIT), out=header)
            np.bitwise_or(header, np.uint64(_below_id(operation, REQUEST_WORDS)), out=header)
            requests[:, _REQUESTER] = self._requester
            # One column at a time: NumPy's loop over rows of two costs five times as much.
            requests[:, _FIRST] = operands[:count]
            requests[:, _SECOND] = operands[count:]
            drawn.append((operation, requests))
        self._transaction += pairs
        return drawn

    async def _settle(self, operation: Operation, requests: Words, asked: Asked) -> None:
        """Ask, wait for the answer, and look at every record of it."""
        try:
            async with asyncio.timeout(_TIMEOUT_S + _LATE_S):
                value = await self._client.request(
                    self._setup.topic_of(operation), await self._value(requests), timeout_s=_TIMEOUT_S
                )
            with _opened(value) as body:
                asked.wrong += wrong(operation, requests, results_in(body))
        except HubError as error:
            asked.fail(len(requests), error)

    async def _value(self, requests: Words) -> memoryview | Block:
        """Return requests as they are sent. A copy, as a block is taken back before its answer comes."""
        if not self._setup.shared:
            return requests.data
        block = await self._client.allocate(requests.nbytes)
        np.copyto(requests_in(block.memory), requests)
        return block


def _opened(value: bytes | View) -> AbstractContextManager[bytes | memoryview]:
    """Return the body, for a `with` statement; its end raises `BlockGoneError` if it may have changed meanwhile."""
    return value if isinstance(value, View) else nullcontext(value)


def request_arrays(pipe: Connection, setup: ArraySetup) -> None:
    async def ask(client: Client) -> None:
        batches = Batches(client, setup, secrets.randbits(_WORD_BITS))
        pipe.send(None)
        async for order in orders_of(pipe):
            pipe.send(await batches.ask(order))

    run_worker(setup.url, "arrays requester", ask, **setup.options)


def serve_arrays(pipe: Connection, setup: ArraySetup) -> None:
    def answer(asked: ServiceRequest) -> memoryview:
        requests = requests_in(asked.value)
        results = results_for(requests)
        write_results(setup.operation, requests, results)
        return results.data

    async def stand_by(client: Client) -> None:
        async def answer_in_block(asked: ServiceRequest) -> Block:
            with _opened(asked.value) as body:
                requests = requests_in(body)
                block = await client.allocate(len(requests) * RESULT_BYTES)
                write_results(setup.operation, requests, results_in(block.memory))
                del requests
            return block

        async with client.serve(setup.topic_of(setup.operation), answer_in_block if setup.shared else answer):
            pipe.send(None)
            async for _ in orders_of(pipe):
                pass

    run_worker(setup.url, f"arrays {setup.operation.name.lower()}", stand_by, **setup.options)
