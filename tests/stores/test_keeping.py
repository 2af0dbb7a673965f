"""Stores in files: what survives a restart, what becomes of a full disk, of files that are none, and of damage."""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import HubError, RequestFailedError, RequestOverflowError, RequestTimeoutError, StorageError
from hub.settings.settings import Settings, StoresSettings
from hub.stores.command import Command, StoreLimits
from hub.stores.store import Entry, Store
from peers.client import connect
from peers.stores import keeping
from peers.stores.keeping import Database, InFile, Unkept
from peers.stores.operations import TypedOperations
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.stores.packed import SECOND_NS, master_of, pack

NOW_NS = 1_700_000_000 * 10**9
KEYS = [pack(key) for key in ("a", "b", 3)]


def put(key: bytes, value: Any, expiry_ns: int | None = None) -> Command:
    return Command("put", key, pack(value), expiry_ns)


class Kept:
    def __init__(self, path: Path, epoch_us: int = 1) -> None:
        self.keeper = InFile(str(path), lambda: epoch_us, full_sync=False)
        epoch, number = self.keeper.open("s")
        self.store = Store("s", TypedOperations(), StoreLimits(), number=number, epoch=epoch)
        self.keeper.load(self.store)
        self.told: list[HubError | None] = []

    def apply(self, *commands: Command, user: str | None = None) -> None:
        changes = [change for command in commands if (change := self.store.apply(command, NOW_NS, None, user))]
        self.keeper.keep(changes, self.told.append)

    def entries(self) -> dict[bytes, tuple[Any, ...]]:
        return {key: (*entry, self.store.expires_ns(key)) for key, entry in self.store.entries.items()}


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[..., Kept]]:
    started: list[Kept] = []

    def begin(**given: Any) -> Kept:
        started.append(Kept(tmp_path / "s.db", **given))
        return started[-1]

    yield begin
    for kept in started:
        await kept.keeper.close()


class Disk:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.error: Exception | None = None
        write = Database.write

        def wait(database: Database, unkept: Unkept) -> None:
            self.goes_on.wait()
            if self.error is not None:
                raise self.error
            write(database, unkept)

        monkeypatch.setattr(Database, "write", wait)
        monkeypatch.setattr(keeping, "RETRY_S", 0.01)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk(monkeypatch)
    yield made
    made.goes_on.set()


FULL = apsw.FullError("database or disk is full")


async def test_what_was_kept_is_there_again(start: Callable[..., Kept]) -> None:
    first = start()
    first.apply(put(KEYS[0], "one"), put(KEYS[1], {"x": [1]}, 5 * 10**9), user="ada")
    first.apply(put(KEYS[2], None), Command("erase", KEYS[0]))
    await eventually(lambda: first.told == [None, None])
    await first.keeper.close()
    again = start(epoch_us=9)
    assert again.entries() == first.entries()
    assert (again.store.number, again.store.epoch) == (4, first.store.epoch)
    assert again.store.charged("ada") == first.store.charged("ada")
    assert again.store.size_bytes == first.store.size_bytes
    again.apply(Command("clear"))
    again.apply(put(KEYS[0], "two"))
    await again.keeper.close()
    assert again.told == [None, None]
    assert start().entries() == {KEYS[0]: (pack("two"), 6, None, None)}


async def test_what_comes_at_once_is_one_transaction(start: Callable[..., Kept]) -> None:
    kept = start()
    order: list[int] = []
    for number in range(1_000):
        change = kept.store.apply(put(pack(number), number), NOW_NS)
        assert change is not None
        kept.keeper.keep([change], lambda _, number=number: order.append(number))
    await eventually(lambda: len(order) == 1_000)
    assert order == list(range(1_000))
    assert kept.keeper.commits_total == 1


