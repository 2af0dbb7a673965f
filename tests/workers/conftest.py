"""Hubs with workers, as a user starts them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest

from hub.errors import RequestError
from peers.client import Client, connect
from peers.transport.endpoints import Endpoint
from tests.cli.programs import RunningHub, run_hub
from tests.daemon.conftest import StartProcess, is_new, nowhere, start_process
from tests.daemon.hub_process import HubProcess
from tests.forked.servers import asked_by
from tests.hubs.raw_client import RawClient

__all__ = ["both", "is_new", "nowhere", "spread", "spread_raw", "start_process", "start_workers"]
StartWorkers = Callable[..., Awaitable[HubProcess]]
SpreadClients = Callable[..., Awaitable[list[Client]]]
Three = tuple[RawClient, RawClient, RawClient]
SpreadRaw = Callable[..., Awaitable[Three]]


def is_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"peers.workers.worker" in command or (command != b"" and asked_by(pid) > 0)


def workers_of(core: int) -> list[int]:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:  # it has ended meanwhile
                continue
            pid = int(place.name)
            if core in {int(parent), asked_by(pid)} and state != "Z":
                found.append(pid)
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """One hub for the tests of a module: with a journal, and a store that is fed."""
    folder = tmp_path_factory.mktemp("both")
    flags = ("--journal", f"{folder}/journal", "--store", "s=:memory:", "--store-from", "s=/status/")
    with run_hub(folder, "--workers", "2", "--name", "both", *flags) as hub:
        yield hub


@pytest.fixture
async def start_workers(start_process: StartProcess) -> AsyncIterator[StartWorkers]:
    started: list[int] = []

    async def start(*arguments: str, listen: tuple[str, ...] = ("tcp://127.0.0.1:0",)) -> HubProcess:
        flags = [word for url in listen for word in ("--listen", url)]
        process = await start_process(*flags, "--workers", "2", "--name", "both", "--log-format", "json", *arguments)
        await process.wait_up(len(listen))
        started.extend(workers_of(process.pid))
        return process

    yield start
    for worker in started:
        if is_worker(worker):
            os.kill(worker, signal.SIGKILL)


@pytest.fixture
async def spread() -> AsyncIterator[SpreadClients]:
    async with AsyncExitStack() as stack:

        async def spread(url: str, **options: Any) -> list[Client]:
            found: dict[str, Client] = {}
            while len(found) < 2:
                client = await stack.enter_async_context(connect(url, **options))
                assert client.hub is not None
                found[client.hub.name] = client
            assert sorted(found) == ["both/1", "both/2"]
            return [found[name] for name in sorted(found)]

        yield spread


@pytest.fixture
async def spread_raw() -> AsyncIterator[SpreadRaw]:
    with ExitStack() as stack:

        async def spread(
            endpoint: Endpoint, receive_bytes: int | None = None
        ) -> tuple[RawClient, RawClient, RawClient]:
            found: dict[str, list[RawClient]] = {"both/1": [], "both/2": []}
            while len(found["both/1"]) < 2 or not found["both/2"]:
                client = await RawClient.connect(endpoint, receive_bytes=receive_bytes)
                stack.callback(client.close)
                found[(await client.greet()).name].append(client)
            return found["both/1"][0], found["both/2"][0], found["both/1"][1]

        yield spread


async def heard(publisher: Client, subscriber: Client, topic: str) -> None:
    async with subscriber.subscribe(topic) as messages:
        first = asyncio.create_task(anext(messages))
        while not first.done():
            await publisher.publish(topic, 1)
            await asyncio.wait([first], timeout=0.02)
        assert first.result().value == 1


async def asked(client: Client, topic: str, value: Any, *, name: bool = False) -> Any:
    while True:
        try:
            return await client.request(topic, value, name=name)
        except RequestError:
            await asyncio.sleep(0.01)
