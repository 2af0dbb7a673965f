"""Clones of C++ Broker, which follow one master for their life, while the hub is killed and starts again."""

from __future__ import annotations

import random

import pytest

from hub.errors import HubError, StorageError
from hub.stores.command import Command
from peers.values import Count, encode, to_msgpack
from peers.values.layout import Tag
from peers.zeek.broker.stores.channel import NACK_NUMBERS, SILENT_TICKS, ChannelLimits
from peers.zeek.broker.stores.command import NIL_ENTITY, Add, Clear, CumulativeAck, Keepalive, Nack, Put, encode_command
from peers.zeek.broker.stores.command import Command as StoreCommand
from peers.zeek.broker.stores.master import MasterLimits
from tests.zeek.broker.stores.kept import KeptHub
from tests.zeek.broker.stores.network import Faults
from tests.zeek.broker.stores.simulated import any_wish
from tests.zeek.broker.stores.strict import StrictClone

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


def test_clones_go_on_behind_a_restart() -> None:
    hub = hub_with(2)
    restart(hub)
    hub.tick(10)
    put(hub, "k1", 100)
    put(hub, "new", 1)
    erase(hub, "k2")
    hub.settle()
    assert hub.is_equal()
    assert hub.counters.adopted == 2
    for clone in hub.clones:
        assert clone.events[5:] == [
            ("update", encode("k1"), encode(Count(100))),
            ("insert", encode("new"), encode(Count(1))),
            ("erase", encode("k2"), b""),
        ]


def test_what_was_kept_and_not_told() -> None:
    hub = hub_with(2)
    hub.network.cut.update({"clone 1", "clone 2"})
    put(hub, "k1", 100)
    put(hub, "k1", 101)
    erase(hub, "k2")
    put(hub, "k3", 3, 1)
    hub.tick(5)
    assert len(hub.clones[0].events) == 5
    restart(hub)
    hub.network.cut.clear()
    hub.settle()
    assert hub.is_equal()
    for clone in hub.clones:
        assert clone.events[5:] == [
            ("update", encode("k1"), encode(Count(100))),
            ("update", encode("k1"), encode(Count(101))),
            ("erase", encode("k2"), b""),
            ("update", encode("k3"), encode(Count(3))),
            ("expire", encode("k3"), b""),
        ]


def test_what_was_not_kept_was_not_told() -> None:
    hub = hub_with(1)
    put(hub, "k1", 100)
    hub.tick(5, commits=False)
    restart(hub)
    put(hub, "k2", 200)
    hub.settle()
    assert hub.is_equal()
    assert hub.clones[0].events[5:] == [("update", encode("k2"), encode(Count(200)))]


def test_a_content_is_given_once_it_is_kept() -> None:
    hub = hub_with(1)
    put(hub, "k1", 100)
    new = hub.attach()
    hub.tick(5, commits=False)
    assert not new.content
    for number in range(5):
        put(hub, "k2", number)
        waiting, hub.waiting = hub.waiting, []
        put(hub, "k3", 100 + number)
        behind, hub.waiting = hub.waiting, waiting
        hub.commit()
        hub.waiting = behind
        hub.tick(1, commits=False)
    assert new.content[encode("k1")] == encode(Count(100))
    hub.settle()
    assert hub.is_equal()


def test_a_clone_never_has_what_the_master_has_lost() -> None:
    hub = hub_with(1)
    put(hub, "k1", 100)
    put(hub, "new", 1)
    hub.attach()
    hub.tick(5, commits=False)
    restart(hub)
    put(hub, "k2", 200)
    hub.settle()
    assert hub.content[encode("k1")] == encode(Count(1))
    assert hub.is_equal()


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


def test_what_is_void_by_a_change_that_is_lost() -> None:
    hub = hub_with(1)
    hub.network.cut.add("clone 1")
    put(hub, "k1", 100)
    hub.tick(2)
    restart(hub)
    put(hub, "k1", 101)
    hub.network.cut.clear()
    hub.tick(10, commits=False)
    restart(hub)
    hub.settle()
    assert hub.content[encode("k1")] == encode(Count(100))
    assert hub.is_equal()


def test_what_is_void_by_a_change_that_comes_to_be_kept() -> None:
    hub = hub_with(1)
    hub.network.cut.add("clone 1")
    put(hub, "k1", 100)
    hub.tick(2)
    restart(hub)
    hub.network.cut.clear()
    for number in range(20):
        put(hub, "k1", 200 + number)
        waiting, hub.waiting = hub.waiting, []
        put(hub, "k1", 300 + number)
        behind, hub.waiting = hub.waiting, waiting
        hub.commit()
        hub.waiting = behind
        hub.tick(1, commits=False)
    assert hub.clones[0].content[encode("k1")] != encode(Count(1))
    hub.settle()
    assert hub.is_equal()


def test_a_wish_that_was_granted_is_not_granted_again() -> None:
    hub = hub_with(1)
    (clone,) = hub.clones
    add(clone)
    hub.network.deliver()
    hub.commit()
    assert clone.unconfirmed
    restart(hub)
    hub.settle()
    assert hub.content[SUM] == encode(Count(1))
    assert not clone.unconfirmed
    assert hub.is_equal()


def test_a_wish_that_was_not_kept_is_granted_behind_the_restart() -> None:
    hub = hub_with(1)
    (clone,) = hub.clones
    add(clone)
    hub.tick(20, commits=False)
    assert SUM in hub.content
    assert clone.unconfirmed
    restart(hub)
    assert SUM not in hub.content
    hub.settle()
    assert hub.content[SUM] == encode(Count(1))
    assert not clone.unconfirmed


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


@pytest.mark.parametrize("seed", range(12))
def test_many_kills(seed: int) -> None:
    """Everybody writes at random, over a bad network, and the hub is killed again and again: all are equal in the end.

    Others come meanwhile. Sums show that no wish is granted twice, or never.
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
            hub.tick(commits=chance.random() < 0.6)
        if chance.random() < 0.3:
            hub.attach()
        hub.tick(chance.randrange(3), commits=False)
        restart(hub, chance.randrange(40))
    hub.settle(300)
    assert hub.is_equal()
    assert hub.content[SUM] == encode(Count(sums))
    assert sum(bool(clone.unconfirmed) for clone in hub.clones) == 0
    assert hub.master.is_idle


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


def test_a_clone_that_lacks_more_than_one_nack_brings() -> None:
    hub = hub_with(1)
    hub.network.cut.add("clone 1")
    for number in range(5 * NACK_NUMBERS):
        put(hub, f"n{number}", number)
    restart(hub)
    hub.network.cut.clear()
    put(hub, "last", 1)
    hub.settle(60)
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
