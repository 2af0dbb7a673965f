"""Lives of a hub that has a store in a file: load from many writers, SIGKILL, the next life; at the end, what is there.

```
writers ─▶ the hub that has the store, killed again and again ─▶ a watch and a replica
   │                      ▲ a link                              (clients of the same hub)
   └──▶ another hub, which lives on ─────────────────────────▶ a watch and a replica (clients of that one)
```

The moments of the kills are numbers of confirmed commands, which a seed decides; some come while the hub starts, and
some while it ends in order. Everything that docs/stores.md says under "What is promised" of killed hubs is asserted.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

from hub.errors import HubError
from peers.client import Client, connect
from peers.client.replica import StoreReplica, StoreWatch
from peers.client.store import Store, StoreChange, StoreChangeKind
from tests.daemon.hub_process import HubProcess

_EXPIRES_S = 0.2
_ENTRIES_AT_ONCE = 200
_LONGEST_TEXT = 2_000
_LONGEST_VECTOR = 50


class Writer(Protocol):
    """One of them."""

    async def step(self, store: Store) -> int:
        """Have something carried out; return how many commands were confirmed.

        Raises:
            HubError: Nobody knows what has become of it: `settle` is next.
            AssertionError: The answer cannot be.
        """

    async def settle(self, store: Store) -> None:
        """Find out what has become of the last step; it may fail as that, and is called again then."""

    async def check(self, store: Store) -> None:
        """Look at all that it has written, once there is quiet.

        Raises:
            AssertionError: Something was lost, or is there twice.
        """


class Versions:
    """All versions that were confirmed: each stands for one change, so that none comes twice."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def take(self, version: int) -> None:
        """Take note of one more."""
        assert version not in self._seen, f"version {version} was confirmed twice"
        self._seen.add(version)

    @property
    def last(self) -> int:
        """The highest one."""
        return max(self._seen, default=0)


class Conditional:
    """Puts 1, 2, 3 ... as the value of its key, each on condition of the version before, and asks again blindly."""

    def __init__(self, key: str, versions: Versions) -> None:
        self._key = key
        self._versions = versions
        self._number = self._version = 0

    async def step(self, store: Store) -> int:
        """See `Writer`."""
        version = await store.put(self._key, self._number + 1, if_version=self._version)
        assert version is not None, f"{self._key}: somebody else has changed it"
        self._done(version)
        return 1

    async def settle(self, store: Store) -> None:
        """See `Writer`."""
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
        """See `Writer`."""
        entry = await store.entry(self._key)
        found = (0, 0) if entry is None else (entry.value, entry.version)
        assert found == (self._number, self._version)


class _Owner:
    """One that changes its own key without a condition: then it is as before, or as it is to be."""

    def __init__(self, key: str, random: Random) -> None:
        self._key = key
        self._random = random
        self._value: Any = None
        self._wanted: Any = None

    async def step(self, store: Store) -> int:
        """See `Writer`."""
        asked, self._wanted = self._ask(store)
        answer = await asked
        if answer is not True and self._wanted is not None:
            assert answer == self._wanted, f"{self._key}: {answer!r}, not {self._wanted!r}"
        self._value = self._wanted
        return 1

    def _ask(self, store: Store) -> tuple[Awaitable[Any], Any]:
        """Return something to be carried out, whose answer is the new value or True, and the new value."""
        raise NotImplementedError

    async def settle(self, store: Store) -> None:
        """See `Writer`."""
        found = await store.get(self._key)
        assert found in (self._value, self._wanted), f"{self._key}: {found!r}, {self._value!r} before {self._wanted!r}"
        self._value = found

    async def check(self, store: Store) -> None:
        """See `Writer`."""
        found = await store.get(self._key)
        assert found == self._value, f"{self._key}: {found!r}, not {self._value!r}"

    async def _erase(self, store: Store) -> bool:
        assert await store.erase(self._key), f"{self._key} is lost"
        return True


class Number(_Owner):
    """Adds to its number, and subtracts from it."""

    def _ask(self, store: Store) -> tuple[Awaitable[Any], Any]:
        by = self._random.randrange(1, 10)
        if self._value is not None and self._random.random() < 0.3:
            return store.decrement(self._key, by), self._value - by
        return store.increment(self._key, by), (self._value or 0) + by


class Text(_Owner):
    """Appends to its text, and erases it when it is long."""

    def __init__(self, key: str, random: Random) -> None:
        super().__init__(key, random)
        self._number = 0

    def _ask(self, store: Store) -> tuple[Awaitable[Any], Any]:
        if self._value is not None and len(self._value) > _LONGEST_TEXT:
            return self._erase(store), None
        self._number += 1
        text = f"{self._number};"
        return store.append(self._key, text), (self._value or "") + text


class Vector(_Owner):
    """Pushes to its vector, and pops from it."""

    def __init__(self, key: str, random: Random) -> None:
        super().__init__(key, random)
        self._number = 0

    def _ask(self, store: Store) -> tuple[Awaitable[Any], Any]:
        if self._value and (len(self._value) > _LONGEST_VECTOR or self._random.random() < 0.4):
            return store.pop(self._key), self._value[:-1]
        self._number += 1
        return store.push(self._key, self._number), [*(self._value or []), self._number]


