"""A replica is equal to its master once quiet, whatever a link does to what the master says."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.stores.command import Change, ChangeKind, StoreLimits
from hub.stores.replica import HELD, Needs, Replica
from hub.stores.store import Snapshot, Store
from tests.stores.packed import command, pack, store


def _entries(stored: Store) -> dict[bytes, tuple[bytes, int]]:
    return {key: entry[:2] for key, entry in stored.entries.items()}


def _copy(replica: Replica, stored: Store, between: Callable[[], object] = lambda: None) -> list[Change]:
    snapshot = Snapshot(stored)
    replica.begin(stored.epoch, snapshot.number)
    while not snapshot.is_done:
        rows = snapshot.page(2, 1_000)
        between()
        replica.take_rows(rows)
    return replica.finish(stored.number)


class _Link:
    """Carries changes from a master to a replica: some are lost, some come twice, some later than others."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._carried: list[tuple[int, Change]] = []

    def send(self, epoch: int, change: Change) -> None:
        fate = self._chance.random()
        if fate > 0.15:
            self._carried.append((epoch, change._replace(old=None)))
        if fate > 0.85:
            self._carried.append((epoch, change._replace(old=None)))

    def deliver(self, replica: Replica, told: Callable[[list[Change]], None]) -> None:
        count = self._chance.randint(0, len(self._carried))
        for _ in range(count):
            epoch, change = self._carried.pop(self._chance.randrange(min(4, len(self._carried))))
            told(replica.hear(epoch, [change]))


class _Reader:
    """Asks for what the replica needs, as its owner does; a snapshot is read in as many steps as it takes."""

    def __init__(self, replica: Replica, told: Callable[[list[Change]], None]) -> None:
        self._replica = replica
        self._told = told
        self._snapshot: Snapshot | None = None

    def step(self, master: Store) -> None:
        replica = self._replica
        if self._snapshot is not None:
            replica.take_rows(self._snapshot.page(2, 1_000))
            if self._snapshot.is_done:
                self._snapshot = None
                self._told(replica.finish(master.number))
        elif replica.needs is Needs.SNAPSHOT:
            self._snapshot = Snapshot(master)
            replica.begin(master.epoch, self._snapshot.number)
        elif replica.needs is Needs.CHANGES:
            changes = master.since(replica.number, 3, 10_000)
            if changes is None:
                replica.forgotten()
            else:
                self._told(replica.hear(master.epoch, changes))

    def restart(self) -> None:
        self._snapshot = None
        self._replica.forgotten()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_replica_equals_its_master_once_quiet(seed: int) -> None:  # noqa: C901 -- it is one story
    """Lost, doubled and late changes, pages between writes, and a master that begins anew: it tells what is there."""
    chance = random.Random(seed)  # noqa: S311 -- to be repeated, not to be secret
    master = store(StoreLimits(changes=8), epoch=1, number=100)
    replica = Replica()
    mirror: dict[bytes, bytes] = {}

    last = 0

    def told(changes: list[Change]) -> None:
        nonlocal last
        for change in changes:
            assert change.number >= last
            last = change.number
            if change.kind == ChangeKind.CLEAR:
                mirror.clear()
                continue
            assert change.old == mirror.get(change.key)
            if change.value is None:
                mirror.pop(change.key, None)
            else:
                mirror[change.key] = change.value
        assert mirror == {key: value for key, (value, _) in replica.entries.items()}

    link, reader = _Link(chance), _Reader(replica, told)
    for _ in range(120):
        act = chance.random()
        if act < 0.5:
            kind = chance.choice(["put", "put", "put", "erase", "clear"] if chance.random() < 0.2 else ["put", "erase"])
            change = master.apply(command(kind, chance.randrange(8), chance.randrange(1_000)), 0)
            if change is not None:
                link.send(master.epoch, change)
        elif act < 0.7:
            link.deliver(replica, told)
        elif act < 0.98:
            reader.step(master)
        elif act < 0.99:
            replica.heard(master.epoch, master.number, 1)
        else:
            master = store(StoreLimits(changes=8), epoch=master.epoch + 1, number=master.number + chance.randrange(50))
            reader.restart()
    replica.heard(master.epoch, master.number, 10)
    for _ in range(100):
        reader.step(master)
    assert replica.needs is Needs.NOTHING
    assert replica.is_ready
    assert replica.entries == _entries(master)
    assert replica.number == master.number
    assert replica.age_ns(15) == 5


def test_writes_between_pages_are_part_of_the_copy() -> None:
    master = store()
    for number in range(10):
        master.apply(command("put", number, number), 0)
    lost: list[Change | None] = []

    def write() -> None:
        lost.append(master.apply(command("put", 0, "new"), 0))
        lost.append(master.apply(command("erase", 9), 0))

    replica = Replica()
    assert _copy(replica, master, write) == []
    assert not replica.is_ready
    assert replica.needs is Needs.CHANGES
    assert replica.hear(0, [change for change in lost if change is not None])
    assert replica.is_ready
    assert replica.entries == _entries(master)


def test_age_is_that_of_the_last_number_that_was_heard_of_and_is_here() -> None:
    master, replica = store(), Replica()
    assert replica.age_ns(0) is None
    _copy(replica, master)
    replica.heard(0, 0, 1_000)
    assert replica.age_ns(1_500) == 500
    change = master.apply(command("put", 1, 1), 0)
    assert change is not None
    replica.heard(0, 1, 2_000)
    assert (replica.needs, replica.age_ns(2_500)) == (Needs.CHANGES, 1_500)
    replica.hear(0, [change])
    assert (replica.needs, replica.age_ns(2_500)) == (Needs.NOTHING, 500)


def test_held_changes_have_a_bound() -> None:
    master, replica = store(), Replica()
    _copy(replica, master)
    far = Change(HELD + 1, 0, pack(1), pack(1), None, None, None)
    replica.hear(0, [far, far._replace(number=HELD + 5)])
    assert list(replica._held) == []
    assert replica.needs is Needs.CHANGES
    replica.hear(0, [far._replace(number=HELD)])
    assert list(replica._held) == [HELD]


def test_a_snapshot_that_need_not_be_told_is_not() -> None:
    master, replica = store(), Replica(tells_loaded=False)
    master.apply(command("put", 1, 1), 0)
    assert _copy(replica, master) == []
    assert replica.entries == _entries(master)


@pytest.mark.parametrize("prefix", ["", "a", "ab", "é", "x" * 40])
def test_a_snapshot_can_be_of_the_strings_that_begin_alike(prefix: str) -> None:
    master = store()
    keys = ["", "a", "ab", "abc", "b", "é", "éa", "x" * 39, "x" * 40, "x" * 300, "x" * 70_000, 1, None, ("a",)]
    for key in keys:
        master.apply(command("put", key, 1), 0)
    snapshot = Snapshot(master, prefix)
    found: list[bytes] = []
    while not snapshot.is_done:
        found += [row.key for row in snapshot.page(3, 100_000)]
    wanted = [key for key in keys if not prefix or (isinstance(key, str) and key.startswith(prefix))]
    assert found == [pack(key) for key in wanted]


def test_pages_are_bounded_by_bytes() -> None:
    """A page is as large as it may be, and one entry at least; nothing is left out between two."""
    master = store()
    for number in range(6):
        master.apply(command("put", number, "x" * 90), 0)
    snapshot = Snapshot(master)
    sizes: list[int] = []
    while not snapshot.is_done:
        sizes.append(len(snapshot.page(10, 200)))
    assert sizes == [2, 2, 2]
    snapshot = Snapshot(master)
    assert len(snapshot.page(10, 1)) == 1
