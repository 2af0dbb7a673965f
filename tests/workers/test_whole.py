"""What is asked of a hub of several processes is answered for all of them, whichever worker is asked."""

from __future__ import annotations

import asyncio
import signal
import urllib.request
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from hub.errors import ConnectionLostError, RejectedError, RequestError
from peers.cli.top import Assembly, Snapshot
from peers.client import Client, connect
from peers.daemon.reloading import MANY
from peers.users.tokens import TokenFile
from tests.daemon.hub_process import HubProcess
from tests.workers.conftest import SpreadClients, StartWorkers, is_worker, workers_of

pytestmark = pytest.mark.timeout(120)

BOTH = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0")
PROCESSES = {"core", "1", "2"}


async def scrape(hub: HubProcess) -> dict[str, Metric]:
    url = f"{hub.page}metrics"
    body = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())  # noqa: S310 -- this test's own hub
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


def values(family: Metric) -> dict[str, float]:
    return {sample.labels["worker"]: sample.value for sample in family.samples}


async def test_metrics_are_those_of_all(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers(listen=BOTH)
    await spread(hub.endpoints[0].location)
    for _ in range(4):  # whichever worker answers
        found = await scrape(hub)
        assert set(values(found["hub_ready"])) == PROCESSES
        assert {sample.labels["worker"] for sample in found["process_cpu_seconds"].samples} == PROCESSES
        clients = {
            sample.labels["worker"]: sample.value
            for sample in found["hub_handlers"].samples
            if sample.labels["role"] == "client"
        }
        assert clients["core"] == 0
        assert clients["1"] >= 1
        assert clients["2"] >= 1
        assert values(found["hub_mesh_hubs"]) == dict.fromkeys(PROCESSES, 3)
        counted = {name: found[f"hub_workers{name}"].samples[0].value for name in ("", "_limit", "_started", "_ended")}
        assert counted == {"": 2, "_limit": 2, "_started": 2, "_ended": 0}


async def look(client: Client) -> Snapshot:
    assembly = Assembly()
    async with client.subscribe("$hub/statistics") as messages:
        async for message in messages:
            snapshot = assembly.feed(message.value)
            if snapshot is not None:
                return snapshot
    raise AssertionError("the subscription has ended")


async def test_statistics_are_those_of_all(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    url = hub.endpoints[0].location
    one, two = await spread(url)
    async with connect(url, name="ada"), connect(url, name="bob"):
        for client in (one, two):
            snapshot = await look(client)
            names = [handler.name for handler in snapshot.handlers]
            assert {"ada", "bob"} <= set(names)
            assert names.count("both") == 2, "each worker's link to the core"
            assert names.count("both/1") == names.count("both/2") == 1
            assert len({handler.id for handler in snapshot.handlers}) == len(names)
            assert snapshot.hub == "both"


async def all_rows(client: Client, topic: str, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        page = await client.request(topic, {"after": rows[-1][key]} if rows else None)
        if not page:
            return rows
        rows += page


async def test_who_is_connected_anywhere(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    url = hub.endpoints[0].location
    one, _ = await spread(url)
    clients = [await connect(url, name=f"client-{number}") for number in range(70)]
    names = [row["name"] for row in await all_rows(one, "$hub/who", "id")]
    assert sorted(name for name in names if name.startswith("client-")) == sorted(f"client-{n}" for n in range(70))
    (nobody,) = await one.request("$hub/users", None)
    assert nobody["connections"] >= 70 + 2 + 4, "and the links, at both ends"
    for client in clients:
        await client.close()


async def test_whoever_is_kicked_is_kicked_anywhere(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    url = hub.endpoints[0].location
    for asker in await spread(url):
        victims = [await connect(url, name="victim") for _ in range(4)]
        rows = [row for row in await all_rows(asker, "$hub/who", "id") if row["name"] == "victim"]
        assert len(rows) == 4
        for row in rows:
            assert await asker.request("$hub/kick", {"id": row["id"]}) == {"kicked": 1}
        for victim in victims:
            with pytest.raises(Exception, match="closed by an admin"):
                await victim.wait_closed()
        with pytest.raises(RequestError, match="there is no connection with id 7"):
            await asker.request("$hub/kick", {"id": 7})
        with pytest.raises(RequestError, match="expected a map with either `id` or `user`"):
            await asker.request("$hub/kick", {})


async def test_a_worker_reloads_the_hub(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Any) -> None:
    (tmp_path / "hub.toml").write_text("[queue]\nmessages = 100\n")
    hub = await start_workers()
    one, two = await spread(hub.endpoints[0].location)
    for messages, client in ((200, one), (300, two)):
        (tmp_path / "hub.toml").write_text(f"[queue]\nmessages = {messages}\n")
        answer = await client.request("$hub/reload", None)
        assert answer == {"changed": ["queue.messages"], "needs_restart": [], "closed": 0}
        lines = [await hub.wait_logged("settings reloaded") for _ in range(3)]
        assert sorted(line.get("worker", 0) for line in lines) == [0, 1, 2]
    (tmp_path / "hub.toml").write_text("[queue]\nmessages = 0\n")
    with pytest.raises(RequestError, match=r"queue\.messages: 0 given"):
        await one.request("$hub/reload", None)


async def test_a_reload_that_would_close_most_of_all_workers(start_workers: StartWorkers, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[users]\nada = ["admin"]\nbob = ["reader"]\n')
    file = TokenFile(str(tmp_path / "tokens"))
    token = {user: file.add(user, datetime.now(UTC))[0] for user in ("ada", "bob")}
    hub = await start_workers("--access-policy", str(policy), "--access-tokens", str(tmp_path / "tokens"))
    url = hub.endpoints[0].location
    async with AsyncExitStack() as stack:
        ada = await stack.enter_async_context(connect(url, token=token["ada"]))
        bobs: list[Client] = []
        while len(bobs) <= MANY or len({bob.hub.name for bob in bobs if bob.hub is not None}) < 2:
            bobs.append(await stack.enter_async_context(connect(url, token=token["bob"])))
        policy.write_text('[users]\nada = ["admin"]\n')
        refused = f"{len(bobs)} of {len(bobs) + 1} connections would be closed"
        with pytest.raises(RequestError, match=refused):
            await ada.request("$hub/reload", None)
        await hub.wait_logged("settings not reloaded, the old ones stay")
        hub.signal(signal.SIGHUP)
        assert refused in (await hub.wait_logged("settings not reloaded, the old ones stay"))["reason"]
        for bob in bobs:
            async with bob.subscribe("/"):
                pass
        await ada.request("$hub/reload", {"force": True})
        for bob in bobs:
            with pytest.raises(RejectedError, match="your user is gone"):
                await bob.wait_closed()
        assert await ada.names() == []


async def test_a_worker_drains_the_hub(start_workers: StartWorkers) -> None:
    hub = await start_workers("--drain-clients-per-s", "1000")
    workers = workers_of(hub.pid)
    url = hub.endpoints[0].location
    told: list[str] = []
    clients = [
        await connect(url, reconnect=False, on_disconnect=lambda error: told.append(str(error))) for _ in range(20)
    ]
    begun = await clients[0].request("$hub/drain", None)
    assert begun["clients"] == 20
    for client in clients:
        with pytest.raises(ConnectionLostError):
            await client.wait_closed()
    code, log = await hub.wait_ended()
    assert code == 0
    assert "Traceback" not in log
    assert not any(is_worker(pid) for pid in workers)


async def test_users_are_those_of_the_hub(start_workers: StartWorkers, tmp_path: Path) -> None:
    token = tmp_path / "admin.token"
    hub = await start_workers("--access-admin-token", str(token))
    url = hub.endpoints[0].location
    for _ in range(4):  # whichever worker
        with pytest.raises(RejectedError, match="not recognised"):
            await connect(url, reconnect=False)
    found: dict[str, Client] = {}
    clients = []
    while len(found) < 2:
        clients.append(await connect(url, token=token.read_text().strip()))
        hello = clients[-1].hub
        assert hello is not None
        found[hello.name] = clients[-1]
    one, two = found["both/1"], found["both/2"]
    async with one.subscribe("/a") as messages:
        first = asyncio.create_task(anext(messages))
        while not first.done():
            await two.publish("/a", 1)
            await asyncio.wait([first], timeout=0.02)
    users = {row["user"]: row for row in await one.request("$hub/users", None)}
    assert users["admin"]["connections"] == len(clients)
    for client in clients:
        await client.close()


async def test_what_the_policy_says_and_refuses(start_workers: StartWorkers, tmp_path: Path) -> None:
    policy = '[users]\nada = ["admin"]\nbob = ["reader"]\n'
    (tmp_path / "policy.toml").write_text(policy)
    file = TokenFile(str(tmp_path / "tokens"))
    token = {user: file.add(user, datetime.now(UTC))[0] for user in ("ada", "bob")}
    flags = ("--access-policy", str(tmp_path / "policy.toml"), "--access-tokens", str(tmp_path / "tokens"))
    hub = await start_workers(*flags)
    url = hub.endpoints[0].location
    async with AsyncExitStack() as stack:
        clients: dict[str, list[Client]] = {}
        for user in ("ada", "bob"):
            at: dict[str, Client] = {}
            clients[user] = []
            while len(at) < 2:
                client = await stack.enter_async_context(connect(url, name=user, token=token[user]))
                assert client.hub is not None
                at[client.hub.name] = client
                clients[user].append(client)
        for bob in clients["bob"]:
            with pytest.raises(RejectedError):
                await bob.publish_confirmed("/a", 1)
        for ada in clients["ada"]:
            asked = {"action": "publish", "topic": "/a", "user": "bob"}
            assert not (await ada.request("$hub/policy/test", asked))["verdict"]["allowed"]
            told = await ada.request("$hub/audit", None)
            assert sum(event["count"] for event in told if event["what"] == "refused") >= 1
            assert {event["user"] for event in told if event["what"] == "refused"} == {"bob"}


async def test_the_state_is_that_of_all(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    one, two = await spread(hub.endpoints[0].location)
    async with one.subscribe("/a"), two.subscribe("/b"):
        for client in (one, two):
            state: dict[str, Any] = {}
            while state.get("subscribers", 0) < 2:  # each process looks once a second
                state = await client.request("$hub/state", None)
            known = await client.request("$hub/who", None)
            assert state["connections"] == sum(row["role"] == "client" for row in known)
            assert state["text"] == "All 2 subscribers keep up, nothing was dropped in the last minute."
            connections: list[float | None] = []
            while not connections or connections[-1] != state["connections"]:
                connections = (await client.request("$hub/history", None))["figures"]["connections"]
            assert await client.request("$hub/losses", None) == []


async def test_the_journal_is_that_of_the_core(
    start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path
) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    for number, client in enumerate(await spread(hub.endpoints[0].location), 1):
        await client.publish_confirmed("/a", number)
        told = await client.request("$hub/journal", None)
        assert (told["committed"], told["recorded_messages_total"]) == (number, number)
