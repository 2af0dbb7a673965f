"""Files of stores that are damaged: refused with a clear text, or harmless; never wrong entries."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hub.errors import StorageError
from hub.stores.command import Command
from hub.stores.store import Entry, Store
from peers.stores.keeping import Database, Unkept
from peers.stores.operations import TypedOperations
from tests.stores.packed import SECOND_NS, pack

_ENTRIES = 400
_SECTOR = 512
_TRIES = 60


def _write(path: Path, *, is_closed: bool) -> dict[int, dict[bytes, Entry]]:
    """Make a file in several transactions; return what it held behind each, by the number of the last change."""
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
