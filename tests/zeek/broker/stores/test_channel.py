"""A producer and its consumers, each alone and over a network that loses, doubles and swaps what it carries."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from peers.values import Count, encode
from peers.zeek.broker.stores.channel import (
    HEARTBEAT_TICKS,
    NACK_NUMBERS,
    NACK_TICKS,
    SILENT_TICKS,
    ChannelCounters,
    ChannelLimits,
)
from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    AckClone,
    Action,
    AttachWriter,
    Command,
    Content,
    CumulativeAck,
    Erase,
    Keepalive,
    Nack,
    RetransmitFailed,
    decode_command,
    encode_command,
    entity,
)
from peers.zeek.broker.stores.consumer import Consumer
from peers.zeek.broker.stores.producer import FIRST_NUMBER, Producer
from tests.zeek.broker.recorded import HIGH, LOW
from tests.zeek.broker.stores.network import CALM, Faults, Network

MASTER, CLONE, OTHER = entity(HIGH, 8), entity(LOW, 7), entity(LOW, 9)


def action(number: int) -> Erase:
    """One that can be told from others."""
    return Erase(encode(Count(number)), MASTER)


@dataclass
class Source:
    """A producer whose content is the list of its actions, as a master's is its store."""

    limits: ChannelLimits = field(default_factory=ChannelLimits)
    has_handshake: bool = True
    content: list[bytes] = field(default_factory=list)
    sent: list[tuple[bytes, Command]] = field(default_factory=list)
    counters: ChannelCounters = field(default_factory=ChannelCounters)

    def __post_init__(self) -> None:
        self.producer = Producer(
            MASTER, NIL_ENTITY, self.send, self.handshake, limits=self.limits, counters=self.counters
        )

    def send(self, to: bytes, command: bytes) -> None:
        """Remember what is sent."""
        self.sent.append((to, decode_command(command)))

    def handshake(self, number: int, _: int) -> AckClone | None:
        """The whole content."""
        entries = tuple((encode(Count(place)), key) for place, key in enumerate(self.content))
        return AckClone(number, HEARTBEAT_TICKS, entries) if self.has_handshake else None

    def do(self, number: int) -> None:
        """One action."""
        self.content.append(action(number).key)
        self.producer.produce(action(number))

    def said(self) -> list[tuple[bytes, Content]]:
        """What was sent since the last call."""
        said = [(to, command.content) for to, command in self.sent]
        self.sent.clear()
        return said


def attached(*consumers: bytes, limits: ChannelLimits | None = None) -> Source:
    """A source whose consumers have their handshakes."""
    source = Source(limits or ChannelLimits())
    for consumer in consumers:
        source.producer.repeat(consumer, (0,))
        source.producer.acknowledge(consumer, FIRST_NUMBER)
    source.said()
    return source


def test_nobody_hears_nothing_is_numbered() -> None:
    """An action without a consumer is dropped; the first that is heard is number 2."""
    source = Source()
    source.do(1)
    assert (source.producer.number, source.sent) == (1, [])
    source.producer.repeat(CLONE, (0,))
    source.do(2)
    (to, handshake), (everybody, first) = source.sent
    assert (to, handshake.seq, handshake.receiver) == (CLONE, 1, CLONE)
    assert handshake.content == AckClone(1, 5, ((encode(Count(0)), action(1).key),))
    assert (everybody, first.seq, first.receiver) == (NIL_ENTITY, 2, NIL_ENTITY)


def test_a_handshake_is_repeated_as_it_was() -> None:
    """Until it is acknowledged, whatever happens meanwhile; then it is made anew."""
    source = Source()
    source.producer.repeat(CLONE, (0,))
    source.do(1)
    source.producer.repeat(CLONE, (0,))
    first, _, again = source.said()
    assert again == first
    source.producer.acknowledge(CLONE, 1)
    source.producer.repeat(CLONE, (0,))
    assert source.said() == [(CLONE, AckClone(2, 5, ((encode(Count(0)), action(1).key),)))]
    source.producer.repeat(CLONE, (2,))  # it had no need to ask: nothing was forgotten
    assert source.said() == [(CLONE, action(1))]