class SharedCount:
    """What all of those know together that add to one key."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.asked = 0
        self.answers: set[int] = set()

    async def check(self, store: Store) -> None:
        """No answer has come twice; what was confirmed is counted, and nothing that nobody has asked for."""
        found = await store.get(self.key, 0)
        assert max(self.answers, default=0) <= found
        assert len(self.answers) <= found <= self.asked


class Shared:
    """Adds 1 to a number to which others add as well, without looking whether that was done when nobody says so."""

    def __init__(self, count: SharedCount) -> None:
        self._count = count

    async def step(self, store: Store) -> int:
        """See `Writer`."""
        self._count.asked += 1
        answer = await store.increment(self._count.key)
        assert answer not in self._count.answers, f"{self._count.key} was {answer} twice: a confirmed change is lost"
        self._count.answers.add(answer)
        return 1

    async def settle(self, store: Store) -> None:
        """See `Writer`: it goes on."""

    async def check(self, store: Store) -> None:
        """See `Writer`."""
        await self._count.check(store)


class Unique:
    """Puts one key after the other, each if it is not there; asks again blindly."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._number = 0

    async def step(self, store: Store) -> int:
        """See `Writer`."""
        assert await store.put_unique(self._key, self._number), f"{self._key} is there already"
        self._number += 1
        return 1

    async def settle(self, store: Store) -> None:
        """See `Writer`."""
        await store.put_unique(self._key, self._number)
        assert await store.get(self._key) == self._number
        self._number += 1

    @property
    def _key(self) -> str:
        return f"{self._prefix}{self._number}"

    async def check(self, store: Store) -> None:
        """See `Writer`."""
        found = {entry.key: entry.value async for entry in store.entries(self._prefix)}
        assert found == {f"{self._prefix}{number}": number for number in range(self._number)}


class Many:
    """Puts the same keys again and again, in one frame, with the number of the round."""

    def __init__(self, prefix: str, versions: Versions) -> None:
        self._keys = [f"{prefix}{number}" for number in range(_ENTRIES_AT_ONCE)]
        self._prefix = prefix
        self._versions = versions
        self._confirmed = self._asked = 0

    async def step(self, store: Store) -> int:
        """See `Writer`."""
        self._asked += 1
        for version in await store.put_many(dict.fromkeys(self._keys, self._asked)):
            self._versions.take(version)
        self._confirmed = self._asked
        return len(self._keys)

    async def settle(self, store: Store) -> None:
        """See `Writer`: what is not confirmed may be there or not, and a later round is above it."""
        await self._look(store)

    async def check(self, store: Store) -> None:
        """See `Writer`."""
        await self._look(store)

    async def _look(self, store: Store) -> None:
        found = {entry.key: entry.value async for entry in store.entries(self._prefix)}
        rounds = {found.get(key, 0) for key in self._keys}
        assert rounds <= set(range(self._confirmed, self._asked + 1)), f"{rounds}, {self._confirmed} confirmed"


class Expiring:
    """Puts entries that live for a moment, and one that lives for an hour each time."""

    def __init__(self, prefix: str, versions: Versions) -> None:
        self._prefix = prefix
        self._versions = versions
        self._number = self._long = 0

    async def step(self, store: Store) -> int:
        """See `Writer`."""
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
        """See `Writer`."""
        entry = await store.entry(f"{self._prefix}long")
        assert (0 if entry is None else entry.value) in (self._long, self._number)

    async def check(self, store: Store) -> None:
        """See `Writer`."""
        await self.settle(store)
        entry = await store.entry(f"{self._prefix}long")
        assert entry is None or (entry.expires_s is not None and 0 < entry.expires_s <= 3600)
        assert not await store.keys(f"{self._prefix}short/"), "entries outlive their time"


DONE_S = 120.0
"""When it stops waiting for what it expects."""

_NAME = "soaked"
_AGAIN_S = 0.02
_START_S = 1.0
"""Within which time a hub is killed that has not come up yet."""
_END_S = 0.1
"""The same of one that was told to end."""


class Outcome(NamedTuple):
    """What has become of it."""

    kills: int
    confirmed: int
    """Commands that were confirmed."""
    unsure: int
    """Commands of which nobody has said what became of them, so that their writers had to find it out."""
    changes_told: int
    """To all watches."""
    entries: int
    """In the end."""
    ups_s: list[float]
    """How long each hub took from the start of its process until it listened."""


def follow(state: dict[Any, Any], change: StoreChange) -> None:
    """Apply a change to a state, which must be the one that it was made in."""
    if change.kind is StoreChangeKind.CLEAR:
        state.clear()
        return
    before = state.get(change.key)
    assert change.old == before, f"{change.key}: {change.old!r} before a change, not {before!r}"
    if change.value is None:
        del state[change.key]
    else:
        state[change.key] = change.value


