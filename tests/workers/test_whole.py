"""A hub of several processes is one hub, whichever worker is asked; it serves all tests here."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from hub.errors import CloseCode, HubError, RejectedError, RequestError, RequestFailedError
from hub.limits import Overflow
from peers.client import Client, ConsumerStream, MessageStream, connect
from peers.client.journal import Record
from peers.transport.endpoints import Endpoint
from peers.wire.hello import QueueWish
from tests.cli.programs import RunningHub
from tests.hubs.eventually import settle
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_http import RawHttp
from tests.hubs.raw_websocket import request
from tests.workers.conftest import SpreadClients, asked, heard

pytestmark = pytest.mark.timeout(120)
PROCESSES = {"core", "1", "2"}

# What a hub with a journal and a store answers, as far as it is asked here.
Clients = tuple[Client, Client]


@pytest.fixture
async def clients(both: RunningHub, spread: SpreadClients) -> Clients:
    one, two = await spread(both.tcp)
    return one, two


async def ask_until(client: Client, topic: str, value: Any, holds: Callable[[Any], bool]) -> Any:
    while not holds(answer := await client.request(topic, value)):
        await settle()
    return answer


async def all_rows(client: Client, topic: str, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while page := await client.request(topic, {"after": rows[-1][key]} if rows else None):
        rows += page
    return rows


# What is asked of the hub.


async def test_the_state(clients: Clients) -> None:
    one, two = clients
    async with one.subscribe("/a"), two.subscribe("/b"):
        for client in clients:  # each process looks once a second
            rows = await all_rows(client, "$hub/who", "id")
            known = (2, sum(row["role"] == "client" for row in rows))
            seen = lambda told, known=known: (told["subscribers"], told["connections"]) == known  # noqa: E731
            state = await ask_until(client, "$hub/state", None, seen)
            assert state["text"] == "All 2 subscribers keep up, nothing was dropped in the last minute."
            connections = lambda told, state=state: told["figures"]["connections"][-1:] == [state["connections"]]  # noqa: E731
            await ask_until(client, "$hub/history", None, connections)
            assert await client.request("$hub/losses", None) == []


async def test_metrics(both: RunningHub, clients: Clients) -> None:
    def scrape() -> dict[str, Metric]:
        with urllib.request.urlopen(both.ws.replace("ws:", "http:").rstrip("/") + "/metrics") as answer:  # noqa: S310
            return {one.name: one for one in text_string_to_metric_families(answer.read().decode())}

    def values(family: Metric) -> dict[str, float]:
        return {sample.labels["worker"]: sample.value for sample in family.samples}

    for _ in range(4):  # whichever worker answers
        found = await asyncio.to_thread(scrape)
        assert set(values(found["hub_ready"])) == PROCESSES
        assert {sample.labels["worker"] for sample in found["process_cpu_seconds"].samples} == PROCESSES
        serving = [one for one in found["hub_handlers"].samples if one.labels["role"] == "client" and one.value]
        assert {one.labels["worker"] for one in serving} == {"1", "2"}
        assert values(found["hub_mesh_hubs"]) == dict.fromkeys(PROCESSES, 3)
        counted = {name: found[f"hub_workers{name}"].samples[0].value for name in ("", "_limit", "_started", "_ended")}
        assert counted == {"": 2, "_limit": 2, "_started": 2, "_ended": 0}
    del clients


async def test_who_is_connected_and_kicked_anywhere(both: RunningHub, clients: Clients) -> None:
    names = [f"client-{number:02}" for number in range(70)]
    many = {name: await connect(both.tcp, name=name, reconnect=False) for name in names}
    rows = await all_rows(clients[0], "$hub/who", "id")
    numbers = {row["name"]: row["id"] for row in rows if row["name"] in many}
    assert sorted(numbers) == names
    (nobody,) = await clients[0].request("$hub/users", None)
    assert nobody["connections"] >= 70 + 2 + 4, "and the links, at both ends"
    for place, name in enumerate(names[:8]):
        assert await clients[place % 2].request("$hub/kick", {"id": numbers[name]}) == {"kicked": 1}
        with pytest.raises(RejectedError, match="closed by an admin"):
            await many[name].wait_closed()
    for client in clients:
        with pytest.raises(RequestError, match="there is no connection with id 7"):
            await client.request("$hub/kick", {"id": 7})
        with pytest.raises(RequestError, match="expected a map with either `id` or `user`"):
            await client.request("$hub/kick", {})
    for client in many.values():
        await client.close()


def of_clients(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["prefix"].startswith("/")]  # not those of the store


async def test_names_and_services(clients: Clients) -> None:
    one, two = clients

    async def answer(request: Any) -> Any:
        return request.value * 2

    async with (
        await one.claim("org.example.One"),
        await two.claim("org.example.Two"),
        one.serve("/s/", answer),
        two.serve("/s/", answer),
        two.serve("/two/", answer),
    ):
        for client in clients:
            assert await asked(client, "/two/x", 21) == 42
            found = await ask_until(client, "$hub/names", None, lambda told: len(told) == 2)
            hubs = {row["hub"]: row["name"] for row in await client.request("$hub/mesh/graph", None)}
            assert {row["name"]: hubs[row["hub"]] for row in found} == {
                "org.example.One": "both/1",
                "org.example.Two": "both/2",
            }
            found = of_clients(await ask_until(client, "$hub/services", None, lambda told: len(of_clients(told)) == 2))
            assert [(row["prefix"], row["connections_total"], row["hubs"]) for row in found] == [
                ("/s/", 2, []),
                ("/two/", 1, []),
            ]
            known = {row["id"] for row in await client.request("$hub/who", None)}
            assert {each["id"] for each in found[0]["connections"]} <= known


async def test_topics(clients: Clients) -> None:
    one, two = clients
    async with one.subscribe("/t/") as first, two.subscribe("/t/") as second:
        await heard(one, two, "/t/from-1/warm")  # until each process knows what the other one wants
        await heard(two, one, "/t/from-2/warm")
        for _ in range(30):
            one.publish_nowait("/t/both", 1)
            two.publish_nowait("/t/both", 1)
        one.publish_nowait("/t/from-1", 1)
        two.publish_nowait("/t/from-2", 1)
        for stream, last in ((first, "/t/from-2"), (second, "/t/from-1")):
            while (await stream.receive()).topic != last:
                pass
        for client in clients:
            answer = await client.request("$hub/topics", {"under": "/t/"})
            counted = {row["prefix"]: row for row in answer["rows"]}
            figures = {prefix: row["messages"] for prefix, row in counted.items()}
            assert {"/t/both": 60, "/t/from-1": 1, "/t/from-2": 1}.items() <= figures.items()
            assert counted["/t/both"]["subscribers"] == 2, "links between processes are nobody"
            whole = {row["prefix"]: row for row in (await client.request("$hub/topics", None))["rows"]}["/t/"]
            assert (whole["topics"], whole["subscribers"]) == (5, 2)
            (found,) = (await client.request("$hub/topics", {"search": "BOTH"}))["rows"]
            assert found["messages"] == 60


async def test_losses_history_and_a_queue(both: RunningHub, clients: Clients) -> None:
    one, two = clients
    slow = await RawClient.connect(Endpoint.parse(both.tcp), receive_bytes=4096)
    try:
        home = (await slow.greet(name="slow", queue=QueueWish(messages=5, overflow=Overflow.DROP_OLDEST))).name
        await slow.subscribe("/lost")
        near, far = (one, two) if home == "both/1" else (two, one)
        async with far.subscribe("$hub/overflow") as told:

            async def lose() -> bool:
                for _ in range(100):
                    near.publish_nowait("/lost", bytes(10_000))
                await near.drain()
                return any((await far.request("$hub/history", None))["figures"]["dropped_messages"])

            # Losses before a process looks for the first time are in no figure, and those before a worker knows about
            # this subscription of another one are not announced to it.
            first = asyncio.create_task(anext(told))
            while not await lose() or not first.done():
                await settle()
            assert (await first).value["prefixes"] == ["/lost"]
        losses = await far.request("$hub/losses", None)
        (victim,) = {loss["id"] for loss in losses}
        assert {(loss["label"], loss["why"]) for loss in losses} == {("slow", "drop-oldest")}
        for client in clients:
            state = await ask_until(client, "$hub/state", None, lambda told: told["dropped_by"])
            assert [label for label, _ in state["dropped_by"]] == ["slow"]
            await ask_until(client, "$hub/history", None, lambda told: any(told["figures"]["dropped_messages"]))
            (row,) = await client.request("$hub/who", {"id": victim})
            assert row["queue"]["messages"] > 0
    finally:
        slow.close()


# What the processes announce.


async def until_all_tell(url: str, stream: MessageStream, name: str) -> None:
    at: dict[str, str] = {}

    async def read() -> None:
        told: set[str] = set()  # of a client it may tell before that client knows where it is
        while len({at[joined] for joined in told & at.keys()}) < 2:
            told.add((await anext(stream)).value["name"])

    reading = asyncio.create_task(read())
    while not reading.done():
        async with connect(url, name=f"{name}-{len(at)}") as client:
            assert client.hub is not None
            at[f"{name}-{len(at)}"] = client.hub.name
            await asyncio.wait([reading], timeout=0.05)
    await reading


async def test_who_comes_is_told_everywhere_once(both: RunningHub, clients: Clients) -> None:
    one, two = clients
    async with one.subscribe("$hub/client/joined") as first, two.subscribe("$hub/client/joined") as second:
        await until_all_tell(both.tcp, first, "early")
        await until_all_tell(both.tcp, second, "later")
        names = {f"come-{number}" for number in range(20)}
        came = [await connect(both.tcp, name=name) for name in [*sorted(names), "last"]]
        assert {client.hub.name for client in came if client.hub is not None} == {"both/1", "both/2"}
        for stream in (first, second):
            seen: Counter[str] = Counter()
            while not {*names, "last"} <= seen.keys():
                seen[(await anext(stream)).value["name"]] += 1
            assert {name: seen[name] for name in names} == dict.fromkeys(names, 1)
        for client in came:
            await client.close()


async def test_what_admins_do_is_told_once(both: RunningHub, clients: Clients) -> None:
    # Prefixes that nobody has wanted before, also not in the test before this one: of what is wanted again within a
    # second, nothing is told to the others, and what is still wanted is told at once.
    prefixes = (("$hub/audit", "$hub/client/left"), ("$hub/audi", "$hub/client/lef"))
    for place, (client, (audits, leaves)) in enumerate(zip(clients, prefixes, strict=True)):
        async with client.subscribe(audits) as audit, client.subscribe(leaves) as left:
            await until_all_tell(both.tcp, left, f"audit-{place}")
            for _ in range(3):
                await clients[0].request("$hub/reload", None)
            assert [(await anext(audit)).value["what"] for _ in range(3)] == ["reload"] * 3
            await connect(both.tcp, name=f"victim-{place}", reconnect=False)
            rows = await all_rows(client, "$hub/who", "id")
            (number,) = [row["id"] for row in rows if row["name"] == f"victim-{place}"]
            await clients[0].request("$hub/kick", {"id": number})
            assert (await anext(audit)).value["what"] == "kick", "there was no fourth reload"


# The journal, consumers and stores.


async def test_the_journal(clients: Clients) -> None:
    _, two = clients
    offsets = [await client.publish_confirmed("/j", 2) for client in clients]
    assert offsets[0] < offsets[1]
    for client in clients:
        told = await client.request("$hub/journal", None)
        assert told["committed"] == told["recorded_messages_total"] > offsets[1]
        await client.publish("/j", 3)
    for client in clients:
        found: list[tuple[int, Any]] = []
        while len(found) < 4:  # what was published is on its way to the core, or to the disk
            found = [(record.offset, record.value) async for record in client.read("/j", start=offsets[0])]
        assert [offset for offset, _ in found[:2]] == offsets
        assert [value for _, value in found] == [2, 2, 3, 3]
        start = await two.publish_confirmed("/columns", "x" * 100_000)
        read = client.read("/columns", start=start, columns=("offset", "topic"))
        assert [record async for record in read] == [Record(start, 0, "/columns", None)]
        few, all_of_it = [
            [
                len(block)
                async for piece in client.read("/columns", start=start, columns=columns).pieces()
                for block in piece.blocks
            ]
            for columns in (("offset", "topic"), None)
        ]
        assert len(few) == len(all_of_it) == 1
        assert few[0] < 100
        assert all_of_it[0] > 100_000


async def test_events_over_http(both: RunningHub) -> None:
    endpoint = Endpoint.parse(both.ws)
    streams: list[RawHttp] = []
    async with connect(both.unix) as admin:
        while True:
            rows = await all_rows(admin, "$hub/who", "id")
            if len({row["id"] // 10_000_000_000 for row in rows if row["name"] == "follower"}) == 2:
                break
            streams.append(await RawHttp.connect(endpoint))
            await streams[-1].send(request("/v1/events?prefix=/http&name=follower"))
            assert (await streams[-1].head())[0] == 200
    publisher = await RawHttp.connect(endpoint)
    answer = await publisher.publish("/http?confirm=1", 1)
    ((offset, count),) = answer.value["offsets"]
    assert (answer.status, json.loads(answer.body)["messages"], count) == (200, 1, 1)
    last_ids = set()
    for client in streams:
        first = await client.event()
        assert (first.id, first.value["value"]) == (offset, 1)
        last_ids.add(first.last_id)
        client.close()
    (last_id,) = last_ids
    assert (await publisher.publish("/http?confirm=1", 2)).status == 200
    for _ in range(4):  # wherever the kernel puts it
        client = await RawHttp.connect(endpoint)
        await client.send(request("/v1/events?prefix=/http", "GET", f"Last-Event-ID: {last_id}"))
        assert (await client.head())[0] == 200
        second = await client.event()
        assert (second.id, second.value["value"]) == (offset + 1, 2)
        client.close()
    publisher.close()


async def row(client: Client) -> dict[str, Any]:
    (found,) = await client.request("$hub/consumers", None)
    assert isinstance(found, dict)
    return found


async def take(stream: ConsumerStream, count: int, *, acknowledged: bool = True) -> list[tuple[str, Any]]:
    messages = [await stream.receive() for _ in range(count)]
    if acknowledged:
        await stream.ack(*messages)
    return [(message.topic, message.value) for message in messages]


async def test_clients_of_all_workers_share_a_consumer(clients: Clients) -> None:
    one, other = clients
    total = 40
    offsets = [await one.publish_confirmed(f"/c/{number % 4}", number) for number in range(total)]
    async with (
        one.consume("c", "/c/", from_offset=offsets[0], prefetch=10) as first,
        other.consume("c", "/c/") as second,
    ):
        kept = await take(first, 5, acknowledged=False)
        await first.close()
        got = await take(second, total)
        assert kept[0] in got
    assert sorted(value for _, value in got) == list(range(total))
    for topic in range(4):
        values = [value for at, value in got if at == f"/c/{topic}"]
        assert values == sorted(values)
    found = await row(other)
    assert (found["members"], found["lag"], found["held"]) == (0, 0, 0)
    assert found["counters"]["acknowledged_total"] == total
    assert await other.remove_consumer("c")
    assert not await one.remove_consumer("c")
    with pytest.raises(RequestFailedError, match="there is no consumer 'c'"):
        await one.consume("c").open()
    assert await one.request("$hub/consumers", None) == []


async def test_members_that_are_lost_or_kicked(both: RunningHub, clients: Clients) -> None:
    one, other = clients
    start, *_ = [await one.publish_confirmed("/m", number) for number in range(6)]
    async with connect(both.tcp) as lost:
        await lost.consume("m", "/m", from_offset=start, redeliver_s=1000.0).receive()
        assert (await row(other))["members"] == 1
    async with one.consume("m") as first:
        assert await take(first, 3, acknowledged=False) == [("/m", number) for number in range(3)]
        async with other.consume("m") as second:
            most, least = (await row(other))["clients"]
            assert (most["out"], least["out"]) == (6, 0)
            assert len({most["hub"], least["hub"]}) == 2
            assert await other.request("$hub/kick", {"id": most["id"]}) == {"kicked": 1}
            assert await take(second, 6) == [("/m", number) for number in range(6)]
            assert [client["id"] for client in (await row(other))["clients"]] == [least["id"]]
        with pytest.raises(RejectedError, match="closed by an admin") as told:
            await take(first, 6)
        assert told.value.code == CloseCode.FORBIDDEN
    assert await other.remove_consumer("m")


async def test_clients_of_all_workers_share_a_store(clients: Clients) -> None:
    one, other = clients
    for client in clients:
        while True:
            with suppress(HubError):
                await client.store("s").state()
                break
            await settle()
    await one.store("s").put("k", 1)
    far = other.store("s")
    assert await far.get("k") == 1
    async with one.store("s").watch("k") as changes, one.store("s").replica() as replica:
        assert (await anext(changes)).value == 1
        assert await far.increment("k") == 2
        assert (await anext(changes)).value == 2
        await replica.at_least(far.written)
        assert replica.get("k") == 2
    told = {"/status/one": -1, "/status/other": -1}
    number = 0
    async with other.store("s").watch("/status/") as changes:
        while min(told.values()) < 100:
            for _ in range(10):
                one.publish_nowait("/status/one", number)
                other.publish_nowait("/status/other", number)
                number += 1
            with suppress(TimeoutError):  # what is published while links are made may be lost: then once more
                async with asyncio.timeout(0.1):
                    for change in await changes.batch():
                        assert change.value > told[change.key]
                        told[change.key] = change.value
    entries = {entry.key: entry.value async for entry in one.store("s").entries()}
    assert all(entries[key] >= value for key, value in told.items())
    for client in clients:
        rows = await client.request("$hub/stores", None)
        assert [(row["name"], row["fed_from"]) for row in rows] == [("s", ["/status/"])]
