"""Processes of a hub start, reload, are killed, stopped, kept from opening anything, and end, while clients go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, ConnectionLostError, PeerError, RejectedError, RequestError
from hub.messages.batch import decode_values
from peers.client import Client, connect
from peers.daemon.reloading import MANY
from peers.transport.timing import Backoff
from peers.users.tokens import TokenFile
from peers.wire.hello import QueueWish
from peers.wire.kinds import Kind
from tests.daemon.conftest import NEW, StartProcess
from tests.daemon.hub_process import HubProcess
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient, numbered
from tests.workers.conftest import SpreadClients, SpreadRaw, StartWorkers, heard, is_worker, workers_of

pytestmark = pytest.mark.timeout(300)
TCP = "tcp://127.0.0.1:0"
BOTH = (TCP, "ws://127.0.0.1:0")
LARGE = QueueWish(messages=100_000)
QUICK = Backoff(base_s=0.01, cap_s=0.1)
PING_SOON = ("--limits-ping-after-s", "1", "--limits-ping-timeout-s", "1")


async def both_up(hub: HubProcess) -> dict[int, int]:
    lines = [await hub.wait_logged("worker is up") for _ in range(2)]
    return {line["worker"]: line["pid"] for line in lines}


async def get(hub: HubProcess, path: str) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{hub.page}{path}", timeout=60) as answer:  # noqa: S310 -- this test's own hub
                return answer.status, answer.read().decode().strip()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode().strip()
        except OSError as error:
            return 0, str(error)

    return await asyncio.to_thread(ask)


async def until(hub: HubProcess, path: str, wanted: tuple[int, str]) -> None:
    while await get(hub, path) != wanted:  # noqa: ASYNC110 -- nobody tells
        await asyncio.sleep(0.02)


# Start and end.


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--workers", "0"), "a whole number from 1 to 64"),
        (("--workers", "2", "--listen", "unix:///tmp/never.sock"), "they serve tcp, tls, ws and wss"),
        (("--workers", "2", "--listen", "wss://127.0.0.1:0"), "tls.certificate"),
    ],
)
async def test_what_cannot_be(start_process: StartProcess, arguments: tuple[str, ...], text: str) -> None:
    code, log = await (await start_process(*arguments, "--log-level", "error")).wait_ended()
    assert code != 0
    assert text in log
    assert len(log.splitlines()) == 1, log


@NEW
async def test_a_port_in_use_and_all_stop_together(start_workers: StartWorkers, start_process: StartProcess) -> None:
    hub = await start_workers()
    workers = workers_of(hub.pid)
    assert (hub.name, len(workers)) == ("both", 2)
    endpoint = hub.endpoints[0]
    other = await start_process("--workers", "2", "--listen", endpoint.location, "--log-level", "error")
    code, log = await other.wait_ended()
    assert code != 0
    assert f"cannot listen on {endpoint.location}: port {endpoint.port} is in use by another process" in log
    assert len(log.splitlines()) == 1, log
    clients = [await RawClient.connect(endpoint) for _ in range(8)]
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
    assert not any(map(is_worker, workers))


async def test_clients_may_take_the_time_there_is(start_workers: StartWorkers, spread_raw: SpreadRaw) -> None:
    """What one worker has heard reaches clients of the others, and those that read slowly, before the hub is gone."""
    hub = await start_workers("--queue-messages", "100000", "--limits-drain-s", "60")
    slow, subscriber, publisher = await spread_raw(hub.endpoints[0], receive_bytes=4096)
    await subscriber.subscribe("/flood")
    first = asyncio.create_task(subscriber.frame())
    while not first.done():
        await publisher.publish("/flood", [-1, b""])
        await asyncio.wait([first], timeout=0.02)
    await slow.subscribe("/flood")
    total = 4_000
    await publisher.send(numbered("/flood", range(total), padding=1000))
    await publisher.ping()
    hub.signal(signal.SIGTERM)
    assert await publisher.end() == (CloseCode.GOING_AWAY, "the hub stops")
    await hub.wait_logged("connection closed")
    got: list[int] = []
    async for frame in subscriber.frames():
        if frame.kind == Kind.CLOSE:
            break
        got += [number for number, _ in decode_values(frame)]
    assert got[got.index(0) :] == list(range(total))
    assert await slow.numbers_and_gaps(total) == list(range(total))
    assert await slow.end() == (CloseCode.GOING_AWAY, "the hub stops")
    for client in (slow, subscriber, publisher):
        client.close()
    assert (await hub.wait_ended())[0] == 0


async def test_reloads_and_the_end_by_a_worker(
    start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path
) -> None:
    settings = tmp_path / "hub.toml"
    settings.write_text("[queue]\nmessages = 100\n")
    hub = await start_workers("--drain-clients-per-s", "1000")
    workers = workers_of(hub.pid)
    url = hub.endpoints[0].location
    one, two = await spread(url, reconnect=False)
    for messages, client in ((200, one), (300, two), (400, None)):
        settings.write_text(f"[queue]\nmessages = {messages}\n")
        if client is None:
            hub.signal(signal.SIGHUP)
        else:
            answer = await client.request("$hub/reload", None)
            assert answer == {"changed": ["queue.messages"], "needs_restart": [], "closed": 0}
        lines = [await hub.wait_logged("settings reloaded") for _ in range(3)]
        assert sorted(line.get("worker", 0) for line in lines) == [0, 1, 2]
        assert all((line["applied"], line["needs_restart"]) == (["queue.messages"], []) for line in lines)
    settings.write_text("[queue]\nmessages = 0\n")
    with pytest.raises(RequestError, match=r"queue\.messages: 0 given"):
        await one.request("$hub/reload", None)
    clients = [await connect(url, reconnect=False) for _ in range(20)]
    known = await one.request("$hub/who", None)
    begun = await clients[0].request("$hub/drain", None)
    assert begun["clients"] == sum(row["role"] == "client" for row in known) >= 22
    for client in (one, two, *clients):
        with pytest.raises(ConnectionLostError):
            await client.wait_closed()
    code, log = await hub.wait_ended()
    assert code == 0
    assert "Traceback" not in log
    assert not any(map(is_worker, workers))


async def test_users_are_those_of_the_hub(start_workers: StartWorkers, tmp_path: Path) -> None:
    """Whoever a policy knows is known everywhere; a reload that would close most of all workers' clients is refused."""
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[roles.watcher]\nsubscribe = ["/open"]\npublish = ["/open", "/secret"]\nrequest = ["$hub"]\n'
        '[users]\nada = ["admin"]\nbob = ["watcher"]\n'
    )
    file = TokenFile(str(tmp_path / "tokens"))
    token = {user: file.add(user, datetime.now(UTC))[0] for user in ("ada", "bob")}
    hub = await start_workers("--access-policy", str(policy), "--access-tokens", str(tmp_path / "tokens"))
    url = hub.endpoints[0].location
    for _ in range(4):  # whichever worker
        with pytest.raises(RejectedError, match="not recognised"):
            await connect(url, reconnect=False)
    async with AsyncExitStack() as stack:
        at: dict[str, dict[str, Client]] = {"ada": {}, "bob": {}}
        clients: dict[str, list[Client]] = {"ada": [], "bob": []}
        for user, least in (("ada", 0), ("bob", MANY)):
            while len(at[user]) < 2 or len(clients[user]) <= least:
                client = await stack.enter_async_context(connect(url, name=user, token=token[user]))
                assert client.hub is not None
                at[user][client.hub.name] = client
                clients[user].append(client)
        for bob in at["bob"].values():
            with pytest.raises(RejectedError):
                await bob.publish_confirmed("/a", 1)
            await bob.publish("/open/a", 1)
            await bob.publish("/secret/a", 1)
        for bob in at["bob"].values():
            while (answer := await bob.request("$hub/topics", None))["counted"] < 1:
                pass
            assert [(row["prefix"], row["subscribers"]) for row in answer["rows"]] == [("/open/", None)]
        for ada in at["ada"].values():
            asked = {"action": "publish", "topic": "/a", "user": "bob"}
            assert not (await ada.request("$hub/policy/test", asked))["verdict"]["allowed"]
            told = await ada.request("$hub/audit", None)
            assert {event["user"] for event in told if event.get("action") == "publish"} == {"bob"}
            users = {row["user"]: row["connections"] for row in await ada.request("$hub/users", None)}
            assert {user: users[user] for user in clients} == {user: len(each) for user, each in clients.items()}
        policy.write_text('[users]\nada = ["admin"]\n')
        refused = f"{len(clients['bob'])} of {len(clients['bob']) + len(clients['ada'])} connections would be closed"
        with pytest.raises(RequestError, match=refused):
            await ada.request("$hub/reload", None)
        await hub.wait_logged("settings not reloaded, the old ones stay")
        hub.signal(signal.SIGHUP)
        assert refused in (await hub.wait_logged("settings not reloaded, the old ones stay"))["reason"]
        for bob in clients["bob"]:
            async with bob.subscribe("/open/"):
                pass
        await ada.request("$hub/reload", {"force": True})
        for bob in clients["bob"]:
            with pytest.raises(RejectedError, match="your user was removed"):
                await bob.wait_closed()
        assert await ada.names() == []


