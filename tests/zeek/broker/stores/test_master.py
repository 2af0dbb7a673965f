"""A master alone: whom it serves, whom it refuses, and what it holds for them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hub.errors import StoreError
from hub.stores.command import Command as StoreCommand
from peers.values import Count, Set, Table, Timespan, Timestamp, encode, to_msgpack
from peers.values.layout import Tag
from peers.zeek.broker.stores import command as wire
from peers.zeek.broker.stores.channel import SILENT_TICKS
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
from tests.zeek.broker.stores.simulated import MemoryOwner

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
