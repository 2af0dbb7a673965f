"""A master alone: whom it serves, whom it refuses, and what it holds for them."""

from __future__ import annotations

from typing import Any

import pytest

from peers.values import Count, encode
from peers.values.layout import Tag
from peers.zeek.broker.handshake_messages import NIL_ID
from peers.zeek.broker.stores.channel import HEARTBEAT_TICKS, SILENT_TICKS
from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    AckClone,
    Add,
    AttachWriter,
    Command,
    Content,
    CumulativeAck,
    Erase,
    Expire,
    Keepalive,
    Nack,
    Put,
    PutUnique,
    PutUniqueResult,
    RetransmitFailed,
    decode_command,
    entity,
)
from peers.zeek.broker.stores.master import Master, MasterCounters, MasterLimits
from tests.zeek.broker.recorded import HIGH, LOW
from tests.zeek.broker.stores.memory import MemoryStore

OWN, CLONE, OTHER = entity(HIGH, 8), entity(LOW, 7), entity(LOW, 9)
KEY, ONE, TWO = encode("k"), encode(Count(1)), encode(Count(2))


class Served:
    """A master, and what it says to whom."""

    def __init__(self, **limits: Any) -> None:
        self.said: list[tuple[bytes, Command]] = []
        self.store = MemoryStore(OWN)
        self.counters = MasterCounters()
        self.master = Master(
            OWN,
            self.store,
            lambda to, command: self.said.append((to, decode_command(command))),
            limits=MasterLimits(**limits),
            counters=self.counters,
        )
        self.store.tell = self.master.changed

    def hear(self, content: Content, sender: bytes = CLONE, seq: int = 0, receiver: bytes = OWN) -> list[Content]:
        """Let it hear a command; return what it says."""
        self.said.clear()
        self.master.hear(Command(seq, sender, receiver, content), 100)
        return [command.content for _, command in self.said]

    def attach(self, clone: bytes = CLONE) -> None:
        """Take a clone in, that writes."""
        self.hear(Nack((0,)), clone, receiver=NIL_ENTITY)
        self.hear(CumulativeAck(1), clone)
        self.hear(AttachWriter(1, 5), clone)


def test_wishes_and_what_becomes_of_them() -> None:
    """An addition is told as the new whole value, a put as it came; what changes nothing is not told."""
    served = Served()
    served.attach()
    assert served.hear(Put(KEY, ONE, 5, CLONE), seq=2) == [Put(KEY, ONE, 5, CLONE)]
    assert served.hear(Add(KEY, ONE, Tag.COUNT, 9, CLONE), seq=3) == [Put(KEY, TWO, None, CLONE)]
    assert served.hear(Erase(TWO, CLONE), seq=4) == []
    unique = PutUnique(KEY, ONE, None, OTHER, 6, CLONE)
    assert served.hear(unique, seq=5) == [PutUniqueResult(False, OTHER, 6, OWN)]
    assert served.hear(unique._replace(key=ONE), seq=6) == [
        Put(ONE, ONE, None, CLONE),
        PutUniqueResult(True, OTHER, 6, OWN),
    ]
    assert served.said[0][0] == NIL_ID
    assert served.said[0][1][:3] == (5, OWN, NIL_ENTITY)
    assert served.store.content == {KEY: TWO, ONE: ONE}


def test_changes_by_others_are_told() -> None:
    """Whoever changes the store, clones hear of it."""
    served = Served()
    served.attach()
    served.said.clear()
    served.store.apply(Put(KEY, ONE, None, OWN))
    served.store.expire(KEY)
    assert [command.content for _, command in served.said] == [Put(KEY, ONE, None, OWN), Expire(KEY, OWN)]
    assert not served.master.is_idle
    served.hear(CumulativeAck(3))
    assert served.master.is_idle


@pytest.mark.parametrize(
    "content",
    [CumulativeAck(3), Nack((4, 5)), Nack((4,))],
)
def test_a_stranger_is_told_that_it_is_none(content: Content) -> None:
    """A clone that was removed hears that what it waits for will never come."""
    served = Served()
    assert served.hear(content) == [RetransmitFailed(4)]
    assert served.said[0][0] == LOW
    assert served.hear(CumulativeAck((1 << 64) - 1)) == served.hear(Nack(())) == []


def test_what_is_for_another_master_is_not_heard() -> None:
    """After a restart, clones of the former master name that one."""
    served = Served()
    assert served.hear(CumulativeAck(3), receiver=OTHER) == []
    assert served.hear(AckClone(1, 5, ())) == served.hear(PutUniqueResult(True, OWN, 1, OWN)) == []
    assert served.counters.unexpected == 3


