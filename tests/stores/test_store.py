"""A store does what its commands say, as a dictionary of Python values; a replica is equal to it once it is quiet."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import StoreError
from hub.stores.command import ENTRY_BYTES, Change, ChangeKind, Command, StoreLimits
from hub.stores.replica import HELD, Needs, Replica
from hub.stores.store import Snapshot, Store
from peers.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value
from peers.values.values import identity
from tests.stores.packed import SECOND_NS, command, pack, store, unpack

_TICK_NS = SECOND_NS // 10


def _put(stored: Store, key: Any, value: Any, **terms: Any) -> Change:
    change = stored.apply(command("put", key, value, **terms), 0)
    assert change is not None
    return change


_I64 = st.integers(-(1 << 63), (1 << 63) - 1)
_NUMBERS = st.one_of(
    st.sampled_from([-(1 << 63), (1 << 63) - 1, 0, 1, -5]),
    st.sampled_from([0, 1, (1 << 64) - 1]).map(Count),
    st.sampled_from([0.0, -0.0, 1.5, float("inf")]),
    st.sampled_from([0, 1, (1 << 63) - 1]).map(Timestamp),
    st.sampled_from([0, 1, -1, (1 << 63) - 1]).map(Timespan),
)
_PLAIN = st.one_of(
    _NUMBERS,
    st.booleans(),
    st.none(),
    st.sampled_from(["", "a", "bc", "\udcff"]),
    st.sampled_from([Port(53, "udp"), Enum("A::B")]),
)
_CONTAINERS = st.one_of(
    st.lists(_PLAIN, max_size=3).map(tuple),
    st.lists(_PLAIN, max_size=3).map(Set),
    st.lists(st.tuples(_PLAIN, _PLAIN), max_size=3).map(Table),
)
_VALUES = st.one_of(_PLAIN, _CONTAINERS)
_KEYS = st.one_of(st.sampled_from(["a", "b", 1, Count(1), 1.0, True]), st.permutations(["x", "y"]).map(Set))
_KINDS = [
    *("put", "put_unique", "erase", "clear", "increment", "decrement", "append", "insert", "insert_entry", "remove"),
    *("push", "pop", "add", "subtract"),
]


class _Refused(Exception):  # noqa: N818 -- no error of the code
    pass


class _Model:
    def __init__(self, entries_limit: int) -> None:
        self.entries: dict[Any, tuple[Value, Value, int]] = {}
        self.due: dict[Any, int] = {}
        self.number = 0
        self._limit = entries_limit

    def apply(  # noqa: PLR0917 -- the fields of a command
        self, kind: str, key: Value, value: Value, expiry_ns: int | None, version: int | None, empty: Value, now_ns: int
    ) -> int | None:
        name = identity(key)
        there = self.entries.get(name)
        if kind == "clear":
            self.entries.clear()
            self.due.clear()
        elif kind == "erase":
            if there is None or (version is not None and version != there[2]):
                return None
            del self.entries[name]
            self.due.pop(name, None)
        else:
            if kind in {"put", "put_unique"}:
                if kind == "put_unique" and there is not None:
                    return None
                if version is not None and version != (0 if there is None else there[2]):
                    return None
                new = value
                self._need(expiry_ns is None or expiry_ns > 0)
                due = None if expiry_ns is None else now_ns + expiry_ns
            else:
                new = self._calculate(kind, None if there is None else there[1], value, empty, there is None)
                self._need(expiry_ns is None or expiry_ns > 0)
                due = self.due.get(name) if expiry_ns is None else now_ns + expiry_ns
            self._need(there is not None or len(self.entries) < self._limit)
            self.entries[name] = (key, new, self.number + 1)
            self.due.pop(name, None)
            if due is not None:
                self.due[name] = due
        self.number += 1
        return self.number

    def expire(self, now_ns: int) -> None:
        for name, due in list(self.due.items()):
            if -(-due // _TICK_NS) * _TICK_NS <= now_ns:
                del self.due[name], self.entries[name]
                self.number += 1

    @staticmethod
    def _need(is_so: bool) -> None:  # noqa: FBT001 -- reads as a sentence
        if not is_so:
            raise _Refused

    def _calculate(self, kind: str, old: Any, value: Any, empty: Any, is_missing: bool) -> Value:  # noqa: FBT001
        if is_missing:
            self._need(kind not in {"decrement", "remove", "pop", "subtract"})
            zeros = {int: 0, Count: Count(0), float: 0.0, Timespan: Timespan(0)}
            if kind == "increment":
                self._need(type(value) in zeros)
            old = {
                "increment": zeros.get(type(value)),
                "append": "",
                "insert": Set(),
                "insert_entry": Table(),
                "push": (),
                "add": empty,
            }[kind]
        if kind in {"add", "subtract"}:
            names: dict[type, str] = {
                str: "append",
                Set: "insert remove",
                Table: "insert_entry remove",
                tuple: "push pop",
            }
            kind = names.get(type(old), "increment decrement").split()[-1 if kind == "subtract" else 0]
            self._need(kind != "append" or type(value) is str)
        return self._typed(kind, old, value)

    def _typed(self, kind: str, old: Any, value: Any) -> Value:  # noqa: C901, PLR0911 -- one for each kind
        if kind in {"increment", "decrement"}:
            sign = 1 if kind == "increment" else -1
            if type(old) in {Timestamp, Timespan}:
                self._need(type(value) is Timespan)
                ns = old.ns + sign * value.ns
                self._need(-(1 << 63) <= ns < 1 << 63)
                return type(old)(ns)
            self._need(type(old) in {int, Count, float} and type(value) is type(old))
            total = old + sign * value
            if type(old) is int:
                self._need(-(1 << 63) <= total < 1 << 63)
            if type(old) is Count:
                self._need(0 <= total < 1 << 64)
            return type(old)(total)
        if kind == "append":
            self._need(type(old) is str and type(value) is str)
            return old + value
        if kind == "push":
            self._need(type(old) is tuple)
            return (*old, value)
        if kind == "pop":
            self._need(type(old) is tuple)
            return old[:-1]
        if kind == "insert":
            self._need(type(old) is Set)
            return Set([*old, value])
        if kind == "insert_entry":
            self._need(type(old) is Table and type(value) is tuple and len(value) == 2)
            return Table([*old.items(), value])
        self._need(type(old) in {Set, Table})
        if type(old) is Set:
            return Set([each for each in old if identity(each) != identity(value)])
        return Table([(key, each) for key, each in old.items() if identity(key) != identity(value)])


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(_KINDS),
        _KEYS,
        _VALUES,
        st.sampled_from([None, None, None, 0, 1, _TICK_NS, 5 * _TICK_NS]),
        st.sampled_from([None, None, None, 0, 1, 2, 3, 4]),
        _CONTAINERS | st.just("") | _NUMBERS,
        st.sampled_from([0, 0, 1, _TICK_NS - 1, _TICK_NS]),
    ),
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(_STEPS)
def test_a_store_is_a_dictionary_of_typed_values(steps: list[Any]) -> None:
    stored, model = store(StoreLimits(entries=4)), _Model(4)
    mirror: dict[bytes, bytes] = {}
    now_ns = 0
    for kind, key, value, expiry_ns, version, empty, later_ns in steps:
        now_ns += later_ns
        told: list[Change | None] = list(stored.expire(now_ns))
        model.expire(now_ns)
        assert stored.number == model.number
        asked = Command(kind, pack(key), pack(value), expiry_ns, version, pack(empty))
        refused = False
        try:
            expected = model.apply(kind, key, value, expiry_ns, version, empty, now_ns)
        except _Refused:
            refused = True
            with pytest.raises(StoreError):
                stored.apply(asked, now_ns, "me")
        if not refused:
            change = stored.apply(asked, now_ns, "me")
            assert (None if change is None else change.number) == expected
            told.append(change)
        for each in told:
            if each is None:
                continue
            assert each.old == mirror.get(each.key)
            if each.kind == ChangeKind.CLEAR:
                mirror.clear()
            elif each.value is None:
                del mirror[each.key]
            else:
                mirror[each.key] = each.value
                assert each.expires_ns == stored.expires_ns(each.key)
        _compare(stored, model, mirror)


def _compare(stored: Store, model: _Model, mirror: dict[bytes, bytes]) -> None:
    entries = {key: entry[:2] for key, entry in stored.entries.items()}
    expected = {identity(key): (identity(value), version) for key, value, version in model.entries.values()}
    assert {identity(unpack(key)): (identity(unpack(value)), version) for key, (value, version) in entries.items()} == (
        expected
    )
    assert {key: value for key, (value, _) in entries.items()} == mirror
    assert stored.size_bytes == sum(len(key) + len(value) + ENTRY_BYTES for key, (value, _) in entries.items())
    assert stored.statistics().expiring == len(model.due)


def test_equal_keys_are_one_key() -> None:
    stored = store()
    stored.apply(Command("put", msgpack.packb(b"a"), pack(1)), 0)
    stored.apply(Command("put", b"\xd9\x01a", pack(2)), 0)
    assert stored.entries == {b"\xa1a": (pack(2), 2, None)}
    for members in (["x", "y"], ["y", "x"]):
        packed = b"\xc7\x05\x08\x92" + b"".join(map(pack, members))
        stored.apply(Command("put", packed, pack(3)), 0)
    assert len(stored) == 2
    entry = stored.get(b"\xd9\x01a")
    assert entry is not None
    assert entry[0] == pack(2)


@pytest.mark.parametrize("packed", [b"", b"\xa2a", b"\x01\x02", b"\xc1", b"\xd4\x63\x00"])
def test_what_is_no_value_is_refused_as_key_and_as_value(packed: bytes) -> None:
    stored = store()
    with pytest.raises(StoreError, match="is invalid"):
        stored.apply(Command("put", packed, pack(1)), 0)
    with pytest.raises(StoreError, match="is invalid"):
        stored.apply(Command("put", pack(1), packed), 0)
    assert not stored.entries
    assert stored.statistics().refused_total == 2


@pytest.mark.parametrize(
    ("kind", "old", "operand", "text"),
    [
        ("increment", "a", 1, "increment: the entry is of type string, the value of type integer"),
        ("increment", Count(1), 1, "the entry is of type count, the value of type integer"),
        ("increment", (1 << 63) - 1, 1, "out of range"),
        ("decrement", Count(0), Count(1), "out of range"),
        ("pop", "a", None, "the entry is of type string"),
        ("insert_entry", Table(), 1, "a vector of key and value"),
        ("shuffle", 1, 1, "'shuffle' is nothing that a store can be asked for"),
    ],
)
def test_a_refusal_says_why(kind: str, old: Any, operand: Any, text: str) -> None:
    stored = store()
    _put(stored, "k", old)
    with pytest.raises(StoreError, match=text):
        stored.apply(command(kind, "k", operand), 0)
    assert unpack(stored.entries[pack("k")][0]) == old


def test_limits_hold_and_are_counted() -> None:
    stored = store(StoreLimits(bytes=2 * (ENTRY_BYTES + 12), entry_bytes=20))
    with pytest.raises(StoreError, match="an entry of 31 bytes, the limit is 20"):
        _put(stored, 0, "x" * 29)
    _put(stored, 0, "x" * 10)
    _put(stored, 1, "x" * 10)
    with pytest.raises(StoreError, match="the store is full"):
        _put(stored, 2, "")
    with pytest.raises(StoreError, match="the store is full"):
        stored.apply(command("append", 1, "y"), 0)
    _put(stored, 1, "x")
    assert stored.statistics().refused_total == 3


def test_users_are_charged_for_what_they_wrote_last() -> None:
    stored = store(StoreLimits(user_entries=2, user_bytes=1_000))
    for key in range(2):
        stored.apply(command("put", key, "x"), 0, user="alice")
    with pytest.raises(StoreError, match="2 entries of user 'alice'"):
        stored.apply(command("put", 2, "x"), 0, user="alice")
    stored.apply(command("put", 2, "x"), 0, user="bob")
    stored.apply(command("put", 1, "xy"), 0, user="bob")
    assert stored.charged("alice") == (1, 3 + ENTRY_BYTES)
    assert stored.charged("bob") == (2, 7 + 2 * ENTRY_BYTES)
    with pytest.raises(StoreError, match="more than 1000 bytes"):
        stored.apply(command("put", 2, "x" * 900), 0, user="bob")
    stored.apply(command("put", 2, "x"), 0)
    stored.apply(command("erase", 1), 0)
    assert stored.charged("bob") == (0, 0)
    stored.apply(command("clear"), 0)
    assert stored.charged("alice") == (0, 0)


def test_expiry_is_exact_to_a_tick_and_goes_in_shares() -> None:
    """What is due goes at the end of its 100 ms, not before; a later put makes it live longer, or for ever."""
    stored = store()
    for key in range(5):
        _put(stored, key, 0, expiry_ns=150_000_000)
    _put(stored, 0, 1)
    _put(stored, 1, 1, expiry_ns=SECOND_NS)
    assert stored.next_expiry_ns == 200_000_000
    assert stored.expire(199_999_999) == []
    assert [change.kind for change in stored.expire(200_000_000, 2)] == [ChangeKind.EXPIRE] * 2
    assert stored.next_expiry_ns == 200_000_000
    assert len(stored.expire(200_000_000)) == 1
    assert stored.next_expiry_ns == SECOND_NS
    stored.apply(command("clear"), 0)
    assert stored.next_expiry_ns is None


def test_times_that_come_and_go_take_no_room() -> None:
    stored = store()
    for number in range(1, 1_000):
        _put(stored, "k", 0, expiry_ns=number * SECOND_NS)
    assert len(stored._expiry._order) < 200
    assert len(stored._expiry) == 1


def test_index_gives_parts() -> None:
    stored = store()
    _put(stored, "v", ("a", "b"))
    _put(stored, "s", Set([1]))
    _put(stored, "t", Table({1: "one"}))

    def part(key: str, index: Any) -> Any:
        found = stored.index(pack(key), pack(index))
        return None if found is None else unpack(found)

    assert (part("v", 1), part("v", Count(0)), part("v", 2), part("v", -1)) == ("b", "a", None, None)
    assert (part("s", 1), part("s", Count(1))) == (True, False)
    assert (part("t", 1), part("t", "1")) == ("one", None)
    for key, index in (("v", "a"), ("none", 1)):
        with pytest.raises(StoreError):
            part(key, index)


def test_the_last_changes_are_kept_within_bounds() -> None:
    stored = store(StoreLimits(changes=3), number=10)
    for number in range(5):
        _put(stored, number, number)
    assert stored.statistics().changes_total == 5
    assert [change.number for change in stored.since(12, 10, 10_000) or ()] == [13, 14, 15]
    assert [change.number for change in stored.since(12, 2, 10_000) or ()] == [13, 14]
    assert [change.number for change in stored.since(13, 10, 1) or ()] == [14]
    assert stored.since(15, 10, 10_000) == []
    assert stored.since(11, 10, 10_000) is None
    assert stored.since(16, 10, 10_000) is None
    small = store(StoreLimits(changes_bytes=1_000))
    for _ in range(20):
        _put(small, "k", "x" * 100)
    assert 0 < len(small.changes) < 5
    assert small.changes.size_bytes <= 1_000


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


class _Followed:
    """A master and a replica, between which changes are lost, repeated and overtaken."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.master = store(StoreLimits(changes=8), epoch=1, number=100)
        self.replica = Replica()
        self.mirror: dict[bytes, bytes] = {}
        self.last = 0
        self.carried: list[tuple[int, Change]] = []
        self.snapshot: Snapshot | None = None

    def told(self, changes: list[Change]) -> None:
        for change in changes:
            assert change.number >= self.last
            self.last = change.number
            if change.kind == ChangeKind.CLEAR:
                self.mirror.clear()
                continue
            assert change.old == self.mirror.get(change.key)
            if change.value is None:
                self.mirror.pop(change.key, None)
            else:
                self.mirror[change.key] = change.value
        assert self.mirror == {key: value for key, (value, _) in self.replica.entries.items()}

    def change(self) -> None:
        kinds = ["put", "put", "put", "erase", "clear"] if self.chance.random() < 0.2 else ["put", "erase"]
        asked = command(self.chance.choice(kinds), self.chance.randrange(8), self.chance.randrange(1_000))
        change = self.master.apply(asked, 0)
        if change is not None:
            times = self.chance.choices([0, 1, 2], [15, 70, 15])[0]
            self.carried += [(self.master.epoch, change._replace(old=None))] * times

    def deliver(self) -> None:
        for _ in range(self.chance.randint(0, len(self.carried))):
            epoch, change = self.carried.pop(self.chance.randrange(min(4, len(self.carried))))
            self.told(self.replica.hear(epoch, [change]))

    def read(self) -> None:
        master, replica = self.master, self.replica
        if self.snapshot is not None:
            replica.take_rows(self.snapshot.page(2, 1_000))
            if self.snapshot.is_done:
                self.snapshot = None
                self.told(replica.finish(master.number))
        elif replica.needs is Needs.SNAPSHOT:
            self.snapshot = Snapshot(master)
            replica.begin(master.epoch, self.snapshot.number)
        elif replica.needs is Needs.CHANGES:
            changes = master.since(replica.number, 3, 10_000)
            if changes is None:
                replica.forgotten()
            else:
                self.told(replica.hear(master.epoch, changes))

    def restart(self) -> None:
        epoch, number = self.master.epoch + 1, self.master.number + self.chance.randrange(50)
        self.master, self.snapshot = store(StoreLimits(changes=8), epoch=epoch, number=number), None
        self.replica.forgotten()

    def hear_of(self) -> None:
        self.replica.heard(self.master.epoch, self.master.number, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_replica_equals_its_master_once_quiet(seed: int) -> None:
    followed = _Followed(random.Random(seed))  # noqa: S311 -- to be repeated, not to be secret
    acts = [followed.change, followed.deliver, followed.read, followed.hear_of, followed.restart]
    for act in followed.chance.choices(acts, [50, 20, 28, 1, 1], k=120):
        act()
    master, replica = followed.master, followed.replica
    replica.heard(master.epoch, master.number, 10)
    for _ in range(100):
        followed.read()
    assert replica.needs is Needs.NOTHING
    assert replica.is_ready
    assert replica.entries == _entries(master)
    assert replica.number == master.number
    assert replica.age_ns(15) == 5


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
    replica.heard(0, 0, 9_000)  # late
    assert replica.age_ns(2_500) == 500


def test_pages_of_a_snapshot_that_is_over_are_passed_over() -> None:
    replica = Replica()
    replica.heard(1, 0, 1_000)
    replica.begin(0, 0)  # of a life that is over
    replica.take_rows([(pack(1), pack(1), 1)])
    assert replica.finish(1) == []
    assert (replica.needs, replica.entries, replica.loaded_total) == (Needs.SNAPSHOT, {}, 0)


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
