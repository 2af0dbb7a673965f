"""A hub with stores answers requests to them, and tells what has changed."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hub.errors import HubError, RequestFailedError, RequestOverflowError, UsageError
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from hub.stores.command import ChangeKind
from peers.client import Client, connect
from peers.stores.keeping import InMemory
from peers.stores.master import SNAPSHOT_NS, SNAPSHOTS_LIMIT, Master
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.stores.packed import pack, unpack

READ, WRITE, CHANGES = "$store/s/read", "$store/s/write", "$store/s/changes/"


def with_store(**limits: Any) -> Settings:
    return Settings(stores=StoresSettings(open=("s=:memory:",), **limits))


@pytest.fixture
async def storing(start_hub: StartHub) -> Hub:
    return await start_hub(settings=with_store())


@pytest.fixture
async def client(storing: Hub) -> AsyncIterator[Client]:
    async with connect(storing.url, name="writer") as connected:
        yield connected


def _master(hub: Hub) -> Master:
    master = hub.node.stores.get("s")
    assert master is not None
    return master


async def test_requests_write_and_read(client: Client) -> None:
    first = await client.request(WRITE, ["put", pack("k"), pack(1)])
    assert await client.request(WRITE, ["increment", pack("k"), pack(2)]) == [first + 1, pack(3)]
    assert await client.request(WRITE, ["put_unique", pack("k"), pack(2)]) is None
    assert await client.request(WRITE, ["put", pack("k"), pack(4), None, first]) is None
    assert await client.request(WRITE, ["put", pack("k"), pack(4), 10**15, first + 1]) == first + 2
    value, version, left_ns = await client.request(READ, ["get", pack("k")])
    assert (unpack(value), version) == (4, first + 2)
    assert 0 < left_ns <= 10**15
    assert await client.request(READ, ["get", pack("none")]) is None
    assert await client.request(READ, ["exists", pack("k")]) is True
    await client.request(WRITE, ["put", pack("v"), pack(("a",))])
    assert await client.request(READ, ["index", pack("v"), pack(0)]) == pack("a")
    assert await client.request(READ, ["state"]) == [first - 1, first + 3, 2, 2 * 200 + 8]
    page = await client.request(READ, ["rows", "k", False])
    assert page == [first - 1, 0, first + 3, first + 3, [pack("k")]]
    epoch, number, changes = await client.request(READ, ["since", first + 2])
    assert (epoch, number) == (first - 1, first + 3)
    assert changes == [[first + 3, ChangeKind.PUT, pack("v"), pack(("a",)), None, "writer"]]
    assert await client.request(READ, ["since", 1]) is None
    assert await client.request(WRITE, ["erase", pack("k")]) == first + 4
    assert await client.request(WRITE, ["clear"]) == first + 5


async def test_text_is_taken_in_place_of_bin(client: Client, storing: Hub) -> None:
    """Who speaks JSON has no `bin`: base64 does as well, in requests and in messages, one by one and in frames."""

    def text(value: Any) -> str:
        return b64encode(pack(value)).decode()

    first = await client.request(WRITE, ["put", text("k"), text(1)])
    assert await client.request(WRITE, ["increment", text("k"), text(2)]) == [first + 1, pack(3)]
    assert await client.request_many(WRITE, [["put", text(n), text("x")] for n in range(3)]) == [
        first + 2,
        first + 3,
        first + 4,
    ]
    mixed = await client.request_many(
        WRITE, [["put", text(7), text(1)], ["put", pack(8), pack(1)], ["put", "=", text(1)]], return_exceptions=True
    )
    assert mixed[:2] == [first + 5, first + 6]
    assert "text that is its base64" in str(mixed[2])
    assert await client.request_many(READ, [["exists", text(7)], ["exists", text(9)], ["state"]]) == [
        True,
        False,
        [first - 1, first + 6, 6, _master(storing).store.size_bytes],
    ]
    assert (await client.request(READ, ["get", text("k")]))[0] == pack(3)
    await client.request(WRITE, ["put", text("v"), text(("a",))])
    assert await client.request(READ, ["index", text("v"), text(0)]) == pack("a")
    client.publish_nowait(WRITE, ["erase", text("v")])
    await eventually(lambda: _master(storing).store.get(pack("v")) is None)


@pytest.mark.parametrize(
    ("topic", "asked", "text"),
    [
        (WRITE, ["put", "k", pack(1)], "nothing that a store can be asked: Expected `bytes`"),
        (READ, ["get", "é"], "or text that is its base64"),
        (READ, ["get", 7], "nothing that a store can be asked: Expected `bytes`"),
        (WRITE, ["shuffle", pack("k"), pack(1)], "nothing that a store can be asked for"),
        (WRITE, ["put", pack("k")], "put needs a value"),
        (WRITE, 7, "nothing that a store can be asked"),
        (WRITE, ["put", pack("k"), pack(1), 0], "an expiry of 0 ns"),
        (READ, ["take", pack("k")], "nothing that a store can be asked"),
        (READ, ["more", 77], "this reading is over"),
        (READ, ["index", pack("k"), pack(1)], "there is no entry"),
        ("$store/s/", ["get", pack("k")], "a store is asked under"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_a_reason(client: Client, topic: str, asked: Any, text: str) -> None:
    with pytest.raises(RequestFailedError, match=text):
        await client.request(topic, asked)
    assert (await client.request(READ, ["state"]))[2] == 0


async def test_a_frame_of_commands_is_one_batch(client: Client, storing: Hub) -> None:
    """Each has its own answer; those that are refused do not keep the others from being carried out."""
    wishes = [["put", pack(n), pack("x")] if n % 3 else ["pop", pack(n)] for n in range(10)]
    answers = await client.request_many(WRITE, wishes, return_exceptions=True)
    assert [isinstance(answer, HubError) for answer in answers] == [n % 3 == 0 for n in range(10)]
    assert len(_master(storing).store) == 6
    assert _master(storing).statistics().commands_total == 10


async def test_changes_are_told_to_those_who_ask_for_them(client: Client, storing: Hub) -> None:
    master = _master(storing)
    await client.request(WRITE, ["put", pack("before"), pack(0)])
    assert master.statistics().published_total == 0
    async with connect(storing.url) as watching, connect(storing.url) as other:
        everything = other.subscribe("")
        stream = watching.subscribe(CHANGES)
        await everything.open()
        await stream.open()
        await client.request_many(WRITE, [["put", pack("a"), pack(1), 10**12], ["erase", pack("a")], ["clear"]])
        message = await anext(stream)
        epoch, changes = message.value
        number = master.store.number
        assert epoch == master.store.epoch
        assert [change[:4] for change in changes] == [
            [number - 2, ChangeKind.PUT, pack("a"), pack(1)],
            [number - 1, ChangeKind.ERASE, pack("a"), None],
            [number, ChangeKind.CLEAR, b"", None],
        ]
        assert 0 < changes[0][4] <= 10**12
        assert changes[0][5] == "writer"
        await client.publish("/last", 1)
        topics = [message.topic async for message in _until(everything, "/last")]
        assert not [topic for topic in topics if topic.startswith("$store/")]


async def _until(stream: Any, topic: str) -> AsyncIterator[Any]:
    async for message in stream:
        yield message
        if message.topic == topic:
            return


async def test_messages_are_commands_without_an_answer(client: Client, storing: Hub) -> None:
    """Who need not know what becomes of a put publishes it; what is no command is counted."""
    master = _master(storing)
    for number in range(3):
        client.publish_nowait(WRITE, ["put", pack(number), pack(1)])
    client.publish_nowait(WRITE, "nonsense")
    client.publish_nowait("$store/s/written", ["put", pack(9), pack(1)])
    await eventually(lambda: master.statistics().store.refused_total == 1)
    assert len(master.store) == 3


async def test_entries_expire(client: Client, storing: Hub) -> None:
    """A timer takes them away, and tells it; what comes later does not hold up what is to come before."""
    stream = client.subscribe(CHANGES)
    await stream.open()
    await client.request(WRITE, ["put", pack("late"), pack(1), 3_600 * 10**9])
    await client.request(WRITE, ["put", pack("soon"), pack(1), 1])
    await eventually(lambda: pack("soon") not in _master(storing).store.entries)
    kinds = [(await anext(stream)).value[1][0][1:3] for _ in range(3)]
    assert kinds[-1] == [ChangeKind.EXPIRE, pack("soon")]
    assert pack("late") in _master(storing).store.entries


async def test_pages_go_on_where_the_last_one_ended(client: Client) -> None:
    count = 3_000
    await client.request_many(WRITE, [["put", pack(n), pack("x" * 300)] for n in range(count)])
    page = await client.request(READ, ["rows", "", True])
    keys = [row[0] for row in page[4]]
    assert 0 < len(keys) < count
    while page[1]:
        await client.request(WRITE, ["put", pack(0), pack(len(keys))])
        page = await client.request(READ, ["more", page[1]])
        keys += [row[0] for row in page[4]]
    assert keys == [pack(n) for n in range(count)]
    assert page[3] > page[2]


async def test_pages_are_held_for_a_few(client: Client, storing: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told to come again; a page that nobody has asked for in time makes room. What is held is charged."""
    await client.request_many(WRITE, [["put", pack(n), pack("x" * 300)] for n in range(2_000)])
    reading = _master(storing)._reading
    for _ in range(SNAPSHOTS_LIMIT):
        page = await client.request(READ, ["rows", "", True])
    assert page[1]
    assert reading.size_bytes == SNAPSHOTS_LIMIT * 16_000
    with pytest.raises(RequestOverflowError, match="64 others"):
        await client.request(READ, ["rows", "", False])
    replica = client.store("s").replica()
    opening = asyncio.ensure_future(replica.open())
    now_ns = reading._now_ns()
    monkeypatch.setattr(reading, "_now_ns", lambda: now_ns + SNAPSHOT_NS + 1)
    await opening
    await replica.close()
    assert (len(reading), reading.size_bytes) == (0, 0)


