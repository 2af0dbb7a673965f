"""Named consumers of a hub with workers: the core keeps them, and clients of all workers share them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, RejectedError, RequestFailedError
from peers.client import Client, ConsumerStream, connect
from tests.workers.conftest import SpreadClients, StartWorkers, workers_of

pytestmark = pytest.mark.timeout(120)


async def row(client: Client) -> dict[str, Any]:
    (found,) = await client.request("$hub/consumers", None)
    assert isinstance(found, dict)
    return found


async def take(stream: ConsumerStream, count: int, *, acknowledged: bool = True) -> list[tuple[str, Any]]:
    messages = [await stream.receive() for _ in range(count)]
    if acknowledged:
        await stream.ack(*messages)
    return [(message.topic, message.value) for message in messages]


async def test_clients_of_all_workers_share(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    one, other = await spread(hub.endpoints[0].location)
    total = 40
    for number in range(total):
        await one.publish_confirmed(f"/t/{number % 4}", number)
    async with (
        one.consume("c", "/t/", from_offset=0, prefetch=10) as first,
        other.consume("c", "/t/") as second,
    ):
        kept = await take(first, 5, acknowledged=False)
        await first.close()
        got = await take(second, total)
        assert kept[0] in got
    assert sorted(value for _, value in got) == list(range(total))
    for topic in range(4):
        values = [value for at, value in got if at == f"/t/{topic}"]
        assert values == sorted(values)
    found = await row(other)
    assert (found["members"], found["lag"], found["held"]) == (0, 0, 0)
    assert found["counters"]["acknowledged_total"] == total
    assert await other.remove_consumer("c")
    assert not await one.remove_consumer("c")
    assert await one.request("$hub/consumers", None) == []


async def test_a_worker_that_dies_loses_nothing(
    start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path
) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    pids = workers_of(hub.pid)
    one, _ = await spread(hub.endpoints[0].location)
    total = 20
    for number in range(total):
        await one.publish_confirmed("/t", number)
    async with one.consume("c", "/t", from_offset=0, redeliver_s=1000.0) as stream:
        assert await take(stream, 5) == [("/t", number) for number in range(5)]
        await take(stream, 5, acknowledged=False)
        while (await row(one))["counters"]["acknowledged_total"] < 5:
            pass
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        got: list[Any] = []
        while not set(range(5, total)) <= set(got):
            message = await stream.receive()
            await stream.ack(message)
            got.append(message.value)
    assert min(got) == 5


async def test_a_client_that_is_lost_is_no_member(
    start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path
) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    url = hub.endpoints[0].location
    one, other = await spread(url)
    async with connect(url) as lost:
        await one.publish_confirmed("/t", 1)
        await lost.consume("c", "/t", from_offset=0, redeliver_s=1000.0).receive()
        assert (await row(other))["members"] == 1
    async with other.consume("c") as stream:
        assert await take(stream, 1) == [("/t", 1)]


async def test_a_query_says_how_far_it_is(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    one, other = await spread(hub.endpoints[0].location)
    for number in range(3):
        await one.publish_confirmed("/t", number)
    for client, position in ((one, 1), (other, 2)):
        told = {"name": "q", "prefixes": ["/t"], "position": position}
        assert await client.request("$hub/consumers/commit", told) is None
    found = await row(one)
    assert (found["name"], found["position"], found["lag"], found["members"]) == ("q", 2, 1, 0)
    with pytest.raises(RequestFailedError, match="is a query"):
        await other.consume("q", "/t").open()
    with pytest.raises(RequestFailedError, match="behind the end of the journal, which is 3"):
        await one.request("$hub/consumers/commit", {"name": "q", "prefixes": ["/t"], "position": 4})
    assert await other.remove_consumer("q")
    assert await one.request("$hub/consumers", None) == []


async def test_refused(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"), "--journal-consumers", "1")
    one, _ = await spread(hub.endpoints[0].location)
    with pytest.raises(RequestFailedError, match="there is no consumer 'c'"):
        await one.consume("c").open()
    async with one.consume("c", "/"):
        with pytest.raises(RequestFailedError, match=r"the limit is 1 \(journal.consumers\)"):
            await one.consume("d", "/").open()


async def test_a_member_that_is_kicked(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    one, other = await spread(hub.endpoints[0].location)
    for number in range(6):
        await one.publish_confirmed("/t", number)
    async with one.consume("c", "/t", from_offset=0, redeliver_s=1000.0) as first:
        assert await take(first, 3, acknowledged=False) == [("/t", number) for number in range(3)]
        async with other.consume("c") as second:
            most, least = (await row(other))["clients"]
            assert (most["out"], least["out"]) == (6, 0)
            assert len({most["hub"], least["hub"]}) == 2
            assert await other.request("$hub/kick", {"id": most["id"]}) == {"kicked": 1}
            assert await take(second, 6) == [("/t", number) for number in range(6)]
            assert [client["id"] for client in (await row(other))["clients"]] == [least["id"]]
        with pytest.raises(RejectedError, match="closed by an admin") as told:
            await take(first, 6)
        assert told.value.code == CloseCode.FORBIDDEN
