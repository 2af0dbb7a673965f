"""What a request costs in a client that asks and in one that answers: CPU time of each process, the hub in its own.

    python -m tests.client.measure_requests [tcp|unix|ws]

Not a test: figures depend on the machine. Those in docs/performance.md, "Requests", come from here.
"""

from __future__ import annotations

import asyncio
import multiprocessing as mp
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog
import uvloop

from hub.settings.settings import Settings
from peers.client import Client, ServiceRequest, connect
from peers.transport.endpoints import Endpoint
from tests.hubs.hub import Hub

REQUESTS = 300_000
OUTSTANDING = 1024
TOPICS = ("/add", "/multiply")
PACKED = msgspec.msgpack.encode([3, 4])


def serve_hub(url: str, place: Any, spent: Any) -> None:
    """Run a hub until the process is ended; tell the CPU time when asked."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))

    async def run() -> None:
        hub = Hub(Settings())
        await hub.listen(Endpoint.parse(url))
        place.put(hub.url)
        await tell(spent)

    uvloop.run(run())


async def tell(spent: Any) -> None:
    """Tell the CPU time of this process whenever the other side asks for it."""
    while True:
        await asyncio.to_thread(spent.recv)
        spent.send(time.process_time())


def add(request: ServiceRequest) -> int:
    """Answer one request."""
    one, other = request.value
    return int(one + other)


async def add_async(request: ServiceRequest) -> int:
    """The same, in a task."""
    return add(request)


def add_batch(values: list[Any]) -> list[Any]:
    """Answer several at once."""
    return [one + other for one, other in values]


def answer(url: str, topic: str, how: str, spent: Any) -> None:
    """Serve one topic until the process is ended."""

    async def run() -> None:
        async with connect(url) as client:
            service = {
                "plain": lambda: client.serve(topic, add),
                "async": lambda: client.serve(topic, add_async),
                "batches": lambda: client.serve_batches(topic, add_batch),
            }[how]()
            async with service:
                spent.send(None)
                await tell(spent)

    uvloop.run(run())


async def ask_packed(client: Client) -> None:
    """`request_packed_nowait`, a new one for each answer."""
    done = asyncio.get_running_loop().create_future()
    left, sent = REQUESTS, 0

    def ask() -> None:
        nonlocal sent
        client.request_packed_nowait(TOPICS[sent & 1], PACKED).add_done_callback(answered)
        sent += 1

    def answered(future: asyncio.Future[Any]) -> None:
        nonlocal left
        assert future.result() == 7
        left -= 1
        if sent < REQUESTS:
            ask()
        elif not left:
            done.set_result(None)

    for _ in range(OUTSTANDING):
        ask()
    await done


async def ask_in_tasks(client: Client) -> None:
    """`await request` in as many tasks."""

    async def work(number: int) -> None:
        topic = TOPICS[number & 1]
        for _ in range(REQUESTS // OUTSTANDING):
            assert await client.request(topic, [3, 4]) == 7

    await asyncio.gather(*map(work, range(OUTSTANDING)))


async def ask_many(client: Client) -> None:
    """`request_many`, half of what may be outstanding at a time to each service."""

    async def work(topic: str) -> None:
        for _ in range(REQUESTS // OUTSTANDING):
            assert await client.request_many(topic, [[3, 4]] * (OUTSTANDING // 2)) == [7] * (OUTSTANDING // 2)

    await asyncio.gather(*map(work, TOPICS))


async def ask_one_by_one(client: Client) -> None:
    """`await request`, one outstanding."""
    for number in range(REQUESTS // 20):
        assert await client.request(TOPICS[number & 1], [3, 4]) == 7


def cost(pipe: Any) -> float:
    """Ask a process for its CPU time."""
    pipe.send(None)
    spent: float = pipe.recv()
    return spent


async def measure(url: str, ask: Callable[[Client], Any], requests: int, processes: list[Any]) -> None:
    """Measure one way of asking."""
    async with connect(url) as client:
        await ask(client)
        before = [cost(pipe) for pipe in processes]
        begin, cpu = time.perf_counter(), time.process_time()
        await ask(client)
        wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
        hub, *services = [cost(pipe) - was for pipe, was in zip(processes, before, strict=True)]
        each = 1e6 / requests
        print(  # noqa: T201
            f"  {ask.__name__:16} {requests / wall:9,.0f}/s  requester {cpu * each:5.2f}  hub {hub * each:5.2f}  "
            f"services {sum(services) * each:5.2f} µs CPU a request"
        )


def main() -> None:
    """Measure everything."""
    scheme = sys.argv[1] if len(sys.argv) > 1 else "unix"
    with tempfile.TemporaryDirectory() as folder:
        listen = f"unix://{folder}/hub.sock" if scheme == "unix" else f"{scheme}://127.0.0.1:0"
        place: Any = mp.Queue()
        hub_end, far_end = mp.Pipe()
        hub = mp.Process(target=serve_hub, args=(listen, place, far_end), daemon=True)
        hub.start()
        url = place.get()
        for how in sys.argv[2:] or ("plain", "batches", "async"):
            print(f"{scheme}, {OUTSTANDING} outstanding, two services: {how}")  # noqa: T201
            pipes: list[Any] = [hub_end]
            services = []
            for topic in TOPICS:
                near, far = mp.Pipe()
                services.append(mp.Process(target=answer, args=(url, topic, how, far), daemon=True))
                services[-1].start()
                near.recv()
                pipes.append(near)
            for ask in (ask_packed, ask_in_tasks, ask_many):
                uvloop.run(measure(url, ask, REQUESTS, pipes))
            uvloop.run(measure(url, ask_one_by_one, REQUESTS // 20, pipes))
            for service in services:
                service.terminate()
                service.join()
        hub.terminate()


if __name__ == "__main__":
    main()