def test_what_all_have_is_forgotten() -> None:
    """The buffer reaches back to the one that lags most."""
    source = attached(CLONE, OTHER)
    for number in range(5):
        source.do(number)
    assert source.producer.buffered == 5
    source.producer.acknowledge(CLONE, 6)
    assert source.producer.buffered == 5
    source.producer.acknowledge(OTHER, 4)
    assert source.producer.buffered == 2
    assert source.producer.buffered_bytes == 2 * len(encode_command(Command(6, MASTER, NIL_ENTITY, action(4))))
    source.producer.acknowledge(OTHER, 3)  # an old one, overtaken
    source.producer.acknowledge(OTHER, 7)  # nonsense
    assert source.producer.buffered == 2
    assert not source.producer.is_idle
    source.producer.remove(OTHER)
    assert (source.producer.buffered, source.producer.buffered_bytes) == (0, 0)
    assert source.producer.is_idle


def test_what_is_missing_is_sent_again() -> None:
    """To the one that lacks it, as it was; what is forgotten has failed; what was never sent is not answered."""
    source = attached(CLONE, OTHER)
    for number in range(3):
        source.do(number)
    source.said()
    source.producer.repeat(CLONE, (3, 4))
    assert source.said() == [(CLONE, action(1)), (CLONE, action(2))]
    source.producer.acknowledge(OTHER, 4)
    source.producer.repeat(CLONE, (2, 4, 9))
    assert source.said() == [(CLONE, RetransmitFailed(2)), (CLONE, action(2))]
    assert (source.counters.repeated, source.counters.failed) == (3, 1)


@pytest.mark.parametrize("numbers", [(), (3, 3), (4, 3), (0, 1)])
def test_who_asks_nonsense_is_removed(numbers: tuple[int, ...]) -> None:
    """Numbers that are not ascending."""
    source = attached(CLONE)
    source.producer.repeat(CLONE, numbers)
    assert CLONE not in source.producer
    assert source.counters.wrong == 1


def test_strangers_hold_nothing() -> None:
    """Whoever is no consumer gets nothing by asking, and acknowledges nothing."""
    source = attached(CLONE)
    source.do(1)
    source.said()
    source.producer.repeat(OTHER, (2,))
    source.producer.acknowledge(OTHER, 2)
    source.producer.remove(OTHER)
    assert (source.said(), list(source.producer), source.producer.buffered) == ([], [CLONE], 1)


def test_one_nack_brings_so_much() -> None:
    """Eight bytes must not bring a hundred without end."""
    source = attached(CLONE)
    source.producer.repeat(CLONE, tuple(range(1, 3 * NACK_NUMBERS)))
    assert source.said() == [(CLONE, RetransmitFailed(1))]
    for number in range(2 * NACK_NUMBERS):
        source.do(number)
    source.said()
    source.producer.repeat(CLONE, tuple(range(2, 2 * NACK_NUMBERS)))
    assert len(source.said()) == NACK_NUMBERS


@pytest.mark.parametrize("limits", [ChannelLimits(actions=3), ChannelLimits(bytes=250)])
def test_a_full_buffer(limits: ChannelLimits) -> None:
    """It says so; without the slowest consumer there is room again."""
    source = attached(CLONE, OTHER, limits=limits)
    for number in range(3):
        assert not source.producer.is_full
        source.do(number)
        source.producer.acknowledge(OTHER, 2 + number)
    assert source.producer.is_full
    assert source.producer.remove_slowest() == CLONE
    assert not source.producer.is_full
    assert source.counters.slow == 1
    assert list(source.producer) == [OTHER]


def test_no_handshake_no_consumer() -> None:
    """Where the content is too large for one frame."""
    source = Source(has_handshake=False)
    assert not source.producer.repeat(CLONE, (0,))
    assert CLONE not in source.producer
    source.has_handshake = True
    assert source.producer.repeat(CLONE, (0,))
    source.producer.acknowledge(CLONE, 1)
    source.has_handshake = False
    assert not source.producer.repeat(CLONE, (0,))
    assert CLONE not in source.producer


def test_keepalives() -> None:
    """One each heartbeat without an action; who lacked the last action at one keepalive gets the next by name."""
    source = attached(CLONE, OTHER)
    source.do(1)
    source.producer.acknowledge(OTHER, 2)
    source.said()
    for _ in range(2 * HEARTBEAT_TICKS):
        source.producer.tick()
    everybody = (NIL_ENTITY, Keepalive(2))
    assert source.said() == [everybody, everybody, (CLONE, Keepalive(2))]
    source.producer.acknowledge(CLONE, 2)
    for _ in range(HEARTBEAT_TICKS):
        source.producer.tick()
    assert source.said() == [everybody]


def test_who_is_silent_is_removed() -> None:
    """After 50 s, counted, and nothing is held for it any more."""
    source = attached(CLONE, OTHER)
    source.do(1)
    for _ in range(SILENT_TICKS + HEARTBEAT_TICKS):
        source.producer.tick()
        source.producer.acknowledge(OTHER, 2)
    assert list(source.producer) == [OTHER]
    assert source.counters.silent == 1
    assert source.producer.buffered == 0