async def test_to_wait_for_what_is_kept(start: Callable[..., Kept], disk: Disk) -> None:
    kept = start()
    order: list[HubError | str | None] = []
    kept.keeper.keep((), order.append)
    assert order == [None]
    kept.apply(put(KEYS[0], "one"))
    kept.keeper.keep((), lambda _: order.append("one is kept"))
    await asyncio.sleep(0)  # it is being written now
    kept.keeper.keep((), lambda _: order.append("nothing comes behind it"))
    assert len(order) == 1
    await eventually(lambda: order[1:] == ["one is kept", "nothing comes behind it"])
    assert kept.keeper.commits_total == 1
    disk.error = FULL
    kept.apply(put(KEYS[0], "two"))
    kept.keeper.keep((), order.append)
    await eventually(lambda: len(order) == 4)
    assert "disk is full" in str(order[3])
    kept.keeper.keep((), order.append)
    disk.error = None
    await eventually(lambda: len(order) == 5)
    kept.keeper.keep((), order.append)
    await eventually(lambda: order[-1] is None)


async def test_what_is_no_file_of_this_store(start: Callable[..., Kept], tmp_path: Path) -> None:
    await start().keeper.close()
    with pytest.raises(StorageError, match=r"holds another store, 's'; name another file"):
        Database(str(tmp_path / "s.db"), "t", 1, full_sync=False)
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(StorageError, match=r"is damaged, or not a file of a store"):
        Database(str(tmp_path / "text.db"), "s", 1, full_sync=False)
    with pytest.raises(StorageError, match=r"^store .*: there is no folder .*; make it first"):
        Database(str(tmp_path / "none" / "s.db"), "s", 1, full_sync=False)
    open_one = start()
    with pytest.raises(StorageError, match=r"is in use by another process"):
        Database(str(tmp_path / "s.db"), "s", 1, full_sync=False)
    await open_one.keeper.close()


commands = st.lists(
    st.one_of(
        st.builds(put, st.sampled_from(KEYS), st.integers(0, 3), st.none() | st.integers(1, 10)),
        st.builds(lambda key: Command("erase", key), st.sampled_from(KEYS)),
        st.just(Command("clear")),
    ),
    max_size=30,
)


