"""One hub of several processes: its clients notice nothing of that, whichever worker serves them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hub.batch import decode_values
from hub.errors import CloseCode, RequestError
from peers.client import Client
from peers.wire.kinds import Kind
from tests.daemon.conftest import NEW, StartProcess
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient, numbered
from tests.workers.conftest import SpreadClients, SpreadRaw, StartWorkers, is_worker, workers_of

pytestmark = pytest.mark.timeout(120)


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


@NEW
async def test_clients_of_all_workers_are_together(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    assert hub.name == "both"
    one, two = await spread(hub.endpoints[0].location)
    await heard(one, two, "/a")
    await heard(two, one, "/b")
    async with one.serve("/double", lambda request: request.value * 2), await one.claim("org.example.Printer"):
        assert await asked(two, "/double", 21) == 42
        while not [known for known in await two.names() if known.name == "org.example.Printer"]:  # noqa: ASYNC110 -- until it is told
            await asyncio.sleep(0.01)


async def test_history_is_that_of_the_core(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    both = await spread(hub.endpoints[0].location)
    for client in both:
        await client.publish("/a", 1)
    for client in both:
        found: list[Any] = []
        while len(found) < 2:  # what was published is on its way to the core, or to the disk
            found = [(record.offset, record.value) async for record in client.read("/a", start=0)]
        assert found == [(0, 1), (1, 1)]
    assert [await client.publish_confirmed("/a", 2) for client in both] == [2, 3]


@NEW
async def test_a_worker_that_dies_is_replaced(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    one, two = await spread(hub.endpoints[0].location)
    async with one.subscribe("/a") as messages:
        log = [await hub.wait_logged("worker is up") for _ in range(2)]
        (victim,) = (line["pid"] for line in log if line["worker"] == 1)
        os.kill(victim, signal.SIGKILL)
        ended = await hub.wait_logged("worker ended")
        assert (ended["worker"], ended["pid"], ended["reason"]) == (1, victim, "killed by SIGKILL")
        assert (await hub.wait_logged("worker is up"))["worker"] == 1
        first = asyncio.create_task(anext(messages))
        while not first.done():
            await two.publish("/a", 1)
            await asyncio.wait([first], timeout=0.02)
    assert one.statistics().connections > 1
    assert two.statistics().connections == 1
    assert victim not in workers_of(hub.pid)
    assert len(workers_of(hub.pid)) == 2


async def test_a_worker_that_hangs_is_replaced(start_workers: StartWorkers) -> None:
    hub = await start_workers("--limits-ping-after-s", "0.5", "--limits-ping-timeout-s", "0.5")
    victim = (await hub.wait_logged("worker is up"))["pid"]
    await hub.wait_logged("worker is up")
    os.kill(victim, signal.SIGSTOP)
    ended = await hub.wait_logged("worker ended")
    assert (ended["pid"], ended["reason"]) == (victim, "killed by SIGKILL")
    await hub.wait_logged("worker is up")
    assert victim not in workers_of(hub.pid)


async def test_a_client_may_take_the_time_there_is(start_workers: StartWorkers, spread_raw: SpreadRaw) -> None:
    hub = await start_workers("--queue-messages", "100000", "--limits-drain-s", "60")
    slow, _, publisher = await spread_raw(hub.endpoints[0], receive_bytes=4096)
    await slow.subscribe("/flood")
    total = 20_000
    await publisher.send(numbered("/flood", range(total), padding=1000))
    await publisher.ping()
    hub.signal(signal.SIGTERM)
    assert await publisher.end() == (CloseCode.GOING_AWAY, "the hub stops")
    await hub.wait_logged("connection closed")
    publisher.close()
    assert await slow.numbers_and_gaps(total) == list(range(total))
    assert await slow.end() == (CloseCode.GOING_AWAY, "the hub stops")
    slow.close()
    assert (await hub.wait_ended())[0] == 0


async def test_what_one_worker_has_heard_reaches_the_others(start_workers: StartWorkers, spread_raw: SpreadRaw) -> None:
    hub = await start_workers("--queue-messages", "100000", "--limits-drain-s", "60")
    publisher, subscriber, _ = await spread_raw(hub.endpoints[0])
    await subscriber.subscribe("/flood")
    first = asyncio.create_task(subscriber.frame())
    while not first.done():
        await publisher.publish("/flood", [-1, b""])
        await asyncio.wait([first], timeout=0.02)
    total = 5_000
    await publisher.send(numbered("/flood", range(total), padding=1000))
    hub.signal(signal.SIGTERM)
    assert await publisher.end() == (CloseCode.GOING_AWAY, "the hub stops")
    publisher.close()
    got: list[int] = []
    async for frame in subscriber.frames():
        if frame.kind == Kind.CLOSE:
            break
        got += [number for number, _ in decode_values(frame)]
    assert got[got.index(0) :] == list(range(total))
    subscriber.close()
    assert (await hub.wait_ended())[0] == 0


@NEW
async def test_nobody_outlives_the_core(start_workers: StartWorkers) -> None:
    hub = await start_workers()
    workers = workers_of(hub.pid)
    assert len(workers) == 2
    hub.signal(signal.SIGKILL)
    await hub.wait_ended()
    await eventually(lambda: not any(is_worker(pid) for pid in workers))


@NEW
async def test_all_stop_together(start_workers: StartWorkers) -> None:
    hub = await start_workers()
    workers = workers_of(hub.pid)
    clients = [await RawClient.connect(hub.endpoints[0]) for _ in range(8)]
    for client in clients:
        await client.greet()
    hub.signal(signal.SIGTERM)
    for client in clients:
        assert await client.end() == (CloseCode.GOING_AWAY, "the hub stops")
        client.close()
    code, log = await hub.wait_ended()
    assert code == 0
    assert '"level":"error"' not in log.replace(" ", "")
    assert "Traceback" not in log
    assert not any(is_worker(pid) for pid in workers)


async def test_a_reload_reaches_all(start_workers: StartWorkers, tmp_path: Any) -> None:
    (tmp_path / "hub.toml").write_text("[queue]\nmessages = 100\n")
    hub = await start_workers()
    (tmp_path / "hub.toml").write_text("[queue]\nmessages = 200\n")
    hub.signal(signal.SIGHUP)
    lines = [await hub.wait_logged("settings reloaded") for _ in range(3)]
    assert sorted(line.get("worker", 0) for line in lines) == [0, 1, 2]
    assert all((line["applied"], line["needs_restart"]) == (["queue.messages"], []) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--workers", "0"), "a whole number from 1 to 64"),
        (("--workers", "65"), "a whole number from 1 to 64"),
        (("--workers", "2", "--listen", "unix:///tmp/never.sock"), "they serve tcp, tls, ws and wss"),
        (("--workers", "2", "--listen", "wss://127.0.0.1:0"), "tls.certificate"),
    ],
)
async def test_what_cannot_be(start_process: StartProcess, arguments: tuple[str, ...], text: str) -> None:
    hub = await start_process(*arguments, "--log-level", "error")
    code, log = await hub.wait_ended()
    assert code != 0
    assert text in log
    assert len(log.splitlines()) == 1, log


async def test_a_port_in_use(start_workers: StartWorkers, start_process: StartProcess) -> None:
    hub = await start_workers()
    url = hub.endpoints[0].location
    other = await start_process("--workers", "2", "--listen", url, "--log-level", "error")
    code, log = await other.wait_ended()
    assert code != 0
    assert f"cannot listen on {url}: port {hub.endpoints[0].port} is in use by another process" in log
    assert len(log.splitlines()) == 1, log