def test_a_writer_that_is_asked_again_goes_on_where_it_was() -> None:
    """The handshake of a channel without content says up to where everything is there."""
    sent: list[Content] = []
    producer = Producer(
        CLONE,
        MASTER,
        lambda _, command: sent.append(decode_command(command).content),
        lambda _, has: AttachWriter(has, HEARTBEAT_TICKS),
        limits=ChannelLimits(),
        counters=ChannelCounters(),
    )
    producer.add(MASTER)
    producer.produce(action(1))
    producer.produce(action(2))
    producer.acknowledge(MASTER, 2)
    producer.repeat(MASTER, (0,))
    assert [sent[0], sent[-1]] == [AttachWriter(1, 5), AttachWriter(2, 5)]


# The other end.


@dataclass
class Sink:
    """A consumer, and what it does."""

    limits: ChannelLimits = field(default_factory=ChannelLimits)
    taken: list[Action] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    said: list[Content] = field(default_factory=list)
    counters: ChannelCounters = field(default_factory=ChannelCounters)

    def __post_init__(self) -> None:
        self.consumer = Consumer(self.taken.append, self.lost.append, self.said.append, self.limits, self.counters)

    def ticks(self, count: int) -> list[Content]:
        """What it says in so many ticks."""
        self.said.clear()
        for _ in range(count):
            self.consumer.tick()
        return self.said[:]


def test_a_handshake_is_asked_for_until_it_comes() -> None:
    """Every two ticks; a second handshake changes nothing."""
    sink = Sink()
    assert sink.ticks(4) == [Nack((0,)), Nack((0,))]
    assert not sink.consumer.is_attached
    sink.consumer.attach(7)
    sink.consumer.attach(9)
    assert sink.said[2:] == [CumulativeAck(7)]
    assert sink.consumer.next == 8
    assert sink.consumer.is_idle
    assert sink.ticks(10) == [CumulativeAck(7)] * 2


def test_actions_are_taken_in_their_order() -> None:
    """Whatever order they come in, and how often."""
    sink = Sink()
    for number in (4, 2):
        sink.consumer.hear(number, action(number), 10)  # before the handshake
    sink.consumer.attach(2)
    for number in (6, 5, 6, 3, 3, 7):
        sink.consumer.hear(number, action(number), 10)
    assert sink.taken == [action(number) for number in range(3, 8)]
    assert sink.consumer.early == 0


def test_what_is_missing_is_asked_for() -> None:
    """Exactly that, after two ticks without progress; the end of the stream is known by a keepalive."""
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
    """What finds no room is asked for again, and what is next is always taken."""
    sink = Sink(ChannelLimits(actions=2, bytes=100))
    sink.consumer.attach(1)
    for number in (3, 4, 5):
        sink.consumer.hear(number, action(number), 10)
    assert (sink.consumer.early, sink.counters.overrun) == (2, 1)
    sink.consumer.hear(2, action(2), 10)
    assert sink.consumer.next == 5
    sink.consumer.hear(6, action(6), 101)
    assert (sink.consumer.early, sink.counters.overrun) == (0, 2)
    assert sink.ticks(3) == [Nack((5,))]


def test_an_end_far_away_costs_little() -> None:
    """Whoever says that all numbers were used is asked for a thousand of them."""
    sink = Sink()
    sink.consumer.attach(1)
    sink.consumer.hear_end((1 << 64) - 1)
    assert sink.ticks(NACK_TICKS) == [Nack(tuple(range(2, 2 + NACK_NUMBERS)))]


def test_a_consumer_that_was_stopped_takes_nothing_more() -> None:
    """Though the owner stops it amid a call."""
    taken: list[Action] = []
    consumer: Consumer
    consumer = Consumer(taken.append, lambda _: consumer.stop(), lambda _: None, ChannelLimits(), ChannelCounters())
    consumer.attach(1)
    consumer.hear(3, action(3), 10)
    consumer.hear_lost(2)
    assert (taken, consumer.early) == ([], 0)


# Both, over a network.

BAD = Faults(lost=0.2, doubled=0.2, delayed=0.3)


