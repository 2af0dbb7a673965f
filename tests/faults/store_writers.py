"""Writers of a store that is killed under them: each knows what the store may hold of what it wrote, and nothing else.

A writer asks for one thing at a time. Where nobody tells it what has become of that (`ConnectionLostError` and what
hubs say of a lost link), it looks, or asks again where a condition makes that harmless: so each command is found to be
carried out once, or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable
from random import Random
from typing import Any, Protocol

from peers.client.store import Store

__all__ = [
    "Conditional",
    "Expiring",
    "Many",
    "Number",
    "Shared",
    "SharedCount",
    "Text",
    "Unique",
    "Vector",
    "Versions",
    "Writer",
]

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
