"""Stores as programs see them: commands, watches, replicas, over connections that are lost, and in threads."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hub.errors import ClosedError, HubError, InvalidTopicError, NoResponderError, RequestFailedError, UsageError
from hub.limits import QueueLimits
from hub.messages.batch import Batch, encode_values
from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.settings.settings import Settings, StoresSettings
from hub.stores.command import parse_feed
from peers.client import Client, Store, StoreChange, StoreWatch, connect
from peers.client import store as replica_module
from peers.client.blocking import connect as connect_blocking
from peers.client.store import StoreChangeKind
from peers.client.values import encode_value
from peers.values import Count, Set, Table, Timespan, encode, value_of
from tests.faults.store_kills import follow as follow_change
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.stores.packed import command, master_of, unpack

Answer = TypeVar("Answer")


@pytest.fixture
def store(client: Client) -> Store:
    return client.store("s")


def _brief(changes: list[StoreChange]) -> list[tuple[str, Any, Any, Any]]:
    return [(change.kind.value, change.key, change.value, change.old) for change in changes]


async def _answered(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask until there is an answer: hubs that hear of links again and again tell each other less often."""
    while True:
        try:
            return await ask()
        except HubError:
            await asyncio.sleep(0.001)


async def _take(watch: StoreWatch, count: int) -> list[StoreChange]:
    return [await anext(watch) for _ in range(count)]


async def test_entries(store: Store) -> None:
    version = await store.put("k", {"a": [1, None]})
    assert version is not None
    assert await store.get("k") == {"a": [1, None]}
    assert await store.put("k", 2, if_version=version - 1) is None
    assert await store.put("k", 2, if_version=version) == version + 1 == store.written
    await store.put("l", 3, expires_s=60)
    entry = await store.entry("l")
    assert entry is not None
    assert entry[:3] == ("l", 3, version + 2)
    assert entry.expires_s is not None
    assert 0 < entry.expires_s <= 60
    assert (await store.get("none"), await store.get("none", 7), await store.entry("none")) == (None, 7, None)
    assert (await store.exists("k"), await store.exists(1)) == (True, False)
    assert [await store.erase("k", if_version=given) for given in (1, None, None)] == [False, True, False]
    assert (await store.increment("c", Count(2)), await store.increment("t", Timespan(5))) == (Count(2), Timespan(5))
    with pytest.raises(RequestFailedError, match="of type count"):
        await store.append("c", "text")
    assert (await store.insert("table", "k", 2), await store.remove("table", "k")) == (Table({"k": 2}), Table())
    await store.push("v", None)
    assert (await store.index("v", 0), await store.index("v", 2, "none")) == (None, "none")


async def test_puts_of_a_turn_are_one_batch(store: Store, storing: Hub) -> None:
    told: list[int] = []
    master_of(storing).listeners.append(lambda changes: told.append(len(changes)))
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


async def test_a_watcher_that_does_not_read(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "HELD_CHANGES", 50)
    stores = StoresSettings(open=("s=:memory:",), changes=100)
    hub = await start_hub(settings=Settings(stores=stores, queue=QueueLimits(messages=10)))
    async with (
        connect(hub.url, name="writer") as writer,
        connect(hub.url, name="quick") as quick,
        connect(hub.url, name="slow", stream_bytes=1_000) as slow,
        quick.store("s").watch() as heard,
        slow.store("s").watch() as unread,
    ):
        store = writer.store("s")
        versions: list[int] = []
        text = "x" * 4_000
        for number in range(60):
            written = await store.put_many({key: [number, text] for key in range(50)})
            while not versions or versions[-1] < written[-1]:
                versions.append((await anext(heard)).version)
        assert versions == list(range(versions[0], versions[0] + 60 * 50))
        assert hub.handler("quick").dropped_messages == 0
        assert hub.handler("slow").dropped_messages > 0
        state: dict[Any, Any] = {}
        while state != {key: [59, text] for key in range(50)}:
            follow_change(state, await anext(unread))
        assert slow.statistics().dropped_messages > 0


async def test_a_replica_is_read_without_asking(store: Store, storing: Hub) -> None:
    await store.put_many({number: str(number) for number in range(3_000)})
    await store.put_many({-number: "x" * 1_000 for number in range(1, 3_001)})  # so that there are several pages
    await store.put({"b": 1, "a": 2}, "table")
    async with connect(storing.url) as other, other.store("s").replica() as replica:
        assert (len(replica), replica.get(9_999, "none"), 7 in replica) == (6_001, "none", True)
        assert replica.get(Table([("a", 2), ("b", 1)])) == "table"
        assert 0 <= replica.age_s < 60
        reads = master_of(storing).statistics().reads_total
        version = await store.put(7, "new")
        assert version is not None
        await replica.at_least(version)
        assert (replica.version(7), replica.number, replica.version("none")) == (version, version, 0)
        assert master_of(storing).statistics().reads_total - reads < 100
        assert dict(replica.items())[7] == "new"
    with pytest.raises(ClosedError):
        await replica.at_least(store.written + 1)


