"""A service: a process of its own that adds, or one that multiplies, modulo 2^64.

It answers a single pair, `[first, second]`, with a number, and an array of records with an array of results.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

from peers.bench.board import Board
from peers.bench.errors import BenchError
from peers.bench.orders import Ready, ServiceSetup
from peers.bench.station import Station, serve
from peers.bench.y.bodies import opened, options
from peers.bench.y.loop import orders_of, run
from peers.bench.y.operation import ARITHMETIC, records_topic_of, topic_of
from peers.client import Client, connect
from peers.client.service import Service, ServiceRequest
from peers.shm.ring import Block

__all__: list[str] = []


def _serve_pairs(client: Client, setup: ServiceSetup) -> Service:
    compute = ARITHMETIC[setup.operation]

    def answer(request: ServiceRequest) -> int:
        first, second = request.value
        return compute(first, second)

    return client.serve(topic_of(setup.topic, setup.operation), answer)


def _serve_records(client: Client, setup: ServiceSetup) -> Service:
    from peers.bench.y import records  # noqa: PLC0415 -- needs NumPy, which is optional

    async def answer_in_block(request: ServiceRequest) -> Block:
        with opened(request.value) as body:
            requests = records.requests_in(body)
            block = await client.allocate(len(requests) * records.RESULT_BYTES)
            records.answer(setup.operation, requests, records.results_in(block.memory))
            del requests
        return block

    def answer(request: ServiceRequest) -> memoryview:
        requests = records.requests_in(request.value)
        results = records.results_for(requests)
        records.answer(setup.operation, requests, results)
        return results.data

    function = answer_in_block if setup.shared else answer
    return client.serve(records_topic_of(setup.topic, setup.operation), function)


async def _work(station: Station, setup: ServiceSetup) -> None:
    name = f"y {setup.operation.name.lower()}"
    async with AsyncExitStack() as stack:
        chosen = options(name, shared=setup.shared, ring_bytes=setup.ring_bytes)
        client = await stack.enter_async_context(connect(setup.url, **chosen))
        await stack.enter_async_context(_serve_pairs(client, setup))
        if setup.records:
            await stack.enter_async_context(_serve_records(client, setup))
        station.answer(Ready())
        async for order in orders_of(station):
            raise BenchError(f"{order} is nothing for a service")


def _run(station: Station, setup: ServiceSetup, _: Board) -> None:
    run(_work(station, setup))


if __name__ == "__main__":
    serve(ServiceSetup, _run)
