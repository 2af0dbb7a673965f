"""Pairs that travel one by one: each is a request of its own, `[first, second]`, and its reply a number.

`ask_one` asks when the one before is answered, and measures how long each takes. `ask_many` keeps many unanswered: each
answer is checked when it comes, and at the end of the turn of the loop as many new pairs are made as were answered;
which of them travel in one frame is the client's business.

Cost of making and checking a pair: about 1 µs.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from random import getrandbits

from hub.errors import HubError
from peers.bench.orders import Ask
from peers.bench.y.asks import Asks
from peers.bench.y.operation import ARITHMETIC, Operation
from peers.bench.y.score import Score
from peers.bench.y.topics import topic_of

__all__ = ["LATE_S", "TIMEOUT_S", "ask_many", "ask_one"]

TIMEOUT_S = 30.0
"""Of each request; then the hub answers in place of the service."""

LATE_S = 5.0
"""What is not answered so long after that is lost."""

_WORD_BITS = 64
_WORD = (1 << _WORD_BITS) - 1


def draw() -> tuple[Operation, int, int]:
    """Make an operation and a pair of numbers at random."""
    bits = getrandbits(2 * _WORD_BITS + 1)
    operation = Operation.ADD if bits & 1 else Operation.MULTIPLY
    return operation, bits >> 1 & _WORD, bits >> _WORD_BITS + 1


async def ask_one(client: Asks, topic: str, score: Score) -> None:
    """One at a time.

    Args:
        client: Connected.
        topic: Prefix of the services' topics.
        score: Gets the counts and the latencies, and knows when to end.
    """
    topics = {operation: topic_of(topic, operation) for operation in Operation}
    clock, record, request = time.perf_counter_ns, score.latency.record, client.request
    while score.more:
        operation, first, second = draw()
        score.ask(1)
        began_ns = clock()
        try:
            value = await request(topics[operation], [first, second], TIMEOUT_S)
        except HubError as error:
            score.fail(1, str(error))
        else:
            record(clock() - began_ns)
            score.settle(1, value != ARITHMETIC[operation](first, second))


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
        self._topics = {operation: topic_of(topic, operation) for operation in Operation}
        self._loop = asyncio.get_running_loop()
        self._filling = False
        self._asking = asyncio.Event()  # set when no more is asked
        self._answered = asyncio.Event()

    def fill(self) -> None:
        """Make as many pairs as may be asked, or end."""
        self._filling = False
        score, ask, topics = self._score, self._client.request_nowait, self._topics
        count = min(self._outstanding - score.open, score.more)
        score.ask(count)
        for _ in range(count):
            operation, first, second = draw()
            try:
                answer = ask(topics[operation], [first, second], TIMEOUT_S)
            except HubError as error:  # the connection is lost, say: it goes on until the run is to end
                self._fail(error)
            else:
                answer.add_done_callback(partial(self._check, ARITHMETIC[operation](first, second)))
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
            self._score.settle(1, answer.result() != expected)
        except HubError as error:
            self._fail(error)
        else:
            self._fill_soon()

    def _fail(self, error: HubError) -> None:
        self._score.fail(1, str(error))
        self._fill_soon()

    def _fill_soon(self) -> None:
        if not self._filling:
            self._filling = True
            self._loop.call_soon(self.fill)
