"""What is noted beside a store in a file: kept with the changes or not at all, and told from what was lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from hub.errors import HubError, StorageError
from hub.stores.command import Command
from hub.stores.store import Store
from peers.stores import keeping
from peers.stores.keeping import Database, InFile, Unkept
from peers.stores.operations import TypedOperations
from tests.hubs.eventually import eventually
from tests.stores.packed import pack


def write(path: Path, notes: dict[str, bytes | None], *, full_sync: bool = False, closes: bool = True) -> None:
    """Write notes in one transaction; a file that is not closed is as a killed hub leaves it."""
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


def test_a_damaged_note_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    write(path, {"a": b"1"})
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE notes SET value = ? WHERE name = 'a'", (b"2",))
    connection.close()
    with pytest.raises(StorageError, match="a note is not as it was written"):
        read(path)


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_notes_of_what_could_not_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_cleared: bool,  # noqa: FBT001 -- a parameter
) -> None:
    keeper = InFile(str(tmp_path / "s.db"), lambda: 1, full_sync=False)
    epoch, number = keeper.open("s")
    store = Store("s", TypedOperations(), number=number, epoch=epoch)
    keeper.load(store)
    told: list[HubError | None] = []
    write_all: Callable[[Database, Unkept], None] = Database.write

    def fail(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(keeping, "RETRY_S", 0.01)
    monkeypatch.setattr(Database, "write", fail)
    change = store.apply(Command("put", pack("k"), pack(1)), 0)
    assert change is not None
    keeper.keep([change], told.append, {"a": b"1", "b": b"1"})
    await eventually(lambda: len(told) == 1)
    assert told[0] is not None
    monkeypatch.setattr(Database, "write", write_all)
    commands = [Command("clear")] if is_cleared else []
    changes = [found for command in commands if (found := store.apply(command, 0)) is not None]
    keeper.keep(changes, told.append, {"b": b"2"})
    await eventually(lambda: len(told) == 2)
    assert told[1] is None
    await keeper.close()
    assert read(tmp_path / "s.db") == ({"a": b"1", "b": b"2"}, True)
    again = Database(str(tmp_path / "s.db"), "s", 1, full_sync=False)
    assert len(list(again.read())) == len(store)
    assert again.number == store.number
    again.close(is_whole=True)
