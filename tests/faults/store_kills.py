"""Lives of a hub that has a store in a file, beside one that lives on: load from many writers, SIGKILL, the next life.

Everything that docs/stores.md says under "Guarantees" of killed hubs is asserted, of watches and replicas at
both.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from hub.errors import HubError
from peers.client import Client, connect
from peers.client.store import Store, StoreChange, StoreChangeKind, StoreReplica, StoreWatch
from tests.daemon.hub_process import HubProcess

_EXPIRES_S = 0.2
_ENTRIES_AT_ONCE = 200


class Versions(set[int]):
    def take(self, version: int) -> None:
        assert version not in self, f"version {version} was confirmed twice"
        self.add(version)


class Conditional:
    def __init__(self, key: str, versions: Versions) -> None:
        self._key = key
        self._versions = versions
        self._number = self._version = 0

    async def step(self, store: Store) -> int:
        version = await store.put(self._key, self._number + 1, if_version=self._version)
        assert version is not None, f"{self._key}: somebody else has changed it"
        self._done(version)
        return 1

    async def settle(self, store: Store) -> None:
        version = await store.put(self._key, self._number + 1, if_version=self._version)
        if version is None:
            entry = await store.entry(self._key)
            assert entry is not None, f"{self._key} is lost"
            assert entry.value == self._number + 1, f"{self._key} is {entry.value}, behind {self._number}"
            version = entry.version
        self._done(version)

    def _done(self, version: int) -> None:
        self._versions.take(version)
        self._number, self._version = self._number + 1, version

    async def check(self, store: Store) -> None:
        entry = await store.entry(self._key)
        found = (0, 0) if entry is None else (entry.value, entry.version)
        assert found == (self._number, self._version)


class Owner:
    def __init__(self, key: str, random: Random) -> None:
        self._key = key
        self._random = random
        self._value: Any = None
        self._wanted: Any = None
        self._number = 0

    async def step(self, store: Store) -> int:
        value, self._number = self._value, self._number + 1
        if isinstance(value, str):
            self._wanted = f"{value}{self._number};"
            answer: Any = await store.append(self._key, f"{self._number};")
        elif value is not None and self._random.random() < 0.3:
            self._wanted = value - self._number
            answer = await store.decrement(self._key, self._number)
        else:
            self._wanted = (value or 0) + self._number
            answer = await store.increment(self._key, self._number)
        assert answer == self._wanted, f"{self._key}: {answer!r}, not {self._wanted!r}"
        self._value = self._wanted
        if self._random.random() < 0.05:
            self._wanted = self._random.choice([None, "a"])
            await (store.erase(self._key) if self._wanted is None else store.put(self._key, self._wanted))
            self._value = self._wanted
            return 2
        return 1

    async def settle(self, store: Store) -> None:
        found = await store.get(self._key)
        assert found in (self._value, self._wanted), f"{self._key}: {found!r}, {self._value!r} before {self._wanted!r}"
        self._value = found

    async def check(self, store: Store) -> None:
        found = await store.get(self._key)
        assert found == self._value, f"{self._key}: {found!r}, not {self._value!r}"


class Shared:
    key = "shared"

    def __init__(self, answers: set[int], asked: list[None]) -> None:
        self._answers = answers
        self._asked = asked

    async def step(self, store: Store) -> int:
        self._asked.append(None)
        answer = await store.increment(self.key)
        assert answer not in self._answers, f"{self.key} was {answer} twice: a confirmed change is lost"
        self._answers.add(answer)
        return 1

    async def settle(self, store: Store) -> None:
        pass

    async def check(self, store: Store) -> None:
        found = await store.get(self.key, 0)
        assert max(self._answers, default=0) <= found
        assert len(self._answers) <= found <= len(self._asked)


class Many:
    def __init__(self, prefix: str, versions: Versions) -> None:
        self._keys = [f"{prefix}{number}" for number in range(_ENTRIES_AT_ONCE)]
        self._prefix = prefix
        self._versions = versions
        self._confirmed = self._asked = 0

    async def step(self, store: Store) -> int:
        self._asked += 1
        for version in await store.put_many(dict.fromkeys(self._keys, self._asked)):
            self._versions.take(version)
        self._confirmed = self._asked
        return len(self._keys)

    async def settle(self, store: Store) -> None:
        await self.check(store)

    async def check(self, store: Store) -> None:
        found = {entry.key: entry.value async for entry in store.entries(self._prefix)}
        rounds = {found.get(key, 0) for key in self._keys}
        assert rounds <= set(range(self._confirmed, self._asked + 1)), f"{rounds}, {self._confirmed} confirmed"


class Expiring:
    def __init__(self, prefix: str, versions: Versions) -> None:
        self._prefix = prefix
        self._versions = versions
        self._number = self._long = 0

    async def step(self, store: Store) -> int:
        self._number += 1
        version = await store.put(f"{self._prefix}short/{self._number}", self._number, expires_s=_EXPIRES_S)
        assert version is not None
        self._versions.take(version)
        version = await store.put(f"{self._prefix}long", self._number, expires_s=3600)
        assert version is not None
        self._versions.take(version)
        self._long = self._number
        return 2

    async def settle(self, store: Store) -> None:
        entry = await store.entry(f"{self._prefix}long")
        assert (0 if entry is None else entry.value) in (self._long, self._number)

    async def check(self, store: Store) -> None:
        await self.settle(store)
        entry = await store.entry(f"{self._prefix}long")
        assert entry is None or (entry.expires_s is not None and 0 < entry.expires_s <= 3600)
        assert not await store.keys(f"{self._prefix}short/"), "entries outlive their time"


Writer = Conditional | Owner | Shared | Many | Expiring

DONE_S = 120.0  # when it stops waiting for what it expects
_NAME = "soaked"
_AGAIN_S = 0.02
_START_S = 1.0  # within which time a hub is killed that has not come up yet
_END_S = 0.1  # the same of one that was told to end


class Outcome(NamedTuple):
    kills: int
    confirmed: int  # commands that were confirmed
    unsure: int  # commands of which nobody has said what became of them, so that their writers had to find it out
    changes_told: int  # to all watches
    entries: int  # in the end
    ups_s: list[float]  # how long each hub took from the start of its process until it listened


def follow(state: dict[Any, Any], change: StoreChange) -> None:
    if change.kind is StoreChangeKind.CLEAR:
        state.clear()
        return
    before = state.get(change.key)
    assert change.old == before, f"{change.key}: {change.old!r} before a change, not {before!r}"
    if change.value is None:
        del state[change.key]
    else:
        state[change.key] = change.value


class _Copies:
    def __init__(self, watch: StoreWatch, replica: StoreReplica) -> None:
        self.watch = watch
        self.replica = replica
        self.state: dict[Any, Any] = {}
        self.told = 0

    async def follow(self) -> None:
        while changes := await self.watch.batch():
            for change in changes:
                follow(self.state, change)
            self.told += len(changes)


class StoreKills:
    def __init__(self, folder: Path, random: Random, most_confirmed: int = 3_000) -> None:
        self._most_confirmed = most_confirmed
        self._random = random
        self._file = folder / "store.db"
        self._url = f"unix://{folder}/killed.sock"
        self._other_url = f"unix://{folder}/other.sock"
        self._versions = Versions()
        self._kills = self._confirmed = self._unsure = 0
        self._ups_s: list[float] = []
        self._stopped = asyncio.Event()
        self._hub: HubProcess
        self._writers = self._new_writers()

    def _new_writers(self) -> list[Writer]:
        versions, answers, asked = self._versions, set[int](), list[None]()
        writers: list[Writer] = []
        for place in range(2):  # each kind twice: at the hub that has the store, and at the other one
            writers += [
                Conditional(f"conditional/{place}", versions),
                Owner(f"own/{place}", self._random),
                Shared(answers, asked),
                Many(f"many/{place}/", versions),
                Expiring(f"expiring/{place}/", versions),
            ]
        return writers

    async def run(self, kills: int) -> Outcome:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end_hub)
            await self._start()
            other = await self._hub_at(self._other_url, "--peer", self._url)
            stack.push_async_callback(other.kill)
            await other.wait_up()
            # One client for each writer: their losses of connections have nothing to do with each other.
            urls = [self._url] * (len(self._writers) // 2) + [self._other_url] * (len(self._writers) // 2)
            clients = [await stack.enter_async_context(connect(url)) for url in urls]
            copies = [await self._copies(stack, url) for url in (self._url, self._other_url)]
            work = [self._write(writer, client) for writer, client in zip(self._writers, clients, strict=True)]
            work.append(self._put_nowait(clients[0]))
            await self._beside(copies, work, kills)
            await self._check(clients[0], copies)
            told = sum(each.told for each in copies)
            entries = len(copies[0].state)
        return Outcome(self._kills, self._confirmed, self._unsure, told, entries, self._ups_s)

    async def _beside(self, copies: list[_Copies], work: list[Coroutine[Any, Any, None]], kills: int) -> None:
        following = [asyncio.ensure_future(each.follow()) for each in copies]
        working = [asyncio.ensure_future(each) for each in work]
        killing = asyncio.ensure_future(self._kill(kills))
        try:
            done, _ = await asyncio.wait({killing, *working, *following}, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            assert killing in done
            self._stopped.set()
            async with asyncio.timeout(DONE_S):
                await asyncio.gather(*working)
            await self._quiet(copies)
        finally:
            for each in (killing, *working, *following):
                each.cancel()
            await asyncio.gather(killing, *working, *following, return_exceptions=True)

    @staticmethod
    async def _hub_at(url: str, *flags: str) -> HubProcess:
        return await HubProcess.start(["--listen", url, "--log-level", "error", *flags], {})  # nobody reads the log

    async def _end_hub(self) -> None:
        await self._hub.kill()

    async def _start(self, within_s: float | None = None) -> None:
        """Start the hub that has the store, and wait until it is up, or only so long."""
        began_s = time.monotonic()
        self._hub = await self._hub_at(self._url, "--store", f"{_NAME}={self._file}")
        if within_s is not None:
            await asyncio.sleep(within_s)
            return
        await self._hub.wait_up()
        self._ups_s.append(time.monotonic() - began_s)

    async def _kill(self, kills: int) -> None:
        for self._kills in range(1, kills + 1):
            wanted = self._confirmed + self._random.randrange(1, self._most_confirmed)
            async with asyncio.timeout(DONE_S):
                while self._confirmed < wanted:  # noqa: ASYNC110 -- many raise it, each often
                    await asyncio.sleep(self._random.random() * _AGAIN_S)
            kind = self._random.random()
            if kind < 0.15:
                self._hub.signal(signal.SIGTERM)
                await asyncio.sleep(self._random.random() * _END_S)
            await self._hub.kill()
            if kind > 0.85:
                await self._start(self._random.random() * _START_S)
                await self._hub.kill()
            await self._start()

    async def _write(self, writer: Writer, client: Client) -> None:
        store = client.store(_NAME)
        is_unsure = False
        while is_unsure or not self._stopped.is_set():
            was_unsure = is_unsure
            try:
                if is_unsure:
                    await writer.settle(store)
                is_unsure = True
                self._confirmed += await writer.step(store)
                is_unsure = False
            except HubError:
                self._unsure += not was_unsure
                await asyncio.sleep(_AGAIN_S)

    async def _put_nowait(self, client: Client) -> None:
        store = client.store(_NAME)
        number = 0
        while not self._stopped.is_set():
            number += 1
            try:
                store.put_nowait(f"message/{number % 50}", number)
            except HubError:
                await asyncio.sleep(_AGAIN_S)
            await asyncio.sleep(0.001)

    async def _copies(self, stack: AsyncExitStack, url: str) -> _Copies:
        client = await stack.enter_async_context(connect(url))
        store = client.store(_NAME)
        async with asyncio.timeout(DONE_S):
            while True:
                try:
                    await store.state()
                except HubError:  # the other hub has not heard of the store yet
                    await asyncio.sleep(_AGAIN_S)
                else:
                    break
        watch = await stack.enter_async_context(store.watch())
        return _Copies(watch, await stack.enter_async_context(store.replica()))

    async def _quiet(self, copies: list[_Copies]) -> None:
        async with asyncio.timeout(DONE_S), connect(self._url) as client:
            store = client.store(_NAME)
            while any("/short/" in key for key in await store.keys("expiring/")):  # noqa: ASYNC110 -- it is asked
                await asyncio.sleep(_AGAIN_S)
            await store.put("last", "change")
            for each in copies:
                await each.replica.at_least(store.written, timeout_s=DONE_S)
                while "last" not in each.state:  # noqa: ASYNC110 -- it is told by a loop of its own
                    await asyncio.sleep(_AGAIN_S)

    async def _check(self, client: Client, copies: list[_Copies]) -> None:
        store = client.store(_NAME)
        for writer in self._writers:
            await writer.check(store)
        state = await store.state()
        assert state.number >= max(self._versions, default=0)
        entries = {entry.key: entry.value async for entry in store.entries()}
        assert len(entries) == state.entries
        for each in copies:
            assert each.state == entries
            assert dict(each.replica.items()) == entries