class Replica:
    """A consumer whose content is the list of what it was told."""

    def __init__(self, name: str, own: bytes, network: Network) -> None:
        self.name, self.own, self.network = name, own, network
        self.content: list[bytes] = []
        self.lost: list[int] = []
        self.consumer = Consumer(self.take, self.lost.append, self.say, ChannelLimits(), ChannelCounters())
        network.join(name, self.hear)
        self.consumer.ask()

    def take(self, taken: Action) -> None:
        """One action."""
        assert isinstance(taken, Erase)
        self.content.append(taken.key)

    def say(self, content: Content) -> None:
        """To the producer."""
        self.network.send(self.name, "master", encode_command(Command(0, self.own, MASTER, content)))

    def hear(self, _: str, data: bytes) -> None:
        """From the producer."""
        command = decode_command(data)
        match command.content:
            case AckClone():
                if not self.consumer.is_attached:
                    self.content = [value for _, value in command.content.entries]
                    self.consumer.attach(command.content.offset)
            case Keepalive():
                if command.receiver == self.own:  # as C++ clones, which take no other
                    self.consumer.hear_end(command.content.number)
            case RetransmitFailed():
                self.consumer.hear_lost(command.content.number)
            case Erase():
                self.consumer.hear(command.seq, command.content, len(data))
            case _:
                raise AssertionError(command)


class Simulated:
    """A producer and some replicas."""

    def __init__(self, seed: int, count: int = 3) -> None:
        self.network = Network(seed)
        self.source = Source()
        self.network.join("master", self.hear)
        self.source.producer = Producer(
            MASTER, NIL_ENTITY, self.send, self.source.handshake, limits=ChannelLimits(), counters=self.source.counters
        )
        self.replicas = [Replica(f"r{number}", entity(LOW, number), self.network) for number in range(count)]

    def send(self, to: bytes, command: bytes) -> None:
        """To one, or to all."""
        for replica in self.replicas:
            if to in (NIL_ENTITY, replica.own):
                self.network.send("master", replica.name, command)

    def hear(self, _: str, data: bytes) -> None:
        """What replicas say."""
        command = decode_command(data)
        match command.content:
            case CumulativeAck():
                self.source.producer.acknowledge(command.sender, command.content.number)
            case Nack():
                self.source.producer.repeat(command.sender, command.content.numbers)
            case _:
                raise AssertionError(command)

    def tick(self) -> None:
        """Everybody's."""
        self.source.producer.tick()
        for replica in self.replicas:
            replica.consumer.tick()
        self.network.deliver()

    def is_equal(self) -> bool:
        """Whether all replicas have it all."""
        return all(replica.content == self.source.content for replica in self.replicas)

    def settle(self) -> None:
        """Let nothing be lost any more."""
        self.network.faults = CALM
        self.network.cut.clear()
        for _ in range(10 * HEARTBEAT_TICKS):
            self.tick()


@pytest.mark.parametrize("seed", range(10))
def test_all_is_equal_in_the_end(seed: int) -> None:
    """Whatever was lost, doubled or overtaken, of actions, acknowledgements and handshakes."""
    simulated = Simulated(seed)
    simulated.network.faults = BAD
    chance = random.Random(seed)  # noqa: S311 -- to be repeatable
    for step in range(300):
        for number in range(chance.choice((0, 0, 1, 5))):
            simulated.source.do(10 * step + number)
        simulated.tick()
    simulated.settle()
    assert simulated.network.spoiled > 300
    assert simulated.source.counters.repeated > 20
    assert len(simulated.source.content) > 300
    assert simulated.is_equal()
    assert simulated.source.producer.is_idle
    assert not any(replica.lost for replica in simulated.replicas)


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_of_less_than_50_s_is_repaired(seed: int) -> None:
    """All that was missed comes again, and those that were not cut off notice nothing."""
    simulated = Simulated(seed)
    for number in range(20):
        simulated.source.do(number)
        simulated.tick()
    simulated.network.cut.add("r0")
    for number in range(SILENT_TICKS - 2 * HEARTBEAT_TICKS):
        if number % 7 == 0:
            simulated.source.do(1000 + number)
        simulated.tick()
    assert not simulated.is_equal()
    assert simulated.replicas[1].content == simulated.source.content
    simulated.settle()
    assert simulated.is_equal()
    assert simulated.source.counters.silent == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_lost_last_action_is_found_without_another(seed: int) -> None:
    """By the keepalive that names who lacks it, within three heartbeats."""
    simulated = Simulated(seed)
    for _ in range(HEARTBEAT_TICKS):
        simulated.tick()
    simulated.network.faults = Faults(lost=1.0)
    simulated.source.do(1)
    simulated.network.faults = CALM
    for _ in range(3 * HEARTBEAT_TICKS):
        simulated.tick()
    assert simulated.is_equal()
