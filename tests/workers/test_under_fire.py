"""Processes of a hub are killed, stopped, and kept from opening anything, while clients go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hub.errors import ConnectionLostError, PeerError
from peers.client import Client, connect
from peers.transport.backoff import Backoff
from peers.wire.hello import QueueWish
from tests.daemon.conftest import NEW, StartProcess
from tests.daemon.hub_process import HubProcess
from tests.hubs.eventually import eventually
from tests.workers.conftest import StartWorkers, is_worker, workers_of
from tests.workers.test_workers import heard

pytestmark = pytest.mark.timeout(300)

ROUNDS = 3
LARGE = QueueWish(messages=100_000)
QUICK = Backoff(base_s=0.01, cap_s=0.1)


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def both_up(hub: HubProcess) -> dict[int, int]:
    lines = [await hub.wait_logged("worker is up") for _ in range(2)]
    return {line["worker"]: line["pid"] for line in lines}


class Load:
    """Clients that publish numbers, and others that take them, wherever they are connected."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients
        self._is_over = False
        self.taken: dict[tuple[int, int], list[int]] = defaultdict(list)
        """By subscriber and publisher: the numbers."""

    async def publish(self, place: int) -> None:
        number = 0
        while not self._is_over:
            with contextlib.suppress(ConnectionLostError):
                await self._clients[place].publish(f"/load/{place}", [place, number])
            number += 1
            await asyncio.sleep(0.001)

    async def take(self, place: int) -> None:
        async with self._clients[place].subscribe("/load/") as messages:
            async for message in messages:
                source, number = message.value
                self.taken[place, source].append(number)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        places = range(len(self._clients))
        takers = [asyncio.create_task(self.take(place)) for place in places]
        publishers = [asyncio.create_task(self.publish(place)) for place in places]
        try:
            yield
        finally:
            self._is_over = True
            await asyncio.gather(*publishers)
            for task in takers:
                task.cancel()
            await asyncio.wait(takers)


@NEW
async def test_workers_that_are_killed(start_workers: StartWorkers, tmp_path: Path) -> None:
    socket = f"unix://{tmp_path}/hub.sock"
    hub = await start_workers(listen=("tcp://127.0.0.1:0", socket))
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    held = descriptors(hub.pid)
    chance = random.Random(1)  # noqa: S311 -- a test
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(url, queue=LARGE)) for _ in range(6)]
        quiet, listener = [await stack.enter_async_context(connect(socket)) for _ in range(2)]
        messages = await stack.enter_async_context(listener.subscribe("/quiet"))
        load = Load(clients)
        async with load.running():
            for number in range(ROUNDS):
                place = chance.choice(sorted(workers))
                os.kill(workers[place], signal.SIGKILL)
                await quiet.publish("/quiet", number)
                ended = await hub.wait_logged("worker ended")
                assert (ended["worker"], ended["reason"]) == (place, "killed by SIGKILL")
                up = await hub.wait_logged("worker is up")
                assert up["worker"] == place
                workers[place] = up["pid"]
                assert (await anext(messages)).value == number
            await heard(clients[0], clients[1], "/after/0")
            await heard(clients[1], clients[0], "/after/1")
        for numbers in load.taken.values():
            assert len(numbers) == len(set(numbers))
        assert (quiet.statistics().connections, listener.statistics().connections) == (1, 1)
    await eventually(lambda: descriptors(hub.pid) <= held)
    assert set(workers_of(hub.pid)) == set(workers.values())


async def confirmed(client: Client, place: int, found: dict[int, Any], ended: asyncio.Event) -> int:
    errors = number = 0
    while not ended.is_set():
        value = f"{place}/{number}"
        number += 1
        try:
            async with asyncio.timeout(60):
                found[await client.publish_confirmed("/a", value)] = value
        except (ConnectionLostError, PeerError):
            errors += 1
            await asyncio.sleep(0.01)
    return errors


async def recorded(url: str, offsets: set[int]) -> dict[int, Any]:
    async with connect(url) as client:
        while True:
            try:
                return {one.offset: one.value async for one in client.read("/a", start=0) if one.offset in offsets}
            except PeerError:
                await asyncio.sleep(0.05)


