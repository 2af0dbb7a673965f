"""Clones of C++ Broker, which follow one master for their life, while the hub is killed and starts again."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import pytest

from hub.errors import HubError, StorageError
from hub.stores.command import Change, Command
from hub.stores.store import Kept, Store
from peers.stores.operations import TypedOperations
from peers.values import Count, encode, to_msgpack
from peers.values.binary import Tag
from peers.zeek.broker.messages import NIL_ID
from peers.zeek.broker.stores.channel import NACK_NUMBERS, SILENT_TICKS, ChannelLimits
from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    Add,
    Clear,
    CumulativeAck,
    Keepalive,
    Nack,
    Put,
    decode_command,
    encode_command,
    entity,
    node_of,
)
from peers.zeek.broker.stores.command import Command as StoreCommand
from peers.zeek.broker.stores.master import Master, MasterCounters, MasterLimits
from tests.zeek.broker.stores.simulated import CALM, Faults, MemoryOwner, Network, Notes, any_wish, node_id
from tests.zeek.broker.stores.strict import StrictClone

HUB = node_id(0xFF)


class KeptHub(MemoryOwner):
    def __init__(self, seed: int = 0, master_limits: MasterLimits | None = None) -> None:
        super().__init__()
        self.network = Network(seed)
        self.clones: list[StrictClone] = []
        self.objects = count(100)
        self.master_limits = master_limits
        self.counters = MasterCounters()
        self.is_certain = True
        self.is_noting = True
        # The file.
        self.rows: dict[bytes, Kept] = {}
        self.number = 0
        self.kept: dict[str, bytes] = {}
        # What a kill loses.
        self.waiting: list[tuple[list[Change], Callable[[HubError | None], object], Notes]] = []
        self.start()

    # The hub.

    def start(self) -> None:
        self.waiting = []
        self.notes = dict(self.kept)
        self.store = Store("db", TypedOperations(), number=self.number)
        self.store.restore(list(self.rows.values()), self.number)
        self.listeners, self.noters = [], []
        self.master = Master(
            "db",
            HUB,
            next(self.objects),
            self,
            self._send,
            now_ns=lambda: self.now_ns,
            limits=self.master_limits,
            counters=self.counters,
        )
        self.network.join("hub", lambda _, data: self.master.hear(decode_command(data), len(data)))
        self.network.cut.discard("hub")

    def kill(self) -> None:
        self.network.cut.add("hub")
        self.waiting = []

    def _noted(self, changes: list[Change]) -> Notes:
        return super()._noted(changes) if changes and self.is_noting else {}

    def _keep(self, changes: list[Change], then: Callable[[HubError | None], object], _notes: Notes) -> None:
        if changes or _notes:
            self.waiting.append((changes, then, _notes))
        else:
            then(None)

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        if self.waiting:
            self.waiting.append(([], then, {}))
        else:
            then(None)

    def commit(self, count: int | None = None) -> None:
        """Keep what waits, or the first of it."""
        count = len(self.waiting) if count is None else count
        waiting, self.waiting = self.waiting[:count], self.waiting[count:]
        for changes, _, notes in waiting:
            for change in changes:
                self.number = change.number
                if change.kind == 3:
                    self.rows.clear()
                elif change.value is None:
                    del self.rows[change.key]
                else:
                    self.rows[change.key] = Kept(change.key, change.value, change.number, change.expires_ns)
            for name, value in notes.items():
                if value is None:
                    self.kept.pop(name, None)
                else:
                    self.kept[name] = value
        for changes, then, _ in waiting:
            for listener in self.listeners if changes else ():
                listener(changes)
            then(None)

    # Clones.

    def attach(self) -> StrictClone:
        number = len(self.clones) + 1
        name = f"clone {number}"
        clone = StrictClone(entity(node_id(number), 7), lambda _, command: self.network.send(name, "hub", command))
        self.network.join(name, lambda _, data: clone.hear(decode_command(data), len(data)))
        self.clones.append(clone)
        clone.begin()
        return clone

    def _send(self, to: bytes, command: bytes) -> None:
        for number, clone in enumerate(self.clones, 1):
            if to in (NIL_ID, node_of(clone.own)):
                self.network.send("hub", f"clone {number}", command)

    # Time.

    def tick(self, ticks: int = 1, *, commits: bool = True) -> None:
        for _ in range(ticks):
            self.now_ns += 100_000_000
            if "hub" not in self.network.cut:
                expired = self.store.expire(self.now_ns)
                if expired:
                    self._keep(expired, lambda _: None, self._noted(expired))
                if commits:
                    self.commit()
                self.master.tick()
            for clone in self.clones:
                clone.tick()
            self.network.deliver()

    def settle(self, ticks: int = 100) -> None:
        self.network.faults = CALM
        self.tick(ticks)

    @property
    def content(self) -> dict[bytes, bytes]:
        return dict(self.master.entries())

    def is_equal(self) -> bool:
        return all(clone.content == self.content and not clone.is_broken for clone in self.clones)


BAD = Faults(lost=0.1, doubled=0.1, delayed=0.2)
SUM = encode("sum")


def put(hub: KeptHub, key: str, number: int, expiry_ns: int | None = None) -> None:
    hub.apply([Command("put", to_msgpack(encode(key)), to_msgpack(encode(Count(number))), expiry_ns)])


def erase(hub: KeptHub, key: str) -> None:
    hub.apply([Command("erase", to_msgpack(encode(key)))])


def add(clone: StrictClone) -> None:
    clone.write(Add(SUM, encode(Count(1)), Tag.COUNT, None, clone.own))


def hub_with(clones: int, master_limits: MasterLimits | None = None) -> KeptHub:
    hub = KeptHub(master_limits=master_limits)
    for number in range(5):
        put(hub, f"k{number}", number)
    hub.tick(3)
    for _ in range(clones):
        hub.attach()
    hub.tick(10)
    assert hub.is_equal()
    return hub


def restart(hub: KeptHub, ticks: int = 20) -> None:
    hub.kill()
    hub.tick(ticks)
    hub.start()


def test_a_content_that_cannot_be_kept_at_once() -> None:
    hub = hub_with(0)
    put(hub, "k1", 100)
    clone = hub.attach()
    for _ in range(3):
        hub.tick(3, commits=False)
        waiting, hub.waiting = hub.waiting, []
        hub.waiting = [(changes, _nobody, notes) for changes, _, notes in waiting]
        for _, then, _ in waiting:
            then(StorageError("the disk is full"))
    assert not clone.content
    hub.settle()
    assert hub.is_equal()


def _nobody(_: HubError | None) -> None: ...


def test_answers_of_put_unique_survive() -> None:
    hub = hub_with(2)
    one, other = hub.clones
    for clone in hub.clones:
        clone.put_unique(encode("u"), encode(clone.own.hex()))
        clone.put_unique(encode("k1"), encode(Count(7)))
    hub.network.deliver()
    hub.commit()
    restart(hub)
    hub.settle()
    assert one.answers == {1: True, 2: False}
    assert other.answers == {1: False, 2: False}
    put(hub, "k1", 9)
    hub.settle()
    assert hub.is_equal()
    assert one.events[5:] == [
        ("insert", encode("u"), encode(one.own.hex())),
        ("update", encode("k1"), encode(Count(9))),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_many_kills(seed: int) -> None:
    """Everybody writes at random, over a bad network, and the hub is killed again and again: all are equal in the end.

    Others come meanwhile. Sums show that no wish is granted twice, or never; and what a clone has come to have is what
    it was told, change by change.
    """
    chance = random.Random(seed)  # noqa: S311 -- to be repeatable
    hub = KeptHub(seed)
    for _ in range(3):
        hub.attach()
    hub.tick(10)
    hub.network.faults = BAD
    sums = 0
    for _ in range(15):
        for _ in range(chance.randrange(5, 60)):
            sums += _write(hub, chance)
            if chance.random() < 0.3:
                put(hub, f"k{chance.randrange(30)}", chance.randrange(100), chance.choice([None, 10**9]))
            hub.commit(chance.randrange(len(hub.waiting) + 1))
            hub.tick(commits=chance.random() < 0.5)
        if chance.random() < 0.3:
            hub.attach()
        hub.tick(chance.randrange(3), commits=False)
        restart(hub, chance.randrange(40))
    hub.settle(300)
    assert hub.is_equal()
    assert hub.content[SUM] == encode(Count(sums))
    assert sum(bool(clone.unconfirmed) for clone in hub.clones) == 0
    assert hub.master.is_idle
    for clone in hub.clones:
        told = {key: value for kind, key, value in clone.events if kind in {"insert", "update"}}
        assert {key: told[key] for key in clone.content} == clone.content


def _write(hub: KeptHub, chance: random.Random, uniques: float = 0.05) -> int:
    sums = 0
    for clone in hub.clones:
        if not clone.master:
            continue  # what it wishes is dropped
        if chance.random() < 0.3:
            add(clone)
            sums += 1
        if chance.random() < 0.2:
            wish = any_wish(chance, clone.own)
            if not isinstance(wish, Clear):  # or the sum would be gone
                clone.write(wish)
        if chance.random() < uniques:
            clone.put_unique(encode(f"u{chance.randrange(50)}"), encode(Count(chance.randrange(9))))
    return sums


@pytest.mark.parametrize("has_restarted", [False, True])
def test_a_clone_that_was_away_for_long(has_restarted: bool) -> None:  # noqa: FBT001 -- a parameter
    hub = hub_with(2)
    away, quiet = hub.clones
    hub.network.cut.add("clone 1")
    for number in range(3 * SILENT_TICKS):
        if number % 10 == 0:
            put(hub, f"k{number % 7}", number)
        if number == SILENT_TICKS:
            erase(hub, "k2")
        hub.tick()
    assert hub.master.clones == 1
    add(away)
    assert not away.unconfirmed
    if has_restarted:
        restart(hub)
    hub.network.cut.discard("clone 1")
    hub.settle()
    assert hub.is_equal()
    assert away.content == quiet.content
    add(away)
    hub.settle()
    assert hub.content[SUM] == encode(Count(1))
    assert hub.is_equal()


def test_a_clone_that_lacks_what_is_forgotten() -> None:
    hub = hub_with(2, MasterLimits(log_actions=10))
    hub.network.cut.add("clone 1")
    for number in range(12):
        put(hub, f"e{number}", number)
        erase(hub, f"e{number}")
        hub.tick()
    hub.tick(SILENT_TICKS + 10)
    restart(hub)
    hub.network.cut.clear()
    hub.settle()
    away, quiet = hub.clones
    assert away.is_broken
    assert quiet.content == hub.content
    assert not quiet.is_broken
    assert hub.counters.disowned > 0


def test_notes_are_written_over() -> None:
    hub = hub_with(1, MasterLimits(log_actions=40))
    for number in range(100):
        for part in range(number % 7 + 1):
            put(hub, f"k{part}", number)
        hub.tick()
        assert len([name for name in hub.kept if " told " in name]) <= 40
        if number % 10 == 0:
            hub.network.cut.add("clone 1")
            put(hub, "late", number)
            hub.tick()
            restart(hub, 1)
            hub.network.cut.clear()
            hub.tick(5)
    hub.settle()
    assert hub.is_equal()
    assert hub.counters.disowned == 0


def test_a_store_that_was_changed_while_nobody_noted_it() -> None:
    hub = hub_with(1)
    hub.is_noting = False
    erase(hub, "k1")
    hub.tick(1)
    hub.kill()
    hub.clones[0].content = {}
    hub.tick(5)
    hub.is_noting = True
    (state,) = [name for name in hub.kept if name.endswith(" state")]
    before = hub.kept[state]
    hub.number += 1
    hub.start()
    assert hub.kept[state] == before
    hub.settle()
    assert hub.clones[0].is_broken


def test_a_file_that_may_lack_what_was_told() -> None:
    hub = hub_with(1)
    entity_before = hub.master.own
    hub.is_certain = False
    restart(hub)
    hub.is_certain = True
    assert hub.master.own != entity_before
    put(hub, "k1", 100)
    hub.settle()
    (clone,) = hub.clones
    assert clone.content[encode("k1")] == encode(Count(1))
    new = hub.attach()
    hub.settle()
    assert new.content == hub.content
    restart(hub)
    put(hub, "k1", 101)
    hub.settle()
    assert new.content == hub.content


def test_a_hostile_clone_beside_a_quiet_pair() -> None:
    hub = hub_with(2, master_limits=MasterLimits(clones=20, channel=ChannelLimits(actions=5_000)))
    evil = hub.attach()
    hub.tick(5)
    chance = random.Random(1)  # noqa: S311 -- to be repeatable
    for number in range(200):
        put(hub, f"k{number % 7}", number)
        for _ in range(5):
            own = chance.choice([evil.own, bytes([3] * 16) + chance.randbytes(8)])
            some = chance.choice([0, 1, 5, 1 << 40, (1 << 64) - 1])
            for content in (
                CumulativeAck(some),
                Nack(tuple(range(1, 3_000))),
                Nack((some,)),
                Nack((5, 4)),
                Keepalive(some),
            ):
                command = StoreCommand(0, own, hub.master.own, content)
                hub.master.hear(command, len(encode_command(command)))
        if number == 100:
            restart(hub, 3)
        hub.tick()
    put(hub, "end", 1)
    hub.settle()
    for clone in hub.clones[:2]:
        assert clone.content == hub.content
        assert not clone.is_broken
    assert hub.master.clones <= 20


def test_a_storm_of_nacks_brings_so_much_a_tick() -> None:
    hub = hub_with(1)
    hub.network.cut.add("clone 1")
    for number in range(2 * NACK_NUMBERS):
        put(hub, f"n{number}", number)
    hub.tick()
    before = hub.counters.channel.repeated
    for _ in range(50):
        own = hub.clones[0].own
        content = Nack(tuple(range(7, 2 * NACK_NUMBERS)))
        hub.master.hear(StoreCommand(0, own, NIL_ENTITY, content), 1)
    assert 0 < hub.counters.channel.repeated - before <= 2 * NACK_NUMBERS


def test_the_notes_forget_the_oldest_writer() -> None:
    hub = KeptHub(master_limits=MasterLimits(writers=2))
    for _ in range(3):
        clone = hub.attach()
        hub.tick(10)
        clone.write(Put(encode("k"), encode(Count(1)), None, clone.own))
        hub.tick(10)
        hub.network.cut.add(f"clone {len(hub.clones)}")
        hub.tick(SILENT_TICKS + 10)
    assert len([name for name in hub.kept if " writer " in name]) == 2
    restart(hub)
    assert [hub.master._positions.get(clone.own) for clone in hub.clones] == [None, 2, 2]
