"""What a message costs in a client: CPU time of the client's process, the hub and the far side in their own.

    python -m tests.client.measure [ws]

Not a test: figures depend on the machine. Those in docs/clients.md come from here.
"""

from __future__ import annotations

import asyncio
import multiprocessing as mp
import sys
import time
from collections.abc import Callable
from typing import Any

import structlog

from hub.settings.settings import Settings
from peers.client import MessageStream, QueueWish, blocking, connect
from peers.transport.endpoints import Endpoint
from tests.hubs.hub import Hub

MESSAGES = 400_000
QUEUE = QueueWish(messages=1_000_000, bytes=256 * 1024 * 1024)
VALUES = {
    "an integer": 7,
    "100 bytes": bytes(100),
    "a map of 5 fields": {"ts": 1.5, "uid": "CHhAvVGS1DHFjwGM9", "id.orig_h": "10.0.0.1", "id.orig_p": 443, "x": None},
}


def serve(url: str, place: Any) -> None:
    """Run a hub until the process is ended."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))

    async def run() -> None:
        hub = Hub(Settings())
        await hub.listen(Endpoint.parse(url))
        place.put(hub.url)
        await asyncio.Event().wait()

    asyncio.run(run())


def feed(url: str, topics: int, value: Any, start: Any) -> None:
    """Publish once the reader is ready."""

    async def run() -> None:
        async with connect(url) as client:
            await asyncio.to_thread(start.wait)
            for number in range(MESSAGES):
                await client.publish(f"/bench/{number % topics}", value)

    asyncio.run(run())


async def publish(url: str, topics: int, value: Any) -> float:
    """Cost of `publish_nowait`, everything up to the operating system included."""
    names = [f"/bench/{number}" for number in range(topics)]
    async with connect(url) as client:
        publish_nowait = client.publish_nowait
        begin = time.process_time()
        for _ in range(MESSAGES // 1000):
            for number in range(1000):
                publish_nowait(names[number % topics], value)
            await client.drain()
        return time.process_time() - begin


async def publish_awaited(url: str, topics: int, value: Any) -> float:
    """Cost of `await publish`."""
    names = [f"/bench/{number}" for number in range(topics)]
    async with connect(url) as client:
        begin = time.process_time()
        for number in range(MESSAGES):
            await client.publish(names[number % topics], value)
        await client.drain()
        return time.process_time() - begin


async def publish_blocking(url: str, topics: int, value: Any) -> float:
    """Cost of the blocking client's `publish`, both threads."""
    names = [f"/bench/{number}" for number in range(topics)]
    with blocking.connect(url) as client:
        begin = time.process_time()
        for number in range(MESSAGES):
            client.publish(names[number % topics], value)
        client.drain()
        return time.process_time() - begin


async def read_batches(messages: MessageStream) -> None:
    """Read in bulk."""
    got = 0
    while got < MESSAGES:
        got += len(await messages.batch())


async def read_one_by_one(messages: MessageStream) -> None:
    """Read by iterating."""
    got = 0
    async for _ in messages:
        got += 1
        if got == MESSAGES:
            break


def receive(read: Callable[[MessageStream], Any]) -> Callable[[str, int, Any], Any]:
    """Cost of reading; all messages are there before the hub's queue can overflow."""

    async def run(url: str, topics: int, value: Any) -> float:
        start = mp.Event()
        feeder = mp.Process(target=feed, args=(url, topics, value, start), daemon=True)
        feeder.start()
        async with connect(url, queue=QUEUE) as client, client.subscribe("/bench/") as messages:
            begin = time.process_time()
            start.set()
            await read(messages)
            spent = time.process_time() - begin
            assert client.dropped_messages == 0, "the figure would be of fewer messages"
        feeder.join()
        return spent

    return run


def main() -> None:
    """Measure everything, the best of three each."""
    place: Any = mp.Queue()
    scheme = sys.argv[1] if len(sys.argv) > 1 else "tcp"
    hub = mp.Process(target=serve, args=(f"{scheme}://127.0.0.1:0", place), daemon=True)
    hub.start()
    url = place.get()
    print(f"{scheme}, CPU µs a message; one topic / 16 topics in turn")  # noqa: T201
    for what, run in (
        ("publish_nowait", publish),
        ("await publish", publish_awaited),
        ("blocking publish", publish_blocking),
        ("await batch", receive(read_batches)),
        ("async for", receive(read_one_by_one)),
    ):
        for name, value in VALUES.items():
            best = [min(asyncio.run(run(url, topics, value)) for _ in range(3)) for topics in (1, 16)]
            print(f"{what:17} {name:18} " + " / ".join(f"{spent / MESSAGES * 1e6:5.2f}" for spent in best))  # noqa: T201
    hub.terminate()


if __name__ == "__main__":
    main()
