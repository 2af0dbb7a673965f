"""A store of the hub as a Broker master serves it: the same as Broker's, byte for byte, where both can do it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest

from hub.errors import HubError, StoreError
from hub.stores.change import Change, ChangeKind
from hub.stores.command import Command
from hub.stores.store import Store
from peers.stores.operations import TypedOperations
from peers.values import Count, Port, Set, Table, Timespan, Timestamp, encode, to_msgpack
from peers.values.layout import Tag
from peers.zeek.broker.stores.command import Add, Clear, Erase, Expire, Put, PutUnique, Subtract, entity
from peers.zeek.broker.stores.master import Change as Told
from peers.zeek.broker.stores.master import Wish
from peers.zeek.broker.stores.served import HubStore, entity_of, publisher_of
from tests.zeek.broker.recorded import HIGH, LOW
from tests.zeek.broker.stores.memory import MemoryStore
from tests.zeek.broker.stores.replay import MasterRole, replay
from tests.zeek.broker.stores.simulated import any_wish
from tests.zeek.broker.stores.test_replay import MASTERS, NAMES

OWN, CLONE = entity(HIGH, 8), entity(LOW, 7)
KEY, TEXT = encode("k"), encode("v")


class Backed:
    """A store of the hub with a clock of its own, and what is told of it."""

    def __init__(self, own: bytes = OWN) -> None:
        self.now_ns = 1_000_000_000_000
        self.store = Store("db", TypedOperations())
        self.tell: Callable[[Told], object] = lambda _: None
        self.hub_store = HubStore(own, self, self.store, lambda: self.now_ns)
        self.error: HubError | None = None

    # As the owner of the store.

    def change(self, command: Command, publisher: object = None) -> Change | StoreError | None:
        """One command."""
        try:
            outcome = self.store.apply(command, self.now_ns, publisher)
        except StoreError as error:
            return error
        if outcome is not None:
            self._tell([outcome])
        return outcome

    def _tell(self, changes: list[Change]) -> None:
        for told in self.hub_store.told(changes):
            self.tell(told)

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        """As both: nothing is kept."""
        then(None)

    # As what a master serves.

    def __len__(self) -> int:
        return len(self.hub_store)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """As `ServedStore`."""
        return self.hub_store.entries()

    def expire(self, key: bytes) -> None:
        """Let time go on until something expires."""
        self.now_ns += 10**12
        assert [change.key for change in self.store.expire(self.now_ns)] == [to_msgpack(key)]
        self._tell(list(self.store.changes.since(self.store.number - 1, self.store.number, 1, 1 << 20) or ()))


class Owned(Backed):
    """The same, with `apply` for wishes and for commands: a wish is never a list."""

    def apply(
        self,
        what: Wish | Iterable[Command | StoreError],
        then: Callable[..., object] = lambda *_: None,
        publisher: object = None,
        _: str | None = None,
    ) -> None:
        """As `ServedStore`, and as `StoreOwner`."""
        if isinstance(what, list):
            outcomes = [
                command if isinstance(command, StoreError) else self.change(command, publisher) for command in what
            ]
            then(outcomes, self.error)
        else:
            self.hub_store.apply(what, then)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_in_place_of_a_recorded_master(name: str) -> None:
    """Through msgpack and back, the same is said byte for byte."""
    end = MasterRole({encode("a"): encode("one")} if name.startswith("t01") else {}, Owned)  # type: ignore[arg-type]
    assert end.said == replay(name, end, MASTERS[name])


def test_it_comes_to_the_same_as_broker() -> None:
    """Of random wishes, a store of the hub and one as Broker's come to the same."""
    owned, memory = Owned(), MemoryStore(OWN)
    chance = random.Random(2)  # noqa: S311 -- to be repeatable
    for _ in range(500):
        wish = any_wish(chance, CLONE)
        owned.apply(wish)
        memory.apply(wish)
    assert dict(owned.entries()) == memory.content
    assert len(owned) == len(memory) > 0


def granted(owned: Owned, wish: Wish) -> tuple[list[Told], list[bool]]:
    """What is told of a wish, and whether it was granted."""
    told: list[Told] = []
    outcome: list[bool] = []
    owned.tell = told.append
    owned.apply(wish, outcome.append)
    return told, outcome


def test_wishes() -> None:
    """Each is told as what it has become; one that changes nothing is not told."""
    owned = Owned()
    assert granted(owned, Put(KEY, TEXT, 5, CLONE)) == ([Put(KEY, TEXT, 5, CLONE)], [True])
    assert granted(owned, PutUnique(KEY, TEXT, None, CLONE, 1, CLONE)) == ([], [False])
    assert granted(owned, PutUnique(TEXT, TEXT, None, CLONE, 1, CLONE)) == ([Put(TEXT, TEXT, None, CLONE)], [True])
    assert granted(owned, Erase(TEXT, CLONE)) == ([Erase(TEXT, CLONE)], [True])
    assert granted(owned, Erase(TEXT, CLONE)) == ([], [False])
    assert granted(owned, Clear(CLONE)) == ([Clear(CLONE)], [True])
    assert owned.hub_store.refused == 0