async def test_a_replica_begins_anew_with_another_life_of_the_store(store: Store, storing: Hub) -> None:
    await store.put("old", 1)
    async with store.replica() as replica:
        assert replica.get("old") == 1
        await storing.server.stores.stop()
        storing.server.stores.open(StoresSettings(open=("s=:memory:",)))
        await _answered(lambda: store.put("new", 1))
        await eventually(lambda: replica.get("new") == 1)
        assert replica.get("old") is None


async def test_a_watch_behind_a_restart_never_goes_back(start_hub: StartHub, tmp_path: Path) -> None:
    settings = StoresSettings(open=(f"s={tmp_path / 's.db'}",), changes=1)
    hub = await start_hub(settings=Settings(stores=settings))
    async with connect(hub.url) as client:
        store = client.store("s")
        await store.put_many({"gone": 1, "changed": 1, "same": 1})
        async with store.watch() as changes:
            told = await _take(changes, 3)
            assert [change.partial for change in told] == [True, True, False]
            await hub.server.stores.stop()
            hub.server.stores.open(settings)
            for unheard in (command("put", "changed", 2), command("erase", "gone"), command("put", "new", 2)):
                master_of(hub).store.apply(unheard, 0)
            told += await _take(changes, 3)
            await _answered(lambda: store.put("end", 1))
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
    with pytest.raises(UsageError, match="not a valid name of a store"):
        client.store("a/b")
    watch = store.watch()
    with pytest.raises(UsageError, match="not open"):
        aiter(watch)
    async with watch:
        with pytest.raises(UsageError, match="opened once"):
            await watch.open()


@pytest.mark.parametrize("of", ["watch", "client"])
async def test_a_watch_ends(storing: Hub, of: str) -> None:
    client = await connect(storing.url).__aenter__()
    changes = client.store("s").watch()
    await changes.open()
    waiting = asyncio.ensure_future(anext(changes))
    await (changes if of == "watch" else client).close()
    with pytest.raises(StopAsyncIteration):
        await waiting
    await client.close()


async def test_a_copy_at_another_hub_is_equal_once_it_is_quiet(start_hub: StartHub) -> None:
    stores = StoresSettings(open=("s=:memory:",), changes=50)
    first = await start_hub(settings=Settings(stores=stores), name="first")
    middle, last = [await start_hub(name=name) for name in ("middle", "last")]
    for hub in (first, last):
        hub.dial(middle)
    async with connect(first.url) as near, connect(last.url) as far:
        await _answered(far.store("s").state)
        store = near.store("s")
        async with far.store("s").replica() as replica:
            for step in range(200):
                if not step % 50:
                    await middle.crash()
                await store.put(step % 20, step) if step % 7 else await store.erase(step % 20)
                if not step % 5:
                    await asyncio.sleep(0)
            await store.put("last", 1)
            await replica.at_least(store.written)
        entries = master_of(first).store.entries
        assert dict(replica.items()) == {unpack(key): unpack(entry[0]) for key, entry in entries.items()}


async def test_a_blocking_client(storing: Hub) -> None:
    await asyncio.to_thread(_use, storing.url)


def _use(url: str) -> None:
    with connect_blocking(url) as client:
        store = client.store("s")
        assert (store.put("a", 1), store.name) == (store.written, "s")
        assert store.put("a", 2, if_version=0) is None
        assert store.put_unique("b", 2, expires_s=60)
        assert (store.insert("set", Count(1)), store.remove("set", Count(1))) == (Set([Count(1)]), Set([]))
        entry = store.entry("b")
        assert entry is not None
        assert entry.expires_s is not None
        assert store.state().entries == 3
        store.clear()
        assert store.state().entries == 0
        assert len(store.put_many((key, key) for key in range(2_500))) == 2_500
        assert [each.key for each in store.entries()] == list(range(2_500))
        store.clear()
        for value in range(100):
            store.put_nowait("k", value)
        assert store.get("k") == 99
        with store.replica() as copy:
            version = store.put("a", [1])
            assert version is not None
            assert copy.at_least(version).get("a") == [1]
            assert (copy.version("a"), copy.number, "a" in copy, len(copy)) == (version, version, True, 2)
            assert (list(copy.items()), copy.get("b", 0)) == ([("k", 99), ("a", [1])], 0)
            assert copy.age_s < 60
        watch = store.watch("a")
        with pytest.raises(UsageError, match="not open"):
            iter(watch)
        with watch as changes:
            first = next(changes)
            assert (first.kind, first.key, first.value, first.present) == (StoreChangeKind.PUT, "a", [1], True)
            store.put("a", 2)
            store.erase("a")
            got: list[StoreChange] = []
            while len(got) < 2:
                got += changes.batch(timeout_s=30)
            assert _brief(got) == [("put", "a", 2, [1]), ("erase", "a", None, 2)]
            assert (changes.batch(timeout_s=0.05), changes.ended) == ([], False)
            with pytest.raises(TimeoutError, match=r"no change within 0\.05 s"):
                changes.receive(timeout_s=0.05)
            assert list(changes.iterate(0.05)) == []
            store.put("a", 3)
            assert changes.receive(timeout_s=30).value == 3
            rest: list[object] = []
            waiting = threading.Thread(target=lambda: rest.extend([list(changes), "ended"]))
            waiting.start()
        waiting.join()
        assert rest == [[], "ended"]
        assert watch.ended
        with pytest.raises(ClosedError):
            watch.receive()


