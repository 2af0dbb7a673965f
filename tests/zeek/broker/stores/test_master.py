"""A master alone, a clone alone: whom they serve and listen to, what they refuse, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from hub.errors import StoreError
from hub.stores.command import ChangeKind, StoreLimits
from hub.stores.command import Command as StoreCommand
from peers.values import Count, Set, Table, Timespan, Timestamp, encode, to_msgpack
from peers.values.binary import Tag
from peers.zeek.broker.messages import NIL_ID
from peers.zeek.broker.stores import command as wire
from peers.zeek.broker.stores.channel import (
    NACK_NUMBERS,
    NACK_TICKS,
    SILENT_TICKS,
    ChannelCounters,
    ChannelLimits,
    Consumer,
)
from peers.zeek.broker.stores.command import Action, Content, Erase, Nack
from peers.zeek.broker.stores.master import (
    Master,
    MasterCounters,
    MasterLimits,
    Wish,
    _command_of,
    entity_of,
    publisher_of,
)
from tests.zeek.broker.recorded import HIGH, LOW
from tests.zeek.broker.stores.simulated import ClonedStore, MemoryOwner

OWN, CLONE, OTHER = wire.entity(HIGH, 8), wire.entity(LOW, 7), wire.entity(LOW, 9)
KEY, ONE, TWO = encode("k"), encode(Count(1)), encode(Count(2))


class Served:
    def __init__(self, **limits: Any) -> None:
        self.said: list[tuple[bytes, wire.Command]] = []
        self.store = MemoryOwner()
        self.counters = MasterCounters()
        self.refusals: list[str] = []
        self.master = Master(
            "db",
            HIGH,
            8,
            self.store,
            lambda to, command: self.said.append((to, wire.decode_command(command))),
            now_ns=lambda: self.store.now_ns,
            limits=MasterLimits(**limits),
            counters=self.counters,
            on_refused=lambda _, reason: self.refusals.append(reason),
        )

    def wish(self, wish: Wish) -> None:
        self.store.apply([_command_of(wish)])

    def hear(
        self, content: wire.Content, sender: bytes = CLONE, seq: int = 0, receiver: bytes = OWN
    ) -> list[wire.Content]:
        self.said.clear()
        self.master.hear(wire.Command(seq, sender, receiver, content), 100)
        return [command.content for _, command in self.said]

    def attach(self, clone: bytes = CLONE) -> None:
        self.hear(wire.Nack((0,)), clone, receiver=wire.NIL_ENTITY)
        self.hear(wire.CumulativeAck(1), clone)
        self.hear(wire.AttachWriter(1, 5), clone)


@pytest.mark.parametrize("content", [wire.CumulativeAck(3), wire.Nack((4, 5)), wire.Nack((4,))])
def test_a_stranger_is_told_that_it_is_none(content: wire.Content) -> None:
    served = Served()
    assert served.hear(content) == [wire.RetransmitFailed(4)]
    assert served.said[0][0] == LOW
    assert served.hear(wire.CumulativeAck((1 << 64) - 1)) == served.hear(wire.Nack(())) == []


def test_what_is_for_another_master_is_not_heard() -> None:
    served = Served()
    assert served.hear(wire.CumulativeAck(3), receiver=OTHER) == []
    assert served.hear(wire.AckClone(1, 5, ())) == served.hear(wire.PutUniqueResult(True, OWN, 1, OWN)) == []
    assert served.counters.unexpected == 3


def test_a_wish_that_is_lost_holds_nothing_up() -> None:
    served = Served()
    served.attach()
    served.hear(wire.Put(KEY, TWO, None, CLONE), seq=3)
    served.hear(wire.Keepalive(3))
    assert not served.master.is_idle
    served.hear(wire.RetransmitFailed(2))
    assert served.store.content == {KEY: TWO}
    assert served.counters.channel.lost == 1
    served.hear(wire.CumulativeAck(2))
    assert served.master.is_idle


def test_too_many_clones() -> None:
    served = Served(clones=1)
    served.attach()
    assert served.hear(wire.Nack((0,)), OTHER, receiver=wire.NIL_ENTITY) == []
    assert (served.master.clones, served.counters.refused) == (1, 1)


def test_too_many_writers() -> None:
    served = Served(writers=1)
    served.attach()
    assert served.hear(wire.AttachWriter(1, 5), OTHER) == []
    assert (served.master.writers, served.counters.refused) == (1, 1)
    for _ in range(SILENT_TICKS + 1):
        served.master.tick()
    assert served.hear(wire.AttachWriter(1, 5), OTHER) == [wire.CumulativeAck(1)]
    assert served.master.writers == 1
    assert served.hear(wire.Put(KEY, ONE, None, CLONE), seq=2) == [wire.Nack((0,))]


def test_a_content_that_fits_into_no_frame() -> None:
    served = Served(snapshot_bytes=5_000)
    served.wish(wire.Put(KEY, encode("x" * 5_000), None, OWN))
    assert served.hear(wire.Nack((0,)), receiver=wire.NIL_ENTITY) == []
    assert (served.master.clones, served.counters.snapshots_too_large) == (0, 1)
    served.wish(wire.Put(KEY, ONE, None, OWN))
    assert served.hear(wire.Nack((0,)), receiver=wire.NIL_ENTITY) == [wire.AckClone(1, 5, ((KEY, ONE),))]


def test_a_content_of_too_many_entries() -> None:
    served = Served(snapshot_entries=1)
    for key in (KEY, ONE):
        served.wish(wire.Put(key, ONE, None, OWN))
    assert served.hear(wire.Nack((0,)), receiver=wire.NIL_ENTITY) == []
    assert served.counters.snapshots_too_large == 1


def test_open_snapshots_are_bounded() -> None:
    served = Served(open_snapshot_bytes=12_000)
    served.wish(wire.Put(KEY, encode("x" * 8_000), None, OWN))
    assert len(served.hear(wire.Nack((0,)), receiver=wire.NIL_ENTITY)) == 1
    assert served.hear(wire.Nack((0,)), OTHER, receiver=wire.NIL_ENTITY) == []
    assert served.counters.refused == 1
    served.hear(wire.CumulativeAck(1))
    assert len(served.hear(wire.Nack((0,)), OTHER, receiver=wire.NIL_ENTITY)) == 1


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
    served = Served()
    served.attach()
    assert served.hear(wire.Add(KEY, encode(value), tag, None, CLONE), seq=2) == [
        wire.Put(KEY, encode(sum_), None, CLONE)
    ]


@pytest.mark.parametrize(
    "wish",
    [
        wire.Subtract(KEY, encode(1), None, CLONE),
        wire.Add(KEY, encode(1), Tag.PORT, None, CLONE),
        wire.Add(KEY, encode("x"), Tag.COUNT, None, CLONE),
        wire.Put(KEY, ONE, -1, CLONE),
        wire.Put(b"\x0f", ONE, None, CLONE),
    ],
)
def test_what_cannot_be_granted(wish: Wish) -> None:
    served = Served()
    served.attach()
    assert served.hear(wish, seq=2) == []
    assert (served.master.refused, len(served.refusals), served.store.content) == (1, 1, {})


def test_what_cannot_be_kept() -> None:
    served = Served()
    served.attach()
    served.store.error = StoreError("the disk is full")
    unique = wire.PutUnique(KEY, ONE, None, OTHER, 1, CLONE)
    assert served.hear(unique, seq=2) == []
    assert served.master.refused == 1
    served.store.error = None
    assert served.hear(wire.Erase(TWO, CLONE), seq=3) == []
    assert served.hear(wire.Put(TWO, ONE, None, CLONE), seq=4) == [
        wire.Put(KEY, ONE, None, CLONE),
        wire.PutUniqueResult(True, OTHER, 1, OWN),
        wire.Put(TWO, ONE, None, CLONE),
    ]


def test_what_has_no_broker_form() -> None:
    served = Served()
    served.attach()
    served.said.clear()
    nested: list[object] = []
    for _ in range(150):
        nested = [nested]
    deep = msgspec.msgpack.encode(nested)
    for key, value in ((to_msgpack(KEY), deep), (to_msgpack(TWO), to_msgpack(TWO))):
        served.store.apply([StoreCommand("put", key, value)])
    assert served.master.unwritable == 1
    assert list(served.master.entries()) == [(TWO, TWO)]
    # An erasure, or a clone would keep what was there before.
    assert [each.content for _, each in served.said] == [wire.Erase(KEY, OWN), wire.Put(TWO, TWO, None, OWN)]
    assert served.master.unwritable == 2


def test_publishers() -> None:
    assert publisher_of(CLONE) == "zeek 11111111-1111-4111-8111-111111111111#7"
    assert entity_of(publisher_of(CLONE), OWN) == CLONE
    for publisher in (None, "alice", "zeek ", "zeek x#1", f"zeek {'0' * 32}#-1", f"zeek {'0' * 32}#{1 << 64}", 7):
        assert entity_of(publisher, OWN) == OWN


MASTER, ANOTHER = wire.entity(HIGH, 8), wire.entity(HIGH, 9)
ASKER, ITSELF = wire.entity(LOW, 1), wire.entity(LOW, 2)


class Copied(ClonedStore):
    def __init__(self, *, limits: ChannelLimits | None = None) -> None:
        self.said: list[tuple[bytes, wire.Command]] = []
        super().__init__(LOW, lambda to, command: self.said.append((to, wire.decode_command(command))), limits)

    def hear(
        self, content: wire.Content, seq: int = 0, sender: bytes = MASTER, receiver: bytes = ITSELF
    ) -> list[wire.Content]:
        self.said.clear()
        self.clone.hear(wire.Command(seq, sender, receiver, content), 100)
        return [command.content for _, command in self.said]

    def ticks(self, ticks: int) -> list[wire.Content]:
        self.said.clear()
        for _ in range(ticks):
            self.clone.tick()
        return [command.content for _, command in self.said]


def attached(limits: ChannelLimits | None = None, *, writes: bool = False) -> Copied:
    copied = Copied(limits=limits)
    copied.hear(wire.AckClone(1, 5, ()))
    if writes:
        copied.clone.attach_writer()
    return copied


@pytest.mark.parametrize(
    ("sender", "receiver", "content"),
    [
        (ANOTHER, wire.NIL_ENTITY, wire.Put(KEY, ONE, None, ANOTHER)),
        (ANOTHER, ITSELF, wire.RetransmitFailed(2)),
        (ANOTHER, ITSELF, wire.AckClone(5, 5, ((ONE, ONE),))),
        (MASTER, ANOTHER, wire.RetransmitFailed(2)),
        (MASTER, ITSELF, wire.AckClone(5, 5, ((ONE, ONE),))),
        (MASTER, ANOTHER, wire.CumulativeAck(1)),
        (MASTER, ITSELF, wire.AttachWriter(1, 5)),
    ],
)
def test_what_is_not_for_it(sender: bytes, receiver: bytes, content: wire.Content) -> None:
    copied = attached(writes=True)
    assert copied.hear(content, 2, sender, receiver) == []
    assert (copied.replica.content, copied.states) == ({}, [""])


def test_what_is_lost_for_good() -> None:
    copied = attached()
    assert copied.hear(wire.RetransmitFailed(2)) == [wire.Nack((0,))]
    assert copied.said[0] == (NIL_ID, wire.Command(0, wire.entity(LOW, 3), wire.NIL_ENTITY, wire.Nack((0,))))
    assert copied.lost == ["change 2 is lost for good"]
    copied.hear(wire.AckClone(9, 5, ()))
    assert not copied.clone.is_attached
    copied.hear(wire.AckClone(9, 5, ((KEY, ONE),)), receiver=wire.entity(LOW, 3))
    assert copied.replica.content == {KEY: ONE}


def test_a_content_that_comes_anew() -> None:
    copied = Copied()
    copied.hear(wire.AckClone(1, 5, ((KEY, ONE), (ONE, ONE))))
    copied.replica.changes.clear()
    copied.clone.restart("the master was silent")
    assert copied.replica.content == {KEY: ONE, ONE: ONE}
    copied.hear(wire.AckClone(1, 5, ((ONE, KEY),)), receiver=wire.entity(LOW, 3))
    assert copied.replica.content == {ONE: KEY}
    told = [(change.kind, change.key) for change in copied.replica.changes]
    assert told == [(ChangeKind.ERASE, to_msgpack(KEY)), (ChangeKind.PUT, to_msgpack(ONE))]
    assert copied.states == ["", "the master was silent", ""]


def test_what_cannot_be_held() -> None:
    copied = Copied()
    copied.replica.store.limits = StoreLimits(entries=1)
    copied.hear(wire.AckClone(1, 5, ((KEY, ONE), (ONE, ONE), (encode(1), b"\x0f"), (b"", ONE))))
    assert copied.replica.content == {KEY: ONE}
    assert copied.clone.refused == 3
    copied.hear(wire.Put(b"\x0f", ONE, None, MASTER), 2)
    copied.replica.error = StoreError("the disk is full")
    copied.hear(wire.Put(KEY, KEY, None, MASTER), 3)
    assert copied.clone.refused == 5


def test_a_master_may_ask_for_the_handshake_again() -> None:
    copied = attached()
    copied.wish(wire.Erase(KEY, ITSELF))
    copied.hear(wire.CumulativeAck(2))
    assert copied.hear(wire.Nack((0,))) == [wire.AttachWriter(2, 5)]
    copied.wish(wire.Erase(ONE, ITSELF))
    assert copied.hear(wire.Nack((3,))) == [wire.Erase(ONE, ITSELF)]


def action(number: int) -> Erase:
    return Erase(encode(Count(number)), MASTER)


@dataclass
class Sink:
    limits: ChannelLimits = field(default_factory=ChannelLimits)
    taken: list[Action] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    said: list[Content] = field(default_factory=list)
    counters: ChannelCounters = field(default_factory=ChannelCounters)

    def __post_init__(self) -> None:
        self.consumer = Consumer(self.taken.append, self.lost.append, self.said.append, self.limits, self.counters)

    def ticks(self, count: int) -> list[Content]:
        self.said.clear()
        for _ in range(count):
            self.consumer.tick()
        return self.said[:]


def test_what_waits_is_bounded() -> None:
    sink = Sink(ChannelLimits(actions=2, bytes=100))
    sink.consumer.attach(1)
    for number in (3, 4, 5):
        sink.consumer.hear(number, action(number), 10)
    assert (len(sink.consumer._early), sink.counters.overrun) == (2, 1)
    sink.consumer.hear(2, action(2), 10)
    assert sink.consumer.next == 5
    sink.consumer.hear(6, action(6), 101)
    assert (len(sink.consumer._early), sink.counters.overrun) == (0, 2)
    assert sink.ticks(3) == [Nack((5,))]


def test_an_end_far_away_costs_little() -> None:
    sink = Sink()
    sink.consumer.attach(1)
    sink.consumer.hear_end((1 << 64) - 1)
    assert sink.ticks(NACK_TICKS) == [Nack(tuple(range(2, 2 + NACK_NUMBERS)))]