@pytest.mark.parametrize(
    ("tag", "value", "sum_"),
    [
        (Tag.COUNT, Count(5), Count(5)),
        (Tag.INTEGER, -5, -5),
        (Tag.REAL, 1.5, 1.5),
        (Tag.STRING, "text", "text"),
        (Tag.TIMESTAMP, Timespan(7), Timestamp(7)),
        (Tag.TIMESPAN, Timespan(7), Timespan(7)),
        (Tag.SET, "x", Set(["x"])),
        (Tag.TABLE, ("a", 1), Table([("a", 1)])),
        (Tag.VECTOR, "x", ("x",)),
    ],
)
def test_what_is_added_to_nothing(tag: Tag, value: object, sum_: object) -> None:
    """It begins with the zero of the type that the clone names."""
    told, outcome = granted(Owned(), Add(KEY, encode(value), tag, None, CLONE))
    assert (told, outcome) == ([Put(KEY, encode(sum_), None, CLONE)], [True])


@pytest.mark.parametrize(
    "wish",
    [
        Subtract(KEY, encode(1), None, CLONE),
        Add(KEY, encode(1), Tag.PORT, None, CLONE),
        Add(KEY, encode("x"), Tag.COUNT, None, CLONE),
        Put(KEY, TEXT, -1, CLONE),
        Put(b"\x0f", TEXT, None, CLONE),
    ],
)
def test_what_cannot_be_granted(wish: Wish) -> None:
    """It is counted; nothing is changed or told."""
    owned = Owned()
    assert granted(owned, wish) == ([], [False])
    assert (owned.hub_store.refused, len(owned)) == (1, 0)


def test_what_cannot_be_kept() -> None:
    """The clone is told that its value was not set."""
    owned = Owned()
    owned.error = StoreError("the disk is full")
    assert granted(owned, PutUnique(KEY, TEXT, None, CLONE, 1, CLONE))[1] == [False]
    assert owned.hub_store.refused == 1


def test_changes_by_clients() -> None:
    """They are published by the master; an expiry goes from when it is told."""
    owned = Owned()
    told: list[Told] = []
    owned.tell = told.append
    owned.change(Command("put", to_msgpack(encode(Port(53, "udp"))), to_msgpack(TEXT), 7_000), "alice")
    owned.change(Command("clear"), "zeek nobody#1")
    assert told == [Put(encode(Port(53, "udp")), TEXT, 7_000, OWN), Clear(OWN)]
    owned.now_ns += 10_000
    gone = Change(9, ChangeKind.EXPIRE, to_msgpack(KEY), None, to_msgpack(TEXT), None, None)
    late = Change(8, ChangeKind.PUT, to_msgpack(KEY), to_msgpack(TEXT), None, owned.now_ns - 5, None)
    assert list(owned.hub_store.told([late, gone])) == [Put(KEY, TEXT, 1, OWN), Expire(KEY, OWN)]


def test_what_has_no_broker_form() -> None:
    """Such an entry is left out, and counted each time."""
    owned = Owned()
    told: list[Told] = []
    owned.tell = told.append
    deep = msgspec.msgpack.encode(_nested(150))
    owned.change(Command("put", to_msgpack(KEY), deep))
    owned.change(Command("put", to_msgpack(TEXT), to_msgpack(TEXT)))
    owned.change(Command("put", deep, to_msgpack(TEXT)))
    assert list(owned.entries()) == [(TEXT, TEXT)]
    assert told == [Erase(KEY, OWN), Put(TEXT, TEXT, None, OWN)]  # or a clone would keep what was there before
    assert (len(owned), owned.hub_store.unwritable) == (2, 2)


def _nested(levels: int) -> list[object]:
    nested: list[object] = []
    for _ in range(levels):
        nested = [nested]
    return nested


def test_publishers() -> None:
    """An entity is named so that people can read it, and Broker gets it back."""
    assert publisher_of(CLONE) == "zeek 11111111-1111-4111-8111-111111111111#7"
    assert entity_of(publisher_of(CLONE), OWN) == CLONE
    for publisher in (None, "alice", "zeek ", "zeek x#1", f"zeek {'0' * 32}#-1", f"zeek {'0' * 32}#{1 << 64}", 7):
        assert entity_of(publisher, OWN) == OWN
