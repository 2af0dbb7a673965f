"""Large messages to many local subscribers: shared memory against TCP over loopback.

    python tests/benchmarks/shared_memory.py [--size 1048576] [--subscribers 20] [--messages 300]

A hub, a publisher and the subscribers (half of them in each of two processes) are processes of their own, with the
Python client. Each subscriber looks at the first and the last byte of each value, and confirms; the publisher has at
most `--window` messages on the way, so that nothing is dropped.

What is compared: TCP; a Unix socket without shared memory; memory of its own (memfd), copied by the reader to `bytes`
as `message.value`; the same looked at where it is (`views=True`); and blocks of a ring, looked at where they are.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import time
from multiprocessing.synchronize import Barrier
from typing import Any

from peers.bench.running_hub import RunningHub
from peers.bench.usage import read_usage
from peers.client import connect

MODES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "tcp": ("tcp", {}, False),
    "unix, bytes": ("unix", {"shared_memory": False}, False),
    "memfd, values": ("unix", {}, False),
    "memfd, views": ("unix", {"views": True}, False),
    "ring, views": ("unix", {"views": True}, True),
}
_PROCESSES = 2
_WARMUP = 20
_CONFIRMED = 4
"""Each so many messages are confirmed."""


async def _read(url: str, options: dict[str, Any], messages: int, size: int, subscribed: asyncio.Queue[None]) -> None:
    async with connect(url, **options) as client, client.subscribe("/large") as stream:
        subscribed.put_nowait(None)
        for number in range(messages):
            message = await anext(stream)
            with message.view() as memory:
                assert len(memory) == size
                assert memory[0] == memory[-1] == number % 256, (number, memory[0], memory[-1])
            message = memory = None  # type: ignore[assignment]
            if number % _CONFIRMED == _CONFIRMED - 1:
                client.publish_nowait("/taken", number)
        await client.drain()
        assert client.dropped_messages == 0


def subscribers(  # noqa: PLR0917 -- one process
    url: str, options: dict[str, Any], count: int, messages: int, size: int, ready: Barrier
) -> None:
    """Be so many subscribers."""

    async def run() -> None:
        subscribed: asyncio.Queue[None] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(_read(url, options, messages, size, subscribed))
            for _ in range(count):
                await subscribed.get()
            await asyncio.to_thread(ready.wait)

    asyncio.run(run())


class Window:
    """How many messages all subscribers have taken."""

    def __init__(self, count: int) -> None:
        self._left: dict[int, int] = {}
        self._count = count
        self.taken = 0
        self._more = asyncio.Event()

    def take(self, number: int) -> None:
        """Somebody has taken all messages up to this one."""
        self._left[number] = self._left.get(number, self._count) - 1
        if not self._left[number]:
            self.taken = number + 1
            self._more.set()

    async def wait(self, number: int) -> None:
        """Wait until all have taken so many."""
        while self.taken < number:
            self._more.clear()
            await self._more.wait()


async def publish(
    url: str, options: dict[str, Any], given: argparse.Namespace, hub: int, ready: Barrier, *, ring: bool
) -> tuple[float, float]:
    """Publish; return messages a second, and the hub's CPU time for one, µs."""
    values = [bytes([number]) * given.size for number in range(256)] if not ring else []
    async with connect(url, name="publisher", buffer_bytes=1 << 28, **options) as client:
        window = Window(given.subscribers)
        async with await client.subscribe_callback("/taken", lambda message: window.take(message.value)):
            await asyncio.to_thread(ready.wait)
            if ring:
                await client.allocate(given.size)
                await asyncio.sleep(0.2)
            began_s, before = 0.0, read_usage(hub)
            due_s = time.perf_counter()
            for number in range(given.messages + _WARMUP):
                await window.wait(number - given.window)
                if given.rate:
                    due_s += 1 / given.rate
                    await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                if number == _WARMUP:
                    await window.wait(number)
                    began_s, before = time.perf_counter(), read_usage(hub)
                if ring:
                    block = await client.allocate(given.size)
                    block.memory[:] = PATTERNS[number % 256][: given.size]
                    client.publish_nowait("/large", block)
                else:
                    client.publish_nowait("/large", values[number % 256])
                await client.drain()
            await window.wait(given.messages + _WARMUP)
            elapsed_s = time.perf_counter() - began_s
            cpu_ns = read_usage(hub).cpu_ns - before.cpu_ns
    return given.messages / elapsed_s, cpu_ns / 1000 / given.messages


PATTERNS: list[bytes] = []


def measure(mode: str, given: argparse.Namespace) -> tuple[float, float]:
    """Measure one mode once."""
    scheme, options, ring = MODES[mode]
    if ring and not PATTERNS:
        PATTERNS.extend(bytes([number]) * given.size for number in range(256))
    context = multiprocessing.get_context("spawn")
    hub = RunningHub.start(("tcp", "unix"))
    try:
        ready = context.Barrier(_PROCESSES + 1)
        each = given.subscribers // _PROCESSES
        counts = [each] * (_PROCESSES - 1) + [given.subscribers - each * (_PROCESSES - 1)]
        total = given.messages + _WARMUP
        workers = [
            context.Process(target=subscribers, args=(hub.urls[scheme], options, count, total, given.size, ready))
            for count in counts
        ]
        for worker in workers:
            worker.start()
        found = asyncio.run(publish(hub.urls[scheme], options, given, hub.pid, ready, ring=ring))
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0, worker.exitcode
    finally:
        hub.stop()
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1 << 20, help="bytes of a value")
    parser.add_argument("--subscribers", type=int, default=20)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--window", type=int, default=8, help="messages on the way")
    parser.add_argument("--rate", type=float, default=0.0, help="messages a second; 0 is full speed")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=MODES, action="append")
    given = parser.parse_args()
    modes = given.only or list(MODES)
    runs: dict[str, list[tuple[float, float]]] = {mode: [] for mode in modes}
    for _ in range(given.repeat):  # in turn, so that what else the machine does is shared by all
        for mode in modes:
            runs[mode].append(measure(mode, given))
    print("| | messages/s | lowest to highest | hub CPU a message | times the first |\n|---|---|---|---|---|")  # noqa: T201
    base = 0.0
    for mode, found in runs.items():
        rates = sorted(rate for rate, _ in found)
        rate, cpu_us = statistics.median(rates), statistics.median(one for _, one in found)
        base = base or rate
        spread = f"{rates[0]:,.0f} to {rates[-1]:,.0f}"
        print(f"| {mode} | {rate:,.0f} | {spread} | {cpu_us:,.0f} µs | {rate / base:.1f} |")  # noqa: T201


if __name__ == "__main__":
    main()
