"""A consumer alone: it takes actions in their order, and asks for those it lacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from peers.values import Count, encode
from peers.zeek.broker.stores.channel import (
    NACK_NUMBERS,
    NACK_TICKS,
    ChannelCounters,
    ChannelLimits,
    Consumer,
)
from peers.zeek.broker.stores.command import Action, Content, CumulativeAck, Erase, Nack, entity
from tests.zeek.broker.recorded import HIGH

MASTER = entity(HIGH, 8)


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


def test_what_is_missing_is_asked_for() -> None:
    sink = Sink()
    sink.consumer.attach(1)
    for number in (3, 6):
        sink.consumer.hear(number, action(number), 10)
    assert sink.ticks(NACK_TICKS) == [Nack((2, 4, 5))]
    sink.consumer.hear_end(8)
    assert sink.ticks(NACK_TICKS) == [Nack((2, 4, 5, 7, 8))]
    assert not sink.consumer.is_idle
    sink.consumer.hear(2, action(2), 10)
    assert sink.ticks(NACK_TICKS) == [CumulativeAck(3)]  # a heartbeat, as something had come
    sink.consumer.hear_lost(5)
    sink.consumer.hear_lost(4)
    assert sink.lost == [4, 5]
    assert [sink.consumer.next, sink.counters.lost] == [7, 2]


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


def test_a_consumer_that_was_stopped_takes_nothing_more() -> None:
    taken: list[Action] = []
    consumer: Consumer
    consumer = Consumer(taken.append, lambda _: consumer.stop(), lambda _: None, ChannelLimits(), ChannelCounters())
    consumer.attach(1)
    consumer.hear(3, action(3), 10)
    consumer.hear_lost(2)
    assert (taken, len(consumer._early)) == ([], 0)
