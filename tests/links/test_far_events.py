"""GET /v1/events at a hub that names the journal of another one: events have ids there, too, and nothing is missed."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode
from hub.settings.sections import JournalSettings
from hub.settings.settings import Settings
from peers.client import connect
from peers.transport.endpoints import Endpoint
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_http import RawHttp, follow, http
from tests.hubs.raw_websocket import request
from tests.journal.files import crashed, lose_power, segments

Pair = tuple[Hub, Hub, Endpoint]
StartPair = Callable[..., Awaitable[Pair]]


@pytest.fixture
def start_pair(start_hub: StartHub, tmp_path: Path) -> StartPair:
    async def start(*topics: str) -> Pair:
        recording = JournalSettings(path=str(tmp_path / "journal"), commit_s=0.001)
        far = await start_hub(name="far", settings=Settings(journal=recording))
        named = JournalSettings(of="far", topics=topics or ("/",))
        near = await start_hub(name="near", settings=Settings(journal=named))
        near.dial(far)
        await linked(near, far)
        return near, far, await near.listen("ws://127.0.0.1:0")

    return start


async def linked(near: Hub, far: Hub) -> None:
    await eventually(lambda: far.node.id in near.node.core.mesh.graph.reached)


async def record(hub: Hub, topic: str, *values: Any) -> list[int]:
    async with connect(hub.url) as client:
        return [await client.publish_confirmed(topic, value) for value in values]


async def events(client: RawHttp, count: int) -> list[tuple[int | None, object]]:
    found = []
    for _ in range(count):
        event = await client.event()
        assert event.name == "message", event
        found.append((event.id, event.value["value"]))
    return found


async def test_events_have_the_offsets_of_the_other_journal(start_pair: StartPair) -> None:
    near, far, endpoint = await start_pair()
    await record(far, "/a", "before")
    client = await follow(near, "prefix=/a", endpoint=endpoint)
    offsets = await record(near, "/a", 1)
    await record(far, "/b", *range(5))
    offsets += await record(far, "/a", 2, 3)
    assert await events(client, 3) == list(zip(offsets, [1, 2, 3], strict=True))


async def test_history_goes_over_into_what_comes(start_pair: StartPair) -> None:
    near, far, endpoint = await start_pair()
    await record(far, "/a", *range(6))
    queries = [("prefix=/a&from=2", []), ("prefix=/a&from=2001-01-01", []), ("prefix=/a", ["Last-Event-ID: 3"])]
    clients = [await follow(near, query, *lines, endpoint=endpoint) for query, lines in queries]
    await record(near, "/a", 6)
    for client, first in zip(clients, (2, 0, 4), strict=True):
        assert await events(client, 7 - first) == [(number, number) for number in range(first, 7)]


async def test_a_way_that_is_lost(start_pair: StartPair) -> None:
    near, far, endpoint = await start_pair()
    client = await follow(near, "prefix=/a", endpoint=endpoint)
    await record(far, "/a", 0)
    assert await events(client, 1) == [(0, 0)]
    await near.stop_dialling()
    await eventually(lambda: far.node.id not in near.node.core.mesh.graph.reached)
    await record(far, "/a", 1, 2)
    near.dial(far)
    assert await events(client, 2) == [(1, 1), (2, 2)]


async def test_a_power_loss_there(start_pair: StartPair, start_hub: StartHub, tmp_path: Path) -> None:
    near, far, endpoint = await start_pair()
    journal = tmp_path / "journal"
    await record(far, "/a", 0, 1)
    written_bytes = segments(journal)[-1].stat().st_size
    await record(far, "/a", 2, 3, 4)
    client = await follow(near, "prefix=/a&from=0", endpoint=endpoint)
    last_id = [await client.event() for _ in range(5)][-1].last_id
    lost = crashed(journal, tmp_path / "lost")
    lose_power(lost, written_bytes)
    await near.stop_dialling()
    await far.stop()
    shutil.rmtree(journal)
    lost.rename(journal)
    recording = JournalSettings(path=str(journal), commit_s=0.001)
    far = await start_hub(name="far", settings=Settings(journal=recording))
    near.dial(far)
    await linked(near, far)
    back = await follow(near, "prefix=/a", f"Last-Event-ID: {last_id}", endpoint=endpoint)
    await record(far, "/a", *range(10, 16))
    for one in (client, back):
        assert (await one.event())[:2] == ("cut", {"from": 5, "to": 2})
        assert await events(one, 6) == [(offset, 8 + offset) for offset in range(2, 8)]


async def test_a_hub_that_is_not_there(start_hub: StartHub) -> None:
    near = await start_hub(name="near", settings=Settings(journal=JournalSettings(of="far")))
    endpoint = await near.listen("ws://127.0.0.1:0")
    client = await http(near, endpoint)
    await client.send(request("/v1/events?prefix=/a&from=0"))
    answer = await client.answer()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert not any(handler.prefixes for handler in near.node.core.handlers.values())
    live = await follow(near, "prefix=/a&overflow=drop-oldest", endpoint=endpoint)
    async with connect(near.url) as publisher:
        await publisher.publish("/a", 1)
    assert await events(live, 1) == [(None, 1)]


async def test_an_offset_of_another_journal(start_pair: StartPair) -> None:
    near, far, endpoint = await start_pair()
    await record(far, "/a", 0)
    client = await http(near, endpoint)
    await client.send(request("/v1/events?prefix=/a", "GET", "Last-Event-ID: 17"))
    answer = await client.answer()
    assert answer.status == 410
    assert str(int(CloseCode.GONE)).encode() in answer.body


async def test_what_is_not_recorded_there(start_pair: StartPair) -> None:
    near, _, endpoint = await start_pair("/kept/")
    client = await follow(near, "prefix=/a", endpoint=endpoint)
    async with connect(near.url) as publisher:
        await publisher.publish("/a", 1)
    assert await events(client, 1) == [(None, 1)]


async def test_streams_that_are_equally_far_ask_once(start_pair: StartPair) -> None:
    near, far, endpoint = await start_pair()
    await record(far, "/a", 0)
    clients = [await follow(near, "prefix=/a", endpoint=endpoint) for _ in range(50)]
    before = near.node.far_journals.asked_total
    await record(near, "/a", 1)
    for client in clients:
        assert await events(client, 1) == [(1, 1)]
    assert near.node.far_journals.asked_total - before < 25