@given(commands, st.lists(st.booleans(), max_size=30))
@settings(deadline=None)
def test_a_file_holds_what_the_store_does(done: list[Command], cuts: list[bool]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _write_and_read(Database(f"{folder}/s.db", "s", 1, full_sync=False), done, cuts)


def _write_and_read(database: Database, done: list[Command], cuts: list[bool]) -> None:
    store, unkept = Store("s", TypedOperations()), Unkept()
    for number, command in enumerate(done):
        later = Unkept()
        change = store.apply(command, NOW_NS)
        later.add([change] if change is not None else [], store)
        unkept = unkept.put_behind(later) if unkept else later
        if number < len(cuts) and cuts[number] and unkept:
            database.write(unkept)
            unkept = Unkept()
    if unkept:
        database.write(unkept)
    again = Store("s", TypedOperations(), number=database.number)
    again.restore(database.read(), database.number)
    assert again.entries == store.entries
    assert [again.expires_ns(key) for key in KEYS] == [store.expires_ns(key) for key in KEYS]
    assert again.number == store.number
    database.close(is_whole=True)


async def test_closing_while_it_fails(start: Callable[..., Kept], disk: Disk) -> None:
    kept = start()
    disk.error = apsw.IOError("disk I/O error")
    kept.apply(put(KEYS[0], "one"))
    async with asyncio.timeout(20):
        await kept.keeper.close()
    assert all(error is not None for error in kept.told)
    assert kept.told


READ, WRITE = "$store/s/read", "$store/s/write"


async def test_nobody_hears_of_what_is_not_kept(start_hub: StartHub, tmp_path: Path, disk: Disk) -> None:
    hub = await start_hub(settings=Settings(stores=StoresSettings(open=(f"s={tmp_path / 's.db'}",))))
    async with connect(hub.url) as client:
        first = await client.request(WRITE, ["put", pack("k"), pack(0)])
        disk.goes_on.clear()
        putting = asyncio.ensure_future(client.request(WRITE, ["put", pack("k"), pack(1)]))
        await eventually(lambda: master_of(hub).store.number == first + 1)
        asked = [
            asyncio.ensure_future(client.request(READ, ["since", first])),
            asyncio.ensure_future(client.request(WRITE, ["put_unique", pack("k"), pack(2)])),
            asyncio.ensure_future(client.store("s").replica().__aenter__()),
        ]
        assert (await client.request(READ, ["get", pack("k")]))[0] == pack(1)
        assert (await client.request(READ, ["rows", "", False]))[2:] == [first + 1, first + 1, [pack("k")]]
        await client.request(READ, ["state"])  # behind the others' questions
        assert not any(each.done() for each in (putting, *asked))
        disk.goes_on.set()
        assert await putting == first + 1
        (_, _, rows), was_new, replica = await asyncio.gather(*asked)
        assert [row[0] for row in rows] == [first + 1]
        assert was_new is None
        assert replica.get("k") == 1
        await replica.close()


async def test_what_cannot_be_kept(start_hub: StartHub, tmp_path: Path, disk: Disk) -> None:
    """It is answered as unknown, and is no change that is told, until it is written."""
    hub = await start_hub(settings=Settings(stores=StoresSettings(open=(f"s={tmp_path / 's.db'}",))))
    async with connect(hub.url) as client:
        store = client.store("s")
        first = await store.put("text", "x")
        disk.error = FULL
        for asked in (["put", pack("k"), pack(1)], ["put_unique", pack("k"), pack(1)]):
            with pytest.raises(RequestTimeoutError, match="disk is full"):
                await client.request(WRITE, asked)
        outcomes = await client.request_many(READ, [["since", first], ["exists", pack("k")]], return_exceptions=True)
        assert isinstance(outcomes[0], RequestOverflowError)
        assert outcomes[1] is True
        with pytest.raises(RequestTimeoutError, match=r"it is unknown .* not written to .*s\.db yet.*disk is full"):
            await store.increment("count")
        many = [["increment", pack("count"), pack(1)], ["increment", pack("text"), pack(1)]]
        unknown, refused = await client.request_many(WRITE, many, return_exceptions=True)
        assert isinstance(unknown, RequestTimeoutError)
        assert isinstance(refused, RequestFailedError)
        disk.error = None
        async with store.replica() as replica:
            assert replica.get("k") == 1
        assert await store.increment("count") == 3
        assert (await client.request(READ, ["since", first]))[1] == first + 4


def write(path: Path, notes: dict[str, bytes | None], *, full_sync: bool = False, closes: bool = True) -> None:
    opened = Database(str(path), "s", 1, full_sync=full_sync)
    unkept = Unkept()
    unkept.add([], Store("s", TypedOperations()), notes)
    opened.write(unkept)
    opened.close(is_whole=closes)


def read(path: Path) -> tuple[dict[str, bytes], bool]:
    opened = Database(str(path), "s", 1, full_sync=False)
    try:
        return opened.notes(), opened.is_certain
    finally:
        opened.close(is_whole=True)


def test_notes_are_there_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    assert read(path) == ({}, True)
    write(path, {"a": b"1", "b": b"2"})
    write(path, {"a": None, "b": b"3", "c": b""})
    assert read(path) == ({"b": b"3", "c": b""}, True)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE notes SET value = ? WHERE name = 'b'", (b"2",))
    connection.close()
    with pytest.raises(StorageError, match="a note is not as it was written"):
        read(path)


def test_a_killed_hub_and_a_machine_that_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel that runs still has what a killed hub has written; another one has what was synced to the disk."""
    path = tmp_path / "s.db"
    write(path, {"a": b"1"}, closes=False)
    assert read(path) == ({"a": b"1"}, True)
    write(path, {}, closes=False)
    monkeypatch.setattr(keeping, "_boot_id", lambda: b"another")
    assert read(path)[1] is False
    assert read(path)[1] is True
    write(path, {}, full_sync=True, closes=False)
    monkeypatch.setattr(keeping, "_boot_id", lambda: b"a third one")
    assert read(path)[1] is True
    write(path, {}, closes=False)
    monkeypatch.setattr(keeping, "_boot_id", lambda: b"")  # nobody can tell
    assert read(path)[1] is False
    write(path, {}, closes=False)
    assert read(path)[1] is False


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_notes_of_what_could_not_be_written(
    start: Callable[..., Kept], disk: Disk, tmp_path: Path, *, is_cleared: bool
) -> None:
    kept = start()
    store, told = kept.store, kept.told
    disk.error = FULL
    change = store.apply(put(KEYS[0], 1), 0)
    assert change is not None
    kept.keeper.keep([change], told.append, {"a": b"1", "b": b"1"})
    await eventually(lambda: len(told) == 1)
    assert told[0] is not None
    disk.error = None
    cleared = store.apply(Command("clear"), 0) if is_cleared else None
    kept.keeper.keep([cleared] if cleared else [], told.append, {"b": b"2"})
    await eventually(lambda: len(told) == 2)
    assert told[1] is None
    await kept.keeper.close()
    assert read(tmp_path / "s.db") == ({"a": b"1", "b": b"2"}, True)
    again = start()
    assert len(again.store) == len(store)
    assert again.store.number == store.number


# Damage: refused with a clear text, or harmless; never wrong entries.

_ENTRIES = 200
_SECTOR = 512
_TRIES = 25


def _write(path: Path, *, is_closed: bool) -> dict[int, dict[bytes, Entry]]:
    database = Database(str(path), "s", 1, full_sync=False)
    store = Store("s", TypedOperations(), epoch=database.epoch)
    states: dict[int, dict[bytes, Entry]] = {0: {}}
    for round_number in range(4):
        unkept = Unkept()
        for number in range(_ENTRIES):
            value = pack({"number": number, "text": f"{round_number}" * (number % 90)})
            change = store.apply(Command("put", pack(f"key {number}"), value, 3600 * SECOND_NS), 0, None, "ada")
            assert change is not None
            unkept.add([change], store)
        database.write(unkept)
        states[store.number] = dict(store.entries)
    if is_closed:
        database.close(is_whole=True)
    else:  # as a killed process leaves it
        copied = {each.name: each.read_bytes() for each in path.parent.iterdir()}
        database.close(is_whole=False)
        for name, data in copied.items():
            (path.parent / name).write_bytes(data)
    return states


def _read(path: Path) -> Store:
    database = Database(str(path), "s", 9, full_sync=False)
    try:
        store = Store("s", TypedOperations(), number=database.number, epoch=database.epoch)
        store.restore(database.read(), database.number)
    finally:
        database.close(is_whole=True)
    return store


def _flip(data: bytearray, chance: random.Random) -> bytearray:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def _zero(data: bytearray, chance: random.Random) -> bytearray:
    start = chance.randrange(len(data) // _SECTOR) * _SECTOR
    data[start : start + _SECTOR] = bytes(_SECTOR)
    return data


def _cut(data: bytearray, chance: random.Random) -> bytearray:
    return data[: chance.randrange(1, len(data))]


def _swap(data: bytearray, chance: random.Random) -> bytearray:
    page = 4096
    one, other = (chance.randrange(1, len(data) // page) * page for _ in range(2))
    data[one : one + page], data[other : other + page] = data[other : other + page], data[one : one + page]
    return data


Damage = Callable[[bytearray, random.Random], bytearray]


@pytest.mark.parametrize("damage", [_flip, _zero, _cut, _swap])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_damaged_file(tmp_path: Path, damage: Damage, *, is_closed: bool) -> None:
    """Of one that was closed nothing is missing unnoticed; of a killed hub's what its log says before it counts."""
    whole = tmp_path / "whole"
    whole.mkdir()
    states = _write(whole / "s.db", is_closed=is_closed)
    last = max(states)
    assert _read_copy(whole, tmp_path / "sound").entries == states[last]
    name = "s.db" if is_closed else "s.db-wal"
    chance = random.Random(damage.__name__)  # noqa: S311 -- to be repeated
    refused = 0
    for number in range(_TRIES):
        folder = tmp_path / str(number)
        data = damage(bytearray((whole / name).read_bytes()), chance)
        try:
            store = _read_copy(whole, folder, name, data)
        except StorageError as error:
            refused += f"store 's': {folder}/s.db" in str(error)
            continue
        assert store.entries == states[store.number]
        assert store.number == last or not is_closed
    assert refused > 0 or not is_closed


def _read_copy(whole: Path, folder: Path, name: str = "", data: bytes = b"") -> Store:
    folder.mkdir()
    for each in whole.iterdir():
        (folder / each.name).write_bytes(data if each.name == name else each.read_bytes())
    return _read(folder / "s.db")