async def test_memory_is_charged_and_given_back(client: Client, storing: Hub) -> None:
    account = storing.node.memory.account("stores")
    await client.request(WRITE, ["put", pack("k"), pack("x" * 1_000)])
    assert account.size_bytes > 2_000
    await storing.node.stores.stop()
    assert account.size_bytes == 0
    with pytest.raises(HubError):
        await client.request(READ, ["state"])


async def test_without_memory_stores_only_shrink(client: Client, storing: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.request(WRITE, ["put", pack("k"), pack("x")])
    monkeypatch.setattr(storing.node.memory, "is_over", True)
    master = _master(storing)
    told: list[Any] = []
    from hub.stores.command import Command

    master.apply([Command("put", pack("l"), pack(1)), Command("erase", pack("k"))], lambda *of: told.append(of))
    ((outcomes, error),) = told
    assert error is None
    assert "no memory left" in outcomes[0].text
    assert len(master.store) == 0


async def test_a_store_of_another_hub_is_reached_over_links(start_hub: StartHub) -> None:
    hubs = [await start_hub(settings=with_store() if n == 0 else Settings(), name=f"h{n}") for n in range(3)]
    hubs[0].dial(hubs[1])
    hubs[1].dial(hubs[2])
    async with connect(hubs[2].url) as near, connect(hubs[0].url) as there:
        everything = near.subscribe("")
        await everything.open()
        stream = near.subscribe(CHANGES)
        await stream.open()

        async def known() -> bool:
            try:
                await near.request(READ, ["state"], timeout_s=1)
            except HubError:
                return False
            return True

        while not await known():
            await settle()
        await eventually(lambda: hubs[0].node.core.routes.of(_master(hubs[0])._key).handlers)
        await near.request(WRITE, ["put", pack("k"), pack(1)])
        assert (await anext(stream)).value[1][0][2] == pack("k")
        near.publish_nowait(WRITE, ["put", pack("l"), pack(1)])
        assert (await anext(stream)).value[1][0][2] == pack("l")
        assert (await there.request(READ, ["state"]))[2] == 2


async def test_what_is_said_of_stores(client: Client) -> None:
    await client.request(WRITE, ["put", pack("k"), pack(1)])
    (listed,) = await client.request("$hub/stores", None)
    assert (listed["name"], listed["entries"], listed["commands_total"]) == ("s", 1, 1)


async def test_clients_have_no_stores(client: Client) -> None:
    with pytest.raises(HubError, match="hubs alone have stores"):
        async with client.serve("$store/t/", lambda _: 1):
            pass
    async with client.serve("", lambda _: 1):
        with pytest.raises(HubError, match="nobody serves"):
            await client.request("$store/t/read", ["state"])


def test_a_store_needs_a_name_of_its_own(hub: Hub) -> None:
    stores = hub.node.stores
    for name in ("", "a/b", "a=b"):
        with pytest.raises(UsageError, match="no name of a store"):
            stores.add(name, None, InMemory(lambda: 1))  # type: ignore[arg-type]
