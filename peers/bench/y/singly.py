"""Pairs that travel one by one: each is a request of its own, `[first, second]`, and its reply a number.

`ask_one` asks when the one before is answered, and measures how long each takes. `ask_many` keeps many unanswered: each
answer is checked when it comes, and at the end of the turn of the loop as many new pairs are made as were answered;
which of them travel in one frame is the client's business.

Cost of making and checking a pair: about 1 µs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import randbytes
from typing import Any, NamedTuple, Protocol

from hub.errors import HubError
from peers.bench.orders import Ask
from peers.bench.y.operation import ARITHMETIC, Operation, topic_of
from peers.bench.y.score import Score

__all__ = ["LATE_S", "TIMEOUT_S", "Asks", "ask_many", "ask_one"]

TIMEOUT_S = 30.0
"""Of each request; then the hub answers in place of the service."""

LATE_S = 5.0
"""What is not answered so long after that is lost."""

_WORD_BYTES = 8


class Asks(Protocol):
    """What is needed of a `peers.client.Client`; tests have something that stands in for one."""

    def request_nowait(self, topic: str, value: Any, *, timeout_s: float) -> asyncio.Future[Any]:
        """Ask; the answer comes later."""

    async def request(self, topic: str, value: Any, *, timeout_s: float) -> Any:
        """Ask, and wait for the answer."""


class _Way(NamedTuple):
    """Where a pair goes, and what must come back."""

    topic: str
    result: Callable[[int, int], int]


def _ways(topic: str) -> list[_Way]:
    """Return one for each operation: an index is quicker than the hash of an enumeration."""
    return [_Way(topic_of(topic, operation), ARITHMETIC[operation]) for operation in Operation]


def draw(count: int) -> Iterator[tuple[int, int, int]]:
    """Make pairs of numbers below 2^64 at random, and for each the index of an operation."""
    words = memoryview(randbytes(2 * _WORD_BYTES * count)).cast("Q").tolist()  # noqa: S311 -- no secret
    operations = [byte & 1 for byte in randbytes(count)]  # noqa: S311
    return zip(operations, words[::2], words[1::2], strict=True)


async def ask_one(client: Asks, topic: str, score: Score) -> None:
    """One at a time.

    Args:
        client: Connected.
        topic: Prefix of the services' topics.
        score: Gets the counts and the latencies, and knows when to end.
    """
    ways = _ways(topic)
    clock, record, request = time.perf_counter_ns, score.latency.record, client.request
    while score.more:
        ((operation, first, second),) = draw(1)
        way = ways[operation]
        score.ask(1)
        began_ns = clock()
        try:
            value = await request(way.topic, [first, second], timeout_s=TIMEOUT_S)
        except HubError as error:
            score.fail(1, str(error))
        else:
            record(clock() - began_ns)
            score.settle(1, value != way.result(first, second))


async def ask_many(client: Asks, topic: str, order: Ask, score: Score) -> None:
    """Many at a time.

    Args:
        client: Connected.
        topic: Prefix of the services' topics.
        order: How many.
        score: Gets the counts, and knows when to end.
    """
    flow = _Flow(client, topic, order.outstanding, score)
    flow.fill()
    await flow.ended(TIMEOUT_S + LATE_S)


class _Flow:
    """Pairs that are asked until the run is to end, and then waited for."""

    def __init__(self, client: Asks, topic: str, outstanding: int, score: Score) -> None:
        self._client = client
        self._outstanding = outstanding
        self._score = score
        self._ways = _ways(topic)
        self._loop = asyncio.get_running_loop()
        self._filling = False
        self._answers = self._wrong = 0  # since the score was told
        self._asking = asyncio.Event()  # set when no more is asked
        self._answered = asyncio.Event()

    def fill(self) -> None:
        """Make as many pairs as may be asked, or end."""
        self._filling = False
        score = self._score
        score.settle(self._answers, self._wrong)
        self._answers = self._wrong = 0
        count = min(self._outstanding - score.open, score.more)
        score.ask(count)
        ask, ways = self._client.request_nowait, self._ways
        for operation, first, second in draw(count):
            topic, result = ways[operation]
            try:
                answer = ask(topic, [first, second], timeout_s=TIMEOUT_S)
            except HubError as error:  # the connection is lost, say: it goes on until the run is to end
                self._fail(error)
            else:
                answer.add_done_callback(partial(self._check, result(first, second)))
        if not score.more:
            self._asking.set()
            if not score.open:
                self._answered.set()

    async def ended(self, late_s: float) -> None:
        """Wait until the run is to end and all is answered, or `late_s` after nothing more was asked."""
        await self._asking.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(late_s):
                await self._answered.wait()

    def _check(self, expected: int, answer: asyncio.Future[int]) -> None:
        try:
            value = answer.result()
        except HubError as error:
            self._fail(error)
            return
        self._answers += 1
        if value != expected:
            self._wrong += 1
        if not self._filling:
            self._fill_soon()

    def _fail(self, error: HubError) -> None:
        self._score.fail(1, str(error))
        if not self._filling:
            self._fill_soon()

    def _fill_soon(self) -> None:
        self._filling = True
        self._loop.call_soon(self.fill)
