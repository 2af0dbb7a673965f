"""A clone alone: whom it listens to, and what it keeps of what it writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from hub.errors import StoreError
from hub.stores.command import ChangeKind, StoreLimits
from peers.values import Count, encode, to_msgpack
from peers.zeek.broker.messages import NIL_ID
from peers.zeek.broker.stores import command as wire
from peers.zeek.broker.stores.channel import (
    NACK_NUMBERS,
    NACK_TICKS,
    ChannelCounters,
    ChannelLimits,
    Consumer,
)
from peers.zeek.broker.stores.command import Action, Content, Erase, Nack
from tests.zeek.broker.recorded import HIGH, LOW
from tests.zeek.broker.stores.simulated import ClonedStore

MASTER, OTHER = wire.entity(HIGH, 8), wire.entity(HIGH, 9)
ASKER, OWN = wire.entity(LOW, 1), wire.entity(LOW, 2)
KEY, ONE = encode("k"), encode(Count(1))


class Copied(ClonedStore):
    def __init__(self, *, limits: ChannelLimits | None = None) -> None:
        self.said: list[tuple[bytes, wire.Command]] = []
        super().__init__(LOW, lambda to, command: self.said.append((to, wire.decode_command(command))), limits)

    def hear(
        self, content: wire.Content, seq: int = 0, sender: bytes = MASTER, receiver: bytes = OWN
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
        (OTHER, wire.NIL_ENTITY, wire.Put(KEY, ONE, None, OTHER)),
        (OTHER, OWN, wire.RetransmitFailed(2)),
        (OTHER, OWN, wire.AckClone(5, 5, ((ONE, ONE),))),
        (MASTER, OTHER, wire.RetransmitFailed(2)),
        (MASTER, OWN, wire.AckClone(5, 5, ((ONE, ONE),))),
        (MASTER, OTHER, wire.CumulativeAck(1)),
        (MASTER, OWN, wire.AttachWriter(1, 5)),
    ],
)
def test_what_is_not_for_it(sender: bytes, receiver: bytes, content: wire.Content) -> None:
    copied = attached(writes=True)
    assert copied.hear(content, 2, sender, receiver) == []
    assert (copied.replica.content, copied.states) == ({}, [""])


def test_a_handshake_for_another_clone() -> None:
    copied = Copied()
    copied.hear(wire.AckClone(1, 5, ()), receiver=OTHER)
    assert not copied.clone.is_attached


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
    copied.wish(wire.Erase(KEY, OWN))
    copied.hear(wire.CumulativeAck(2))
    assert copied.hear(wire.Nack((0,))) == [wire.AttachWriter(2, 5)]
    copied.wish(wire.Erase(ONE, OWN))
    assert copied.hear(wire.Nack((3,))) == [wire.Erase(ONE, OWN)]


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