# Under fire.


class Load:
    """Clients that publish numbers, and take those of all, wherever they are connected."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients
        self._is_over = False
        self.taken: dict[tuple[int, int], list[int]] = defaultdict(list)  # By subscriber and publisher: the numbers

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


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@NEW
async def test_workers_that_are_killed(start_workers: StartWorkers, tmp_path: Path) -> None:
    socket = f"unix://{tmp_path}/hub.sock"
    hub = await start_workers(listen=(TCP, socket))
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    held = descriptors(hub.pid)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(url, queue=LARGE)) for _ in range(4)]
        quiet, listener = [await stack.enter_async_context(connect(socket)) for _ in range(2)]
        messages = await stack.enter_async_context(listener.subscribe("/quiet"))
        load = Load(clients)
        async with load.running():
            for number, place in enumerate((2, 1)):
                os.kill(workers[place], signal.SIGKILL)
                await quiet.publish("/quiet", number)
                ended = await hub.wait_logged("worker ended")
                assert (ended["worker"], ended["pid"]) == (place, workers[place])
                assert ended["reason"] == "killed by SIGKILL"
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


async def test_what_is_confirmed_is_recorded_and_what_is_acknowledged_is_over(
    start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path
) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    one, _ = await spread(url)
    chance, ended = random.Random(2), asyncio.Event()  # noqa: S311 -- a test
    found: dict[int, Any] = {}
    for number in range(20):
        await one.publish_confirmed("/t", number)
    async with AsyncExitStack() as stack:
        stream = await stack.enter_async_context(one.consume("c", "/t", from_offset=0, redeliver_s=1000.0))
        messages = [await stream.receive() for _ in range(10)]
        assert [message.value for message in messages] == list(range(10))
        await stream.ack(*messages[:5])
        while (await one.request("$hub/consumers", None))[0]["counters"]["acknowledged_total"] < 5:
            pass
        clients = [await stack.enter_async_context(connect(url)) for _ in range(4)]
        tasks = [asyncio.create_task(confirmed(client, place, found, ended)) for place, client in enumerate(clients)]
        for number in range(3):
            await eventually(lambda number=number: len(found) >= 100 * (number + 1))
            place = chance.choice(sorted(workers))
            os.kill(workers[place], signal.SIGKILL)
            workers[place] = (await hub.wait_logged("worker is up"))["pid"]
        ended.set()
        await asyncio.gather(*tasks)
        got: set[int] = set()
        while not set(range(5, 20)) <= got:
            message = await stream.receive()
            await stream.ack(message)
            got.add(message.value)
        assert min(got) == 5
    assert await recorded(url, set(found)) == found


@NEW
async def test_a_core_that_is_killed(start_process: StartProcess, tmp_path: Path) -> None:
    arguments = ("--workers", "2", "--name", "both", "--log-format", "json", "--journal", str(tmp_path / "journal"))
    hub = await (await start_process("--listen", TCP, *arguments)).wait_up()
    url = hub.endpoints[0].location
    ended = asyncio.Event()
    found: dict[int, Any] = {}
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(url, backoff=QUICK)) for _ in range(4)]
        tasks = [asyncio.create_task(confirmed(client, place, found, ended)) for place, client in enumerate(clients)]
        await eventually(lambda: len(found) >= 100)
        workers = workers_of(hub.pid)
        assert len(workers) == 2
        hub.signal(signal.SIGKILL)
        await hub.wait_ended()
        await eventually(lambda: not any(map(is_worker, workers)))
        hub = await (await start_process("--listen", url, *arguments)).wait_up()
        await eventually(lambda: len(found) >= 200)
        ended.set()
        assert sum(await asyncio.gather(*tasks)) > 0
    assert await recorded(url, set(found)) == found
    hub.signal(signal.SIGTERM)
    code, log = await hub.wait_ended()
    assert code == 0
    assert "Traceback" not in log


async def connected(url: str) -> Client:
    while True:
        try:
            return await connect(url)
        except ConnectionLostError:
            await asyncio.sleep(0.05)


async def test_a_worker_that_is_stopped(start_workers: StartWorkers) -> None:
    hub = await start_workers(*PING_SOON, listen=BOTH)
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    for path, text in (("readyz", "ready"), ("healthz", "ok")):
        for _ in range(4):
            assert await get(hub, path) == (200, text)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(url)) for _ in range(4)]
        os.kill(workers[2], signal.SIGSTOP)
        late = [asyncio.create_task(connected(url)) for _ in range(6)]
        ended = await hub.wait_logged("worker ended")
        assert (ended["worker"], ended["reason"]) == (2, "killed by SIGKILL")
        await hub.wait_logged("worker is up")
        clients += await asyncio.gather(*late)
        for place, client in enumerate(clients[1:]):
            await heard(clients[0], client, f"/again/{place}")
        for client in clients[4:]:
            await client.close()
    await until(hub, "readyz", (200, "ready"))
    assert workers[2] not in workers_of(hub.pid)


@pytest.mark.parametrize("is_given_up", [False, True])
async def test_a_core_that_is_stopped(start_workers: StartWorkers, *, is_given_up: bool) -> None:
    hub = await start_workers(*(PING_SOON if is_given_up else ("--limits-ping-after-s", "600")), listen=BOTH)
    url = hub.endpoints[0].location
    workers = await both_up(hub)
    async with connect(url, backoff=QUICK) as one, connect(url, backoff=QUICK) as other:
        hub.signal(signal.SIGSTOP)
        try:
            if is_given_up:
                await eventually(lambda: not any(map(is_worker, workers.values())))
            else:
                for status, told in await asyncio.gather(*(get(hub, path) for path in ("healthz", "readyz"))):
                    assert status == 503
                    assert "the core of this hub has not answered within 4 s" in told
        finally:
            hub.signal(signal.SIGCONT)
        if is_given_up:
            for _ in range(2):
                assert (await hub.wait_logged("worker ended"))["reason"] == "exit code 3"
            await both_up(hub)
        await heard(one, other, "/a")
        await heard(other, one, "/b")
    assert len(workers_of(hub.pid)) == 2
    await until(hub, "healthz", (200, "ok"))
    await until(hub, "readyz", (200, "ready"))
