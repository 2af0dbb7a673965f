"""Stores as programs see them: commands, reads, watches and replicas, also over connections that are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.errors import ClosedError, NoResponderError, RequestFailedError, UsageError
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from peers.client import Client, Store, StoreChange, StoreWatch, connect
from peers.client.store import StoreChangeKind
from peers.stores.master import Master
from peers.values import Count, Set, Table, Timespan
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.stores.packed import command


@pytest.fixture
async def storing(start_hub: StartHub) -> Hub:
    return await start_hub(settings=Settings(stores=StoresSettings(open=("s=:memory:",), changes=20)))


@pytest.fixture
async def client(storing: Hub) -> AsyncIterator[Client]:
    async with connect(storing.url, name="writer") as connected:
        yield connected


@pytest.fixture
def store(client: Client) -> Store:
    return client.store("s")


def _master(hub: Hub) -> Master:
    master = hub.node.stores.get("s")
    assert master is not None
    return master


async def _take(watch: StoreWatch, count: int) -> list[StoreChange]:
    return [await anext(watch) for _ in range(count)]


def _brief(changes: list[StoreChange]) -> list[tuple[str, Any, Any, Any]]:
    return [(change.kind.value, change.key, change.value, change.old) for change in changes]


async def test_commands_and_reads(store: Store) -> None:
    version = await store.put("k", {"a": [1, None]})
    assert version is not None
    assert await store.get("k") == {"a": [1, None]}
    assert await store.put("k", 2, if_version=version - 1) is None
    assert await store.put("k", 2, if_version=version) == version + 1 == store.written
    assert await store.put_unique("k", 3) is False
    assert await store.put_unique("l", 3, expires_s=60) is True
    entry = await store.entry("l")
    assert entry is not None
    assert entry[:3] == ("l", 3, version + 2)
    assert entry.expires_s is not None
    assert 0 < entry.expires_s <= 60
    assert (await store.get("none"), await store.get("none", 7), await store.entry("none")) == (None, 7, None)
    assert (await store.exists("k"), await store.exists(1)) == (True, False)
    assert await store.erase("k", if_version=1) is False
    assert await store.erase("k") is True
    assert await store.erase("k") is False
    await store.clear()
    assert (await store.state())[2:] == (0, 0)


async def test_calculations_answer_the_new_value(store: Store) -> None:
    """Numbers, strings and containers change at the store, so that many can change them at one time."""
    assert await store.increment("n") == 1
    assert await store.increment("n", 4) == 5
    assert await store.decrement("n", 2) == 3
    assert await store.increment("c", Count(2)) == Count(2)
    assert await store.increment("t", Timespan(5)) == Timespan(5)
    assert await store.append("s", "ab") + await store.append("s", "c") == "ababc"
    assert await store.insert("set", 1) == Set([1])
    assert await store.insert("set", "a") == Set([1, "a"])
    assert await store.remove("set", 1) == Set(["a"])
    assert await store.insert("table", "k", 2) == Table({"k": 2})
    assert await store.remove("table", "k") == Table()
    assert await store.push("v", None) == [None]
    assert await store.push("v", 2) == [None, 2]
    assert await store.index("v", 1) == 2
    assert await store.index("v", 2, "none") == "none"
    assert await store.index("set", "a") is True
    assert await store.pop("v") == [None]
    with pytest.raises(RequestFailedError, match="of type string"):
        await store.increment("s")
    assert sorted(await store.keys()) == ["c", "n", "s", "set", "t", "table", "v"]
    assert await store.keys("t") == ["t", "table"]


async def test_puts_of_a_turn_are_one_batch(store: Store, storing: Hub) -> None:
    told: list[int] = []
    _master(storing).listeners.append(lambda changes: told.append(len(changes)))
    await asyncio.gather(*(store.put(number, number) for number in range(100)))
    assert told == [100]
    versions = await store.put_many(dict.fromkeys(range(200), "x"), expires_s=60)
    assert versions == sorted(versions)
    assert told == [100, 200]
    store.put_nowait("unanswered", 1)
    assert [entry.value async for entry in store.entries("una")] == [1]
    with pytest.raises(RequestFailedError):
        await store.put_many([("too long", "x" * 600_000)])
    assert await store.put_many({}) == []


async def test_a_watch_gives_what_is_there_and_then_each_change(store: Store) -> None:
    """In the order in which it was written, with the values before; others' keys are left out."""
    await store.put("a/1", 1)
    await store.put("b/1", 1)
    async with store.watch("a/") as changes:
        assert await _take(changes, 1) == [
            StoreChange(StoreChangeKind.PUT, "a/1", 1, None, changes._replica.entries[b"\xa3a/1"][1], None, True, False)
        ]
        await store.put("b/2", 1)
        await store.put("a/2", 2)
        await store.increment("a/1")
        await store.erase("a/1")
        await store.put("a/2", 3, expires_s=0.001)
        assert _brief(await _take(changes, 5)) == [
            ("put", "a/2", 2, None),
            ("put", "a/1", 2, 1),
            ("erase", "a/1", None, 2),
            ("put", "a/2", 3, 2),
            ("expire", "a/2", None, 3),
        ]
        await store.clear()
        last = await anext(changes)
        assert (last.kind, last.key, last.publisher, last.present) == (StoreChangeKind.CLEAR, None, "writer", False)
        waiting = asyncio.ensure_future(anext(changes))
        await changes.close()
        with pytest.raises(StopAsyncIteration):
            await waiting