@asynccontextmanager
async def _within(what: str) -> AsyncIterator[None]:
    """Wait for something no longer than that is reasonable, and say what it was."""
    try:
        async with asyncio.timeout(DONE_S):
            yield
    except TimeoutError as error:
        raise TimeoutError(f"no {what} within {DONE_S:.0f} s") from error


class _Copies:
    """A watch and a replica of one client."""

    def __init__(self, watch: StoreWatch, replica: StoreReplica) -> None:
        self.watch = watch
        self.replica = replica
        self.state: dict[Any, Any] = {}
        self.told = 0

    async def follow(self) -> None:
        """Apply all that is told, for ever."""
        while changes := await self.watch.batch():
            for change in changes:
                follow(self.state, change)
            self.told += len(changes)


class StoreKills:
    """One store, and the hubs that are killed with it.

    Args:
        folder: Where all of it is.
        random: Decides.
        most_confirmed: So many commands are confirmed in one life at most, about.
    """

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
        random, versions, count = self._random, self._versions, SharedCount("shared")
        writers: list[Writer] = []
        for place in range(2):  # each kind twice: at the hub that has the store, and at the other one
            writers += [
                Conditional(f"conditional/{place}", versions),
                Number(f"number/{place}", random),
                Text(f"text/{place}", random),
                Vector(f"vector/{place}", random),
                Shared(count),
                Unique(f"unique/{place}/"),
                Many(f"many/{place}/", versions),
                Expiring(f"expiring/{place}/", versions),
            ]
        return writers

    async def run(self, kills: int) -> Outcome:
        """Kill so many.

        Raises:
            AssertionError: Something that was promised does not hold.
        """
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end_hub)
            await self._start()
            other = await HubProcess.start([*self._flags(self._other_url), "--peer", self._url], {})
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
        """Kill hubs while there is work; then let it come to an end."""
        following = [asyncio.ensure_future(each.follow()) for each in copies]
        working = [asyncio.ensure_future(each) for each in work]
        killing = asyncio.ensure_future(self._kill(kills))
        try:
            done, _ = await asyncio.wait({killing, *working, *following}, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            assert killing in done
            self._stopped.set()
            async with _within("the end of all writers"):
                await asyncio.gather(*working)
            await self._quiet(copies)
        finally:
            for each in (killing, *working, *following):
                each.cancel()
            await asyncio.gather(killing, *working, *following, return_exceptions=True)

    # The hub.

    @staticmethod
    def _flags(url: str) -> list[str]:
        return ["--listen", url, "--log-level", "error"]  # nobody reads the log

    async def _start(self) -> None:
        began_s = time.monotonic()
        self._hub = await HubProcess.start([*self._flags(self._url), "--store", f"{_NAME}={self._file}"], {})
        await self._hub.wait_up()
        self._ups_s.append(time.monotonic() - began_s)

    async def _end_hub(self) -> None:
        await self._hub.kill()

    async def _kill(self, kills: int) -> None:
        for self._kills in range(1, kills + 1):
            wanted = self._confirmed + self._random.randrange(1, self._most_confirmed)
            async with _within(f"{wanted} confirmed changes, behind {self._confirmed}"):
                while self._confirmed < wanted:  # noqa: ASYNC110 -- many raise it, each often
                    await asyncio.sleep(self._random.random() * _AGAIN_S)
            kind = self._random.random()
            if kind < 0.15:
                self._hub.signal(signal.SIGTERM)
                await asyncio.sleep(self._random.random() * _END_S)
            await self._hub.kill()
            if kind > 0.85:
                self._hub = await HubProcess.start([*self._flags(self._url), "--store", f"{_NAME}={self._file}"], {})
                await asyncio.sleep(self._random.random() * _START_S)
                await self._hub.kill()
            await self._start()

    # Writers.

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
        """Messages that nobody answers, beside all that."""
        store = client.store(_NAME)
        number = 0
        while not self._stopped.is_set():
            number += 1
            try:
                store.put_nowait(f"message/{number % 50}", number)
            except HubError:
                await asyncio.sleep(_AGAIN_S)
            await asyncio.sleep(0.001)

    # Copies.

    async def _copies(self, stack: AsyncExitStack, url: str) -> _Copies:
        client = await stack.enter_async_context(connect(url))
        store = client.store(_NAME)
        async with _within(f"the store at {url}"):
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
        """Wait until everything short-lived has expired, and copies have heard of the last change."""
        async with _within("quiet"), connect(self._url) as client:
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
        assert state.number >= self._versions.last
        entries = {entry.key: entry.value async for entry in store.entries()}
        assert len(entries) == state.entries
        for each in copies:
            assert not list(_differences(each.state, entries))
            assert not list(_differences(dict(each.replica.items()), entries))


def _differences(found: dict[Any, Any], expected: dict[Any, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """What is not equal: the key, what was found, what was expected."""
    for key in found.keys() | expected.keys():
        if found.get(key) != expected.get(key):
            yield key, found.get(key), expected.get(key)
