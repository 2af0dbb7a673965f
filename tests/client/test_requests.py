"""Asking and serving with the asyncio client, over each transport, on each loop, with a real hub."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hub.errors import ConnectionLostError
from peers.client import (
    BusyError,
    Client,
    ClosedError,
    InvalidNameError,
    InvalidTopicError,
    InvalidValueError,
    NoResponderError,
    RequestError,
    RequestFailedError,
    RequestTimeoutError,
    RequestTooBigError,
    ServiceRequest,
    UsageError,
    connect,
)
from tests.client.scripted import Told
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


def double(request: ServiceRequest) -> Any:
    return request.value * 2


async def echo(request: ServiceRequest) -> list[Any]:
    await asyncio.sleep(0)
    return [request.topic, request.value]


def refuse(_: ServiceRequest) -> None:
    raise LookupError("no such thing")


async def test_many_at_once(client: Client, server: Client) -> None:
    async def mixed(request: ServiceRequest) -> Any:
        if request.value % 3 == 0:
            await asyncio.sleep(0)
        if request.value % 7 == 0:
            raise ValueError(f"no {request.value}")
        return request.value

    async with server.serve("/double", double), server.serve("/mixed", mixed, concurrency=5):
        futures = [client.request_nowait("/double/x" if n % 2 else "/mixed/x", n) for n in range(1000)]
        answers = await asyncio.gather(*futures, return_exceptions=True)
        for number, answer in enumerate(answers):
            if number % 2:
                assert answer == number * 2
            elif number % 7:
                assert answer == number
            else:
                assert isinstance(answer, RequestFailedError)
                assert str(answer) == f"no {number}"
        many = await client.request_many("/mixed/x", range(1, 1000), return_exceptions=True)
        assert [n for n, answer in enumerate(many, 1) if isinstance(answer, RequestError)] == [*range(7, 1000, 7)]
        assert await client.request_many("/double", (n for n in (1, 2, 3))) == [2, 4, 6]
        assert await client.request_many("/double", []) == []
        with pytest.raises(RequestFailedError, match="no 7"):
            await client.request_many("/mixed", [1, 7, 14])


async def test_in_batches(client: Client, server: Client) -> None:
    async def later(values: list[Any]) -> list[Any]:
        await asyncio.sleep(0)
        return [value + 1 for value in values]

    sizes: list[int] = []

    def now(values: list[Any]) -> list[Any]:
        sizes.append(len(values))
        return [-value for value in values]

    async with (
        server.serve_batches("/now", now),
        server.serve_batches("/later", later),
        server.serve_batches("/short", lambda values: values[1:]),
        server.serve_batches("/raises", lambda _: 1 / 0),
    ):
        assert await client.request_many("/now", range(100)) == [-n for n in range(100)]
        assert sizes == [100]
        assert await client.request_many("/later", range(100)) == [*range(1, 101)]
        for topic, text in (("/short", "must return a list of as many replies"), ("/raises", "division")):
            answers = await client.request_many(topic, [1, 2], return_exceptions=True)
            assert all(isinstance(answer, RequestFailedError) and text in str(answer) for answer in answers)


async def test_large_values(client: Client, server: Client) -> None:
    large = b"x" * 300_000
    async with (
        server.serve("/echo", lambda request: request.value),
        server.serve("/long", lambda request: bytes(request.value)),
    ):
        answers = await asyncio.gather(*(client.request("/echo", large + bytes([n])) for n in range(20)))
        assert [answer[-1] for answer in answers] == [*range(20)]
        many = await client.request_many("/echo", [large, 1, large, 2, large, 3, large])
        assert many == [large, 1, large, 2, large, 3, large]
        with pytest.raises(RequestTooBigError):
            await client.request("/echo", bytes(17 * 1024 * 1024))
        with pytest.raises(RequestTooBigError):
            await client.request_many("/echo", [bytes(17 * 1024 * 1024)])
        with pytest.raises(RequestFailedError, match="accepts at most"):
            await client.request("/long", 17 * 1024 * 1024)
        assert await client.request("/long", 1) == b"\0"


async def test_failures(client: Client, server: Client) -> None:
    def odd(request: ServiceRequest) -> Any:
        return object() if request.value == 1 else request.value

    async def none(_: ServiceRequest) -> Any:
        raise KeyError

    async with server.serve("/refuse", refuse) as service, server.serve("/odd", odd), server.serve("/none", none):
        with pytest.raises(RequestFailedError) as caught:
            await client.request("/refuse", 1)
        assert (caught.value.status, caught.value.code, str(caught.value)) == (1, 4101, "no such thing")
        answers = await client.request_many("/odd", [0, 1, 2], return_exceptions=True)
        assert (answers[0], answers[2]) == (0, 2)
        assert "msgpack" in str(answers[1])
        with pytest.raises(RequestFailedError, match="KeyError"):
            await client.request("/none", 1)
        await client.request_many("/refuse", [1, 2, 3], return_exceptions=True)
        assert (service.requests, service.failures) == (4, 4)


async def test_bad_calls(client: Client) -> None:
    for timeout_s in (0, -1, 3601, float("nan")):
        with pytest.raises(UsageError):
            await client.request("/a", 1, timeout_s=timeout_s)
    with pytest.raises(InvalidNameError):
        await client.request("/a", 1, name=True)
    with pytest.raises(InvalidValueError):
        client.request_nowait("/a", object())
    with pytest.raises(InvalidValueError):
        await client.request_many("/a", [object()])
    with pytest.raises(UsageError):
        client.serve("/a", double, concurrency=0)
    with pytest.raises(InvalidTopicError):
        client.serve("/a\0", double)
    async with client.serve(["/a", "/b"], double):
        with pytest.raises(UsageError, match="serves '/b' already"):
            await client.serve(["/c", "/b"], double).open()
        assert await client.request("/b", 1) == 2


async def test_a_service_that_is_closed_finishes_what_it_has(client: Client, server: Client) -> None:
    go = asyncio.Event()

    async def wait(request: ServiceRequest) -> Any:
        await go.wait()
        return request.value

    service = server.serve("/wait", wait, concurrency=2)
    async with service:
        futures = [client.request_nowait("/wait", number) for number in range(5)]
        await eventually(lambda: service.requests == 5)
        assert service.running == 2
        asyncio.get_running_loop().call_soon(go.set)
    assert await asyncio.gather(*futures) == [0, 1, 2, 3, 4]
    await service.close()
    with pytest.raises(NoResponderError):
        await client.request("/wait", 1)


async def test_a_service_that_does_not_end(client: Client, hub: Hub) -> None:
    async def wait(_: ServiceRequest) -> None:
        await asyncio.Event().wait()

    async with connect(hub.url, close_timeout_s=0.01) as server:
        service = server.serve("/wait", wait, concurrency=1)
        async with service:
            futures = [client.request_nowait("/wait", number) for number in range(3)]
            await eventually(lambda: service.requests == 3)
        for future in futures:
            with pytest.raises(RequestFailedError, match="was closed"):
                await future


async def test_closing(hub: Hub) -> None:
    async def wait(_: ServiceRequest) -> None:
        await asyncio.Event().wait()

    async with connect(hub.url, close_timeout_s=0.01) as server, server.serve("/wait", wait) as service:
        client = await connect(hub.url)
        future = client.request_nowait("/wait", 1)
        await eventually(lambda: service.requests == 1)
        unsent = client.request_nowait("/wait", 2)
        await client.close()
        for each in (future, unsent):
            with pytest.raises(ClosedError):
                await each
        with pytest.raises(ClosedError):
            await client.request("/wait", 1)
        with pytest.raises(ClosedError):
            await client.request_many("/wait", [1])
        with pytest.raises(ClosedError):
            await client.serve("/a", double).open()
        again = await connect(hub.url, reconnect=False)
        lost = again.request_nowait("/wait", 1)
        await eventually(lambda: service.requests == 2)
        await hub.crash()
        with pytest.raises(ConnectionLostError):
            await lost
        with pytest.raises(ConnectionLostError):
            await again.request("/wait", 1)
        await again.close()


async def test_more_than_the_buffer_holds(server: Client, hub: Hub) -> None:
    async with connect(hub.url, buffer_bytes=2000) as client, server.serve("/a", lambda request: len(request.value)):
        futures = [client.request_nowait("/a", bytes(800)), client.request_nowait("/a", bytes(800))]
        with pytest.raises(BusyError):
            client.request_nowait("/a", bytes(800))
        assert await client.request("/a", bytes(900)) == 900
        assert await client.request("/a", bytes(5000)) == 5000
        assert await client.request_many("/a", [bytes(900)] * 5) == [900] * 5
        assert await asyncio.gather(*futures) == [800, 800]
        work = [client.request("/a", bytes(number)) for number in range(500)]
        assert await asyncio.gather(*work) == [*range(500)]


async def test_without_a_connection_time_is_kept(start_hub: StartHub) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url) as client:
        await hub.stop()
        await told.disconnected.get()
        patient = client.request_nowait("/a", 1, timeout_s=60)
        with pytest.raises(RequestTimeoutError, match="no connection"):
            await client.request("/a", 1, timeout_s=0.01)
        impatient = client.request_nowait("/a", 1, timeout_s=0.01)
        with pytest.raises(RequestTimeoutError):
            await impatient
        assert not patient.done()
        assert client.statistics().pending_requests == 1
    with pytest.raises(ClosedError):
        await patient


async def test_packed_values(client: Client, server: Client) -> None:
    packed = msgspec.msgpack.encode([1, 2])
    async with server.serve("/a", double):
        assert await client.request_packed_nowait("/a", packed) == [1, 2, 1, 2]
        assert await client.request_packed("/a", packed) == [1, 2, 1, 2]


async def test_cancelling(client: Client, server: Client) -> None:
    async with server.serve("/a", double):
        futures = [client.request_nowait("/a", number) for number in range(4)]
        futures[1].cancel()
        await asyncio.wait(futures)
        assert [future.cancelled() for future in futures] == [False, True, False, False]
        assert [futures[n].result() for n in (0, 2, 3)] == [0, 4, 6]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.request("/a", 1)
