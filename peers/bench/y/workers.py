"""The requester, which makes pairs and checks the results, and the services: each is a process of its own.

They are programs as a user writes them: the client library, on the event loop that a user would choose. Each owns its
connection, and ends with the command.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from peers.bench.y.asking import OPERATIONS, Ask, ask_pairs
from peers.client import Client, connect
from peers.client.service import ServiceRequest
from peers.daemon.memory import keep_freed_memory

__all__ = ["Setup", "orders_of", "request", "run_worker", "serve"]

_OPTIONS: Mapping[str, Any] = {"shared_memory": False}
"""Numbers of 8 bytes need none, and a Unix socket that can hand memory over costs a quarter more for each of them."""


class Setup(NamedTuple):
    """What both must know; they answer None when they are connected."""

    url: str
    topic: str
    """What the services' topics begin with."""
    operation: str = ""
    """What a service does, one of `OPERATIONS`."""


def request(pipe: Connection, setup: Setup) -> None:
    """Be the requester until the command is gone."""

    async def ask(client: Client) -> None:
        pipe.send(None)
        async for order in orders_of(pipe):
            pipe.send(await ask_pairs(client, setup.topic, order))

    run_worker(setup.url, "y requester", ask, **_OPTIONS)


def serve(pipe: Connection, setup: Setup) -> None:
    """Be a service until the command is gone."""
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
    """Run a worker as a hub runs: on uvloop where it is installed, keeping freed memory, collecting garbage.

    Args:
        url: Of the hub.
        name: Of the client, for people.
        work: What is done with the client once it is connected.
        options: Further options of the client.
    """

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
    """Yield orders as they come, and let the loop run meanwhile; raise `EOFError` when the command is gone."""
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