async def test_what_is_confirmed_is_recorded(start_workers: StartWorkers, tmp_path: Path) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    chance, ended = random.Random(2), asyncio.Event()  # noqa: S311 -- a test
    found: dict[int, Any] = {}
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(url)) for _ in range(6)]
        tasks = [asyncio.create_task(confirmed(client, place, found, ended)) for place, client in enumerate(clients)]
        for number in range(ROUNDS):
            await eventually(lambda number=number: len(found) >= 200 * (number + 1))
            place = chance.choice(sorted(workers))
            os.kill(workers[place], signal.SIGKILL)
            workers[place] = (await hub.wait_logged("worker is up"))["pid"]
        ended.set()
        await asyncio.gather(*tasks)
    assert await recorded(url, set(found)) == found


async def test_a_core_that_is_killed(start_process: StartProcess, tmp_path: Path) -> None:
    arguments = ("--workers", "2", "--name", "both", "--log-format", "json", "--journal", str(tmp_path / "journal"))
    hub = await (await start_process("--listen", "tcp://127.0.0.1:0", *arguments)).wait_up()
    url = hub.endpoints[0].location
    ended = asyncio.Event()
    found: dict[int, Any] = {}
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(url, backoff=QUICK)) for _ in range(4)]
        tasks = [asyncio.create_task(confirmed(client, place, found, ended)) for place, client in enumerate(clients)]
        for number in range(2):
            await eventually(lambda number=number: len(found) >= 100 * (number + 1))
            workers = workers_of(hub.pid)
            hub.signal(signal.SIGKILL)
            await hub.wait_ended()
            await eventually(lambda workers=workers: not any(map(is_worker, workers)))
            hub = await (await start_process("--listen", url, *arguments)).wait_up()
        await eventually(lambda: len(found) >= 300)
        ended.set()
        errors = await asyncio.gather(*tasks)
        assert sum(errors) > 0
    assert await recorded(url, set(found)) == found
    workers = workers_of(hub.pid)
    hub.signal(signal.SIGTERM)
    code, log = await hub.wait_ended()
    assert code == 0
    assert "Traceback" not in log


async def test_no_descriptors(start_workers: StartWorkers) -> None:
    hub = await start_workers()
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    limits = resource.prlimit(hub.pid, resource.RLIMIT_NOFILE)
    async with connect(url) as one, connect(url) as other, other.subscribe("/a") as messages:
        resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        os.kill(workers[1], signal.SIGKILL)
        ended = await hub.wait_logged("worker ended")
        assert ended["reason"] == "killed by SIGKILL"
        ended = await hub.wait_logged("worker ended")
        assert ended["reason"] == "it cannot be started: Too many open files"
        first = asyncio.create_task(anext(messages))
        while not first.done():
            with contextlib.suppress(ConnectionLostError):
                await one.publish("/a", 1)
            await asyncio.wait([first], timeout=0.02)
        resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, limits)
        assert (await hub.wait_logged("worker is up"))["worker"] == 1


async def test_clients_of_a_worker_that_is_stopped(start_workers: StartWorkers) -> None:
    hub = await start_workers("--limits-ping-after-s", "1", "--limits-ping-timeout-s", "1")
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(url)) for _ in range(6)]
        os.kill(workers[2], signal.SIGSTOP)
        late = [asyncio.create_task(connected(url)) for _ in range(8)]
        ended = await hub.wait_logged("worker ended")
        assert (ended["worker"], ended["reason"]) == (2, "killed by SIGKILL")
        await hub.wait_logged("worker is up")
        clients += await asyncio.gather(*late)
        for place, client in enumerate(clients[1:]):
            await heard(clients[0], client, f"/again/{place}")
        for client in clients[6:]:
            await client.close()


async def connected(url: str) -> Client:
    while True:
        try:
            return await connect(url)
        except ConnectionLostError:
            await asyncio.sleep(0.05)


async def test_a_core_that_is_stopped(start_workers: StartWorkers) -> None:
    hub = await start_workers("--limits-ping-after-s", "1", "--limits-ping-timeout-s", "1")
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    async with connect(url, backoff=QUICK) as one, connect(url, backoff=QUICK) as other:
        hub.signal(signal.SIGSTOP)
        try:
            await eventually(lambda: not any(map(is_worker, workers.values())))
        finally:
            hub.signal(signal.SIGCONT)
        for _ in range(2):
            assert (await hub.wait_logged("worker ended"))["reason"] == "exit code 3"
        await both_up(hub)
        await heard(one, other, "/a")
        await heard(other, one, "/b")
    assert len(workers_of(hub.pid)) == 2
