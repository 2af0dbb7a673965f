"""Stores as threads see them: what the asyncio client does, without a loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from hub.errors import ClosedError, NoResponderError, RequestFailedError, UsageError
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from peers.client.blocking import BlockingClient, connect
from peers.client.store import StoreChangeKind
from peers.values import Count, Set, Table
from tests.hubs.fixtures import StartHub


async def _in_thread(start_hub: StartHub, use: Callable[[BlockingClient], None]) -> None:
    """Call a function in a thread, with a client of a hub that has the store "s"."""
    hub = await start_hub(settings=Settings(stores=StoresSettings(open=("s=:memory:",))))

    def run() -> None:
        with connect(hub.url) as client:
            use(client)

    await asyncio.to_thread(run)


async def test_commands_and_reads(start_hub: StartHub) -> None:
    def use(client: BlockingClient) -> None:
        store = client.store("s")
        version = store.put("a", 1)
        assert (store.get("a"), store.exists("a"), store.name, store.written) == (1, True, "s", version)
        assert store.put("a", 2, if_version=0) is None
        assert (store.put_unique("a", 2), store.put_unique("b", 2, expires_s=60)) == (False, True)
        assert (store.increment("a"), store.decrement("a", 2)) == (2, 0)
        assert store.append("text", "x") == "x"
        assert store.insert("set", Count(1)) == Set([Count(1)])
        assert store.remove("set", Count(1)) == Set([])
        assert store.insert("table", "k", None) == Table({"k": None})
        assert (store.push("vector", 1), store.index("vector", 0), store.pop("vector")) == ([1], 1, [])
        entry = store.entry("b")
        assert entry is not None
        assert entry.expires_s is not None
        assert store.keys("t") == ["text", "table"]
        assert (store.erase("a"), store.erase("a"), store.get("a", "none")) == (True, False, "none")
        store.clear()
        assert store.state().entries == 0
        assert len(store.put_many((key, key) for key in range(2_500))) == 2_500
        assert [each.key for each in store.entries()] == list(range(2_500))
        with pytest.raises(RequestFailedError):
            store.decrement("none")
        with pytest.raises(NoResponderError):
            client.store("none").get(1)
        with pytest.raises(UsageError):
            client.store("a/b")

    await _in_thread(start_hub, use)


async def test_what_was_put_without_an_answer_is_there_for_the_next_call(start_hub: StartHub) -> None:
    def use(client: BlockingClient) -> None:
        store = client.store("s")
        for value in range(100):
            store.put_nowait("k", value)
        assert store.get("k") == 99

    await _in_thread(start_hub, use)


async def test_watch(start_hub: StartHub) -> None:
    """What is there comes first, then each change, to one of the threads that read; closing ends their waiting."""

    def use(client: BlockingClient) -> None:
        store = client.store("s")
        store.put("a", 1)
        watch = store.watch()
        with pytest.raises(UsageError, match="not open"):
            iter(watch)
        with watch as changes:
            first = next(changes)
            assert (first.kind, first.key, first.value, first.present) == (StoreChangeKind.PUT, "a", 1, True)
            store.put("a", 2)
            store.erase("a")
            got = []
            while len(got) < 2:
                got += changes.batch(timeout_s=30)
            assert [(change.kind, change.value) for change in got] == [
                (StoreChangeKind.PUT, 2),
                (StoreChangeKind.ERASE, None),
            ]
            assert (changes.batch(timeout_s=0.05), changes.ended) == ([], False)
            with pytest.raises(TimeoutError, match=r"no change within 0\.05 s"):
                changes.receive(timeout_s=0.05)
            assert list(changes.iterate(0.05)) == []
            store.put("b", 3)
            assert changes.receive(timeout_s=30).value == 3
            rest: list[object] = []
            waiting = threading.Thread(target=lambda: rest.extend([list(changes), "ended"]))
            waiting.start()
        waiting.join()
        assert rest == [[], "ended"]
        assert watch.ended
        with pytest.raises(ClosedError):
            watch.receive()

    await _in_thread(start_hub, use)


async def test_replica(start_hub: StartHub) -> None:
    def use(client: BlockingClient) -> None:
        store = client.store("s")
        with store.replica() as copy:
            version = store.put("a", [1])
            assert version is not None
            assert copy.at_least(version).get("a") == [1]
            assert (copy.version("a"), copy.number, "a" in copy, len(copy)) == (version, version, True, 1)
            assert (list(copy.items()), copy.get("b", 0)) == ([("a", [1])], 0)
            assert copy.age_s < 60

    await _in_thread(start_hub, use)