async def test_a_watch_misses_nothing_over_a_lost_connection(store: Store, storing: Hub) -> None:
    """What was written meanwhile is told once it is back: each change, or what has become of each entry."""
    async with connect(storing.url) as other, other.store("s").watch() as changes:
        await store.put("k", 0)
        assert (await anext(changes)).value == 0
        for count in (5, 100):  # as many as the store remembers, and more
            await storing.crash()
            for number in range(1, count + 1):
                await _put(store, "k", number)
            seen = [0]
            while seen[-1] != count:
                change = await anext(changes)
                assert change.old is not None
                seen.append(change.value)
            if count == 5:
                assert seen == [0, 1, 2, 3, 4, 5]


async def _put(store: Store, key: Any, value: Any) -> None:
    while True:
        try:
            await store.put(key, value)
        except Exception:  # noqa: BLE001 -- it is tried until it succeeds
            await asyncio.sleep(0)
        else:
            return


async def test_a_watch_misses_nothing_that_overflows(store: Store, storing: Hub) -> None:
    """A program that does not read is not in the way; it gets what has become of all when it does."""
    url = f"{storing.url}"
    async with connect(url, stream_bytes=1_000) as slow, slow.store("s").watch() as changes:
        for round_number in range(30):
            await store.put_many(dict.fromkeys(range(50), (round_number, "x" * 1000)))
        await store.put("last", 1)
        state: dict[Any, Any] = {}
        while "last" not in state:
            change = await anext(changes)
            assert change.old == state.get(change.key)
            state[change.key] = change.value
        assert {value[0] for key, value in state.items() if key != "last"} == {29}


async def test_a_replica_is_read_without_asking(store: Store, storing: Hub) -> None:
    """It has what was there, and what it is waited for; it says how old it is."""
    await store.put_many({number: str(number) for number in range(3_000)})
    await store.put_many({-number: "x" * 1_000 for number in range(1, 3_001)})  # so that there are several pages
    await store.put({"b": 1, "a": 2}, "table")
    async with connect(storing.url) as other, other.store("s").replica() as replica:
        assert (len(replica), replica.get(7), replica.get(9_999, "none"), 7 in replica) == (6_001, "7", "none", True)
        assert replica.get(Table([("a", 2), ("b", 1)])) == "table"
        assert 0 <= replica.age_s < 60
        reads = _master(storing).statistics().reads_total
        version = await store.put(7, "new")
        assert version is not None
        await replica.at_least(version)
        assert (replica.get(7), replica.version(7), replica.number, replica.version("none")) == (
            "new",
            version,
            version,
            0,
        )
        assert _master(storing).statistics().reads_total - reads < 100
        assert dict(replica.items())[7] == "new"
        with pytest.raises(TimeoutError):
            await replica.at_least(version + 1, timeout_s=0.01)
        await store.clear()
        await replica.at_least(store.written)
        assert len(replica) == 0
    with pytest.raises(ClosedError):
        await replica.at_least(store.written + 1)


async def test_a_replica_begins_anew_with_another_life_of_the_store(store: Store, storing: Hub) -> None:
    await store.put("old", 1)
    async with store.replica() as replica:
        assert replica.get("old") == 1
        await storing.node.stores.stop()
        storing.node.stores.open(StoresSettings(open=("s=:memory:",)))
        await _put(store, "new", 1)
        await eventually(lambda: replica.get("new") == 1)
        assert replica.get("old") is None


async def test_a_watch_behind_a_restart_never_goes_back(start_hub: StartHub, tmp_path: Path) -> None:
    """Entries are read again: their changes are in order, and marked until together they are the state of the store."""
    settings = StoresSettings(open=(f"s={tmp_path / 's.db'}",), changes=1)
    hub = await start_hub(settings=Settings(stores=settings))
    async with connect(hub.url) as client:
        store = client.store("s")
        await store.put_many({"gone": 1, "changed": 1, "same": 1})
        async with store.watch() as changes:
            told = await _take(changes, 3)
            assert [change.partial for change in told] == [True, True, False]
            await hub.node.stores.stop()
            hub.node.stores.open(settings)
            for unheard in (command("put", "changed", 2), command("erase", "gone"), command("put", "new", 2)):
                _master(hub).store.apply(unheard, 0)
            told += await _take(changes, 3)
            await _put(store, "end", 1)
            told += await _take(changes, 1)
        versions = [change.version for change in told]
        assert versions == sorted(versions)
        assert [(change.kind.value, change.key, change.partial) for change in told[3:]] == [
            ("put", "changed", True),
            ("put", "new", True),
            ("erase", "gone", False),
            ("put", "end", False),
        ]


async def test_a_store_that_is_not_there(client: Client, store: Store) -> None:
    none = client.store("none")
    for act in (none.get("k"), none.put("k", 1), none.watch().open(), none.replica().open()):
        with pytest.raises(NoResponderError):
            await act
    with pytest.raises(UsageError, match="no name of a store"):
        client.store("a/b")
    watch = store.watch()
    with pytest.raises(UsageError, match="not open"):
        aiter(watch)
    async with watch:
        with pytest.raises(UsageError, match="opened once"):
            await watch.open()


async def test_a_watch_ends_with_its_client(storing: Hub) -> None:
    client = await connect(storing.url).__aenter__()
    changes = client.store("s").watch()
    await changes.open()
    waiting = asyncio.ensure_future(anext(changes))
    await client.close()
    with pytest.raises(StopAsyncIteration):
        await waiting