def test_a_writer_that_is_not_known_is_asked_who_it_is() -> None:
    """Its handshake was lost, or it was forgotten; signs of life are not answered."""
    served = Served()
    assert served.hear(Put(KEY, ONE, None, CLONE), seq=2) == [Nack((0,))]
    assert served.hear(Keepalive(2), receiver=NIL_ENTITY) == served.hear(RetransmitFailed(2)) == []
    served.hear(AttachWriter(1, 5))
    served.hear(Put(KEY, ONE, None, CLONE), seq=2)
    assert served.store.content == {KEY: ONE}


def test_a_wish_that_is_lost_holds_nothing_up() -> None:
    """It is counted, and the next one is granted."""
    served = Served()
    served.attach()
    served.hear(Put(KEY, TWO, None, CLONE), seq=3)
    served.hear(Keepalive(3))
    assert not served.master.is_idle
    served.hear(RetransmitFailed(2))
    assert served.store.content == {KEY: TWO}
    assert served.counters.channel.lost == 1
    served.hear(CumulativeAck(2))
    assert served.master.is_idle


def test_too_many_clones() -> None:
    """They are refused and counted, and taken when there is room."""
    served = Served(clones=1)
    served.attach()
    assert served.hear(Nack((0,)), OTHER, receiver=NIL_ENTITY) == []
    assert (served.master.clones, served.counters.refused) == (1, 1)


def test_too_many_writers() -> None:
    """Only one that was silent for 50 s gives way."""
    served = Served(writers=1)
    served.attach()
    assert served.hear(AttachWriter(1, 5), OTHER) == []
    assert (served.master.writers, served.counters.refused) == (1, 1)
    for _ in range(SILENT_TICKS + 1):
        served.master.tick()
    assert served.hear(AttachWriter(1, 5), OTHER) == [CumulativeAck(1)]
    assert served.master.writers == 1
    assert served.hear(Put(KEY, ONE, None, CLONE), seq=2) == [Nack((0,))]


def test_a_content_that_fits_into_no_frame() -> None:
    """Clones wait until there is less; it is counted each time."""
    served = Served(snapshot_bytes=5_000)
    served.store.apply(Put(KEY, encode("x" * 5_000), None, OWN))
    assert served.hear(Nack((0,)), receiver=NIL_ENTITY) == []
    assert (served.master.clones, served.counters.snapshots_too_large) == (0, 1)
    served.store.apply(Put(KEY, ONE, None, OWN))
    assert served.hear(Nack((0,)), receiver=NIL_ENTITY) == [AckClone(1, 5, ((KEY, ONE),))]


def test_a_content_of_too_many_entries() -> None:
    """It would take too long to be written in one go."""
    served = Served(snapshot_entries=1)
    for key in (KEY, ONE):
        served.store.apply(Put(key, ONE, None, OWN))
    assert served.hear(Nack((0,)), receiver=NIL_ENTITY) == []
    assert served.counters.snapshots_too_large == 1


def test_clones_that_come_together() -> None:
    """The content is written once for them, and anew once it has changed."""
    served = Served()
    served.store.apply(Put(KEY, ONE, None, OWN))
    served.hear(Nack((0,)), receiver=NIL_ENTITY)
    made = served.master._content
    assert served.hear(Nack((0,)), OTHER, receiver=NIL_ENTITY) == [AckClone(1, 5, ((KEY, ONE),))]
    assert served.master._content is made
    served.store.apply(Put(KEY, TWO, None, OWN))
    assert served.hear(Nack((0,)), entity(LOW, 11), receiver=NIL_ENTITY) == [AckClone(2, 5, ((KEY, TWO),))]
    for _ in range(HEARTBEAT_TICKS):
        served.master.tick()
    assert served.master._content is None


def test_open_snapshots_are_bounded() -> None:
    """Until one is acknowledged, the next clone waits."""
    served = Served(open_snapshot_bytes=12_000)
    served.store.apply(Put(KEY, encode("x" * 8_000), None, OWN))
    assert len(served.hear(Nack((0,)), receiver=NIL_ENTITY)) == 1
    assert served.hear(Nack((0,)), OTHER, receiver=NIL_ENTITY) == []
    assert served.counters.refused == 1
    served.hear(CumulativeAck(1))
    assert len(served.hear(Nack((0,)), OTHER, receiver=NIL_ENTITY)) == 1
