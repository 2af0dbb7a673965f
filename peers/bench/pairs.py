"""The processes of `hub bench scenario y`: the requester and the services, a pair of numbers a request."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from random import getrandbits
from typing import Any, NamedTuple

from hub.errors import HubError
from peers.bench.measurement import Histogram
from peers.client import Client, connect
from peers.client.service import ServiceRequest
from peers.server.memory import keep_freed_memory

_TIMEOUT_S = 30.0
_LATE_S = _TIMEOUT_S + 5.0
"""A run in which nothing was answered for this long is over."""

_MODULO = (1 << 64) - 1
_REASONS = 5

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda first, second: first + second & _MODULO,
    "multiply": lambda first, second: first * second & _MODULO,
}
"""The functions of the services, modulo 2^64, by the last part of their topics."""


@dataclass(frozen=True)
class Ask:
    """The order to make a run of so many pairs or seconds (0 for any). With one `outstanding` pair, each is timed."""

    pairs: int
    seconds: float
    outstanding: int


@dataclass
class Asked:
    """Results of a run: the answer to `Ask`."""

    pairs: int = 0
    wrong: int = 0
    failed: int = 0
    lost: int = 0
    reasons: list[str] = field(default_factory=list)
    elapsed_ns: int = 0
    latency: Histogram = field(default_factory=Histogram)
    """Of each pair, ns, if only one at a time was asked."""

    def fail(self, pairs: int, error: HubError) -> None:
        self.failed += pairs
        if str(error) not in self.reasons and len(self.reasons) < _REASONS:
            self.reasons.append(str(error))


async def ask_pairs(client: Client, topic: str, order: Ask, late_s: float = _LATE_S) -> Asked:
    """Make a run with the services below `topic`; it ends when nothing was answered for `late_s`."""
    asked = Asked()
    began_ns = time.perf_counter_ns()
    end_ns = began_ns + order.seconds * 1e9 if order.seconds else float("inf")
    most = order.pairs or float("inf")
    ways = [(f"{topic}/{name}", operation) for name, operation in OPERATIONS.items()]
    settled, clock = 0, time.perf_counter_ns

    async def ask_one_after_the_other() -> None:
        nonlocal settled
        while asked.pairs < most and (asked_ns := clock()) < end_ns:
            asked.pairs += 1
            drawn = getrandbits(129)
            (way, operation), first, second = ways[drawn >> 128], drawn >> 64 & _MODULO, drawn & _MODULO
            try:
                value = await client.request(way, [first, second], timeout_s=_TIMEOUT_S)
            except HubError as error:  # the run goes on, also when the connection is lost
                asked.fail(1, error)
            else:
                if order.outstanding == 1:
                    asked.latency.record(clock() - asked_ns)
                asked.wrong += value != operation(first, second)
            settled += 1

    flows = {asyncio.create_task(ask_one_after_the_other()) for _ in range(order.outstanding)}
    before = -1
    while flows and settled != before:
        before = settled
        done, flows = await asyncio.wait(flows, timeout=late_s)
        for flow in done:
            flow.result()  # raises unexpected errors
    for flow in flows:
        flow.cancel()
    asked.lost = asked.pairs - settled
    asked.elapsed_ns = clock() - began_ns
    return asked


_OPTIONS: Mapping[str, Any] = {"shared_memory": False}
"""A Unix socket that can hand over memory costs a quarter more for each number of 8 bytes."""


class Setup(NamedTuple):
    """The set-up of requester and services; they answer None when they are connected."""

    url: str
    topic: str
    operation: str = ""


def request(pipe: Connection, setup: Setup) -> None:
    async def ask(client: Client) -> None:
        pipe.send(None)
        async for order in orders_of(pipe):
            pipe.send(await ask_pairs(client, setup.topic, order))

    run_worker(setup.url, "y requester", ask, **_OPTIONS)


def serve(pipe: Connection, setup: Setup) -> None:
    compute = OPERATIONS[setup.operation]

    def answer(asked: ServiceRequest) -> int:
        first, second = asked.value
        return compute(first, second)

    async def stand_by(client: Client) -> None:
        async with client.serve(f"{setup.topic}/{setup.operation}", answer):
            pipe.send(None)
            async for _ in orders_of(pipe):
                pass

    run_worker(setup.url, f"y {setup.operation}", stand_by, **_OPTIONS)


def run_worker(url: str, name: str, work: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Connect with these client options and run `work`, on uvloop where it is installed, as a hub runs."""

    async def main() -> None:
        async with connect(url, name=name, reconnect=False, **options) as client:
            await work(client)

    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        import uvloop  # noqa: PLC0415 -- optional

        factory = uvloop.new_event_loop
    keep_freed_memory()
    gc.enable()
    gc.freeze()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


async def orders_of(pipe: Connection) -> AsyncIterator[Ask]:
    """Yield orders as they come; raise `EOFError` when the command is gone."""
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe.fileno(), readable.set)
    try:
        while True:
            await readable.wait()
            yield pipe.recv()
            readable.clear()
    finally:
        loop.remove_reader(pipe.fileno())