async def _fed(start_hub: StartHub, *urls: str, **settings: Any) -> Hub:
    stores = StoresSettings(open=("last=:memory:", "idle=:memory:"), feeds=("last=/status/", "last=/x"), **settings)
    return await start_hub(*urls, settings=Settings(stores=stores))


def _counts(hub: Hub) -> list[tuple[int, int]]:
    return [(feed.messages_total, feed.lost_total) for feed in hub.server.stores.feeds]


async def test_a_late_comer_has_the_last_messages_first_and_then_what_comes(
    start_hub: StartHub, tmp_path: Path
) -> None:
    hub = await _fed(start_hub, f"unix://{tmp_path}/hub.sock")
    async with connect(hub.url) as client:
        for value in range(1_000):
            client.publish_nowait("/status/a", value)
        client.publish_nowait("/status/b", Count(7), ["label"])
        client.publish_nowait("/status", "not under the prefix")
        client.publish_nowait("/x/y", {"deep": [None]})
        store = client.store("last")

        await eventually(lambda: _counts(hub) == [(1_001, 0), (1, 0)])
        assert {entry.key: entry.value async for entry in store.entries()} == {
            "/status/a": 999,
            "/status/b": Count(7),
            "/x/y": {"deep": [None]},
        }
        async with store.watch("/status/") as changes:
            present = [await anext(changes), await anext(changes)]
            assert {change.key: change.value for change in present} == {"/status/a": 999, "/status/b": Count(7)}
            client.publish_nowait("/status/a", "next")
            change = await anext(changes)
            assert (change.key, change.value, change.old, change.present) == ("/status/a", "next", 999, False)
        picture = b"\x01" * 200_000
        async with store.watch("/status/picture") as changes:
            client.publish_nowait("/status/picture", picture)  # in shared memory
            assert (await anext(changes)).value == picture
        assert await client.store("idle").keys() == []
        (listed,) = [each for each in await client.request("$hub/stores", None) if each["name"] == "last"]
        assert listed["fed_from"] == ["/status/", "/x"]


async def test_entries_expire(start_hub: StartHub) -> None:
    hub = await _fed(start_hub, feed_expires_s=0.2)
    async with connect(hub.url) as client, client.store("last").watch() as changes:
        client.publish_nowait("/status/a", 1)
        assert [(await anext(changes)).kind.value for _ in range(2)] == ["put", "expire"]


async def test_forms(start_hub: StartHub) -> None:
    hub = await _fed(start_hub, entry_bytes=100)
    feed = hub.server.stores.feeds[0]

    def publish(frame: bytes) -> None:
        feed.send([Batch(frame, 1)])

    publish(encode_frame(KIND_MESSAGES, encode(value_of(Count(3))), key=b"/status/zeek", flags=BROKER_FLAGS))
    publish(encode_values(b"/status/batch", [encode_value(1), encode_value([2])]))
    for bad in (
        encode_frame(KIND_MESSAGES, b"\xff\xff", key=b"/status/zeek", flags=BROKER_FLAGS),
        encode_frame(KIND_MESSAGES, b"\xc1", key=b"/status/batch"),
        encode_frame(KIND_MESSAGES, struct.pack("<I", 5) + b"\x01", key=b"/status/batch", flags=1),
        encode_frame(KIND_MESSAGES, b"\x01", key=b"/status/batch", flags=3 << 1),
        encode_frame(KIND_MESSAGES, encode_value("x" * 200), key=b"/status/batch"),
    ):
        publish(bad)
    await eventually(lambda: _counts(hub)[0] == (7, 5))
    async with connect(hub.url) as client:
        store = client.store("last")
        assert (await store.get("/status/zeek"), await store.get("/status/batch")) == (Count(3), [2])
    before = len(hub.server.core.handlers)
    await hub.server.stores.stop()
    assert len(hub.server.core.handlers) == before - 4


@pytest.mark.parametrize("text", ["last", "=/a", "a/b=/a", "last=$store/", "last=$store/x/"])
def test_no_feed(text: str) -> None:
    with pytest.raises((UsageError, InvalidTopicError)):
        parse_feed(text)
