"""A master, its clones and a hub between them, over a network that loses, doubles, swaps and cuts."""

from __future__ import annotations

import random

import pytest

from peers.values import Count, encode
from peers.zeek.broker.messages import NIL_ID, Envelope, EnvelopeType
from peers.zeek.broker.stores import command as wire
from peers.zeek.broker.stores.channel import HEARTBEAT_TICKS, SILENT_TICKS
from peers.zeek.broker.stores.forwarder import FORGET_TICKS, Forwarder, ForwarderLimits
from peers.zeek.broker.stores.master import MasterLimits
from tests.zeek.broker.stores.simulated import HUB, ClonedStore, Faults, Hub, Node, ServedStore, Simulation, any_wish

BAD = Faults(lost=0.1, doubled=0.1)
STORES = ("db", "zeek/known/hosts")


class Cluster:
    def __init__(self, seed: int = 0) -> None:
        self.hub = Hub(seed)
        self.nodes = [self.hub.peer(number) for number in (1, 2, 3)]
        self.served: dict[str, ServedStore] = {}
        self.cloned: dict[str, list[ClonedStore]] = {}
        for place, name in enumerate(STORES):
            self.served[name] = self.nodes[place].serve(name)
            self.cloned[name] = [node.copy(name) for node in self.nodes if node is not self.nodes[place]]

    def disturb(self, seed: int, ticks: int) -> None:
        chance = random.Random(seed)  # noqa: S311 -- to be repeatable
        for _ in range(ticks):
            for name in STORES:
                for cloned in self.cloned[name]:
                    cloned.wish(any_wish(chance, cloned.clone._own))
                served = self.served[name]
                served.wish(any_wish(chance, served.own))
            self.hub.tick()

    def is_equal(self) -> bool:
        return all(
            cloned.replica.content == self.served[name].store.content for name in STORES for cloned in self.cloned[name]
        )

    def is_idle(self) -> bool:
        return all(served.master.is_idle for served in self.served.values()) and all(
            cloned.clone.is_idle for name in STORES for cloned in self.cloned[name]
        )


@pytest.mark.parametrize("seed", range(2))
def test_all_is_equal_in_the_end(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.hub.network.faults = BAD
    cluster.disturb(seed, 100)
    cluster.hub.settle()
    assert cluster.hub.network.spoiled > 100
    assert cluster.is_equal()
    assert cluster.is_idle()
    assert all(node.strangers == 0 for node in cluster.nodes)
    assert cluster.hub.forwarder.entities == 6
    assert cluster.hub.forwarder.stores == 2
    assert not any(cloned.lost for name in STORES for cloned in cluster.cloned[name])


@pytest.mark.parametrize("ticks", [SILENT_TICKS // 2, SILENT_TICKS + 100])
@pytest.mark.parametrize("place", [0, 2])
def test_a_peer_that_is_lost_for_a_while(place: int, ticks: int) -> None:
    cluster = Cluster()
    cluster.hub.tick(10)
    lost = cluster.nodes[place]
    cluster.hub.cut(lost)
    cluster.disturb(1, ticks)
    assert not cluster.is_equal()
    cluster.hub.mend(lost)
    cluster.hub.settle()
    assert cluster.is_equal()
    assert cluster.is_idle()
    restarts = sum(len(cloned.lost) for name in STORES for cloned in cluster.cloned[name])
    assert (restarts > 0) is (ticks > SILENT_TICKS)


def test_who_is_told_of_which_topics() -> None:
    cluster = Cluster()
    one, two, three = cluster.nodes
    topics = cluster.hub.forwarder.topics_for
    db, known = STORES
    assert topics(one.id) == {wire.clone_topic(db), wire.master_topic(known), wire.clone_topic(known)}
    assert topics(two.id) == {wire.master_topic(db), wire.clone_topic(db), wire.clone_topic(known)}
    assert topics(three.id) == {
        wire.master_topic(db),
        wire.master_topic(known),
        wire.clone_topic(known),
        wire.clone_topic(db),
    }
    told = cluster.hub.told
    cluster.hub.forwarder.announced(one.id, one.filter)
    assert cluster.hub.told == told
    cluster.hub.cut(two)
    assert cluster.hub.told == told + 1
    assert topics(three.id) == {wire.master_topic(db), wire.clone_topic(known)}


# One command at a time.


def said(
    node: Node, content: wire.Content, receiver: bytes = wire.NIL_ENTITY, to: bytes = NIL_ID, **fields: bytes
) -> None:
    sender = fields.get("sender", wire.entity(node.id, 7))
    topic = fields.get("topic", wire.clone_topic("db").encode())
    payload = fields.get("payload") or wire.encode_command(wire.Command(1, sender, receiver, content))
    node.hub.hear(Envelope(node.id, to, EnvelopeType.COMMAND, topic, payload))
    node.hub.network.deliver()


def peers(count: int, limits: ForwarderLimits | None = None) -> tuple[Hub, list[Node]]:
    hub = Hub(limits=limits)
    nodes = [hub.peer(number) for number in range(1, count + 1)]
    for node in nodes:
        hub.forwarder.announced(node.id, (wire.clone_topic("db"),))
    return hub, nodes


PUT = wire.Put(encode("k"), encode("v"), None, wire.NIL_ENTITY)


def test_what_is_rewritten() -> None:
    _, (one, two) = peers(2)
    said(one, PUT)
    (heard,) = two.heard
    alias = wire.decode_command(heard.payload).sender
    assert heard[:4] == (HUB, NIL_ID, EnvelopeType.COMMAND, wire.clone_topic("db").encode())
    assert wire.node_of(alias) == HUB
    assert wire.decode_command(heard.payload) == wire.Command(1, alias, wire.NIL_ENTITY, PUT)
    said(two, wire.Nack((3,)), receiver=alias, to=HUB)
    (answer,) = one.heard
    assert answer.receiver == one.id
    assert wire.decode_command(answer.payload).receiver == wire.entity(one.id, 7)
    said(two, wire.Nack((3,)), receiver=alias)
    assert one.heard[1].receiver == NIL_ID


@pytest.mark.parametrize(
    "receiver", [wire.entity(HUB, 5), wire.entity(b"x" * 16, 5)], ids=["no such alias", "not of this hub"]
)
def test_who_is_not_known(receiver: bytes) -> None:
    hub, (one, two) = peers(2)
    said(one, PUT, receiver=receiver, to=HUB)
    assert (two.heard, hub.forwarder.counters.unknown) == ([], 1)


def test_nobody_speaks_for_others() -> None:
    hub, (one, two) = peers(2)
    said(one, PUT, sender=wire.entity(two.id, 7))
    assert (two.heard, hub.forwarder.counters.unknown) == ([], 1)
    said(one, PUT)
    alias = wire.decode_command(two.heard[0].payload).sender
    said(one, PUT, receiver=alias, to=HUB)
    assert hub.forwarder.counters.unknown == 2


def test_where_peers_do_not_hear_of_each_other() -> None:
    hub, (one, two, own) = peers(3)
    hub.forwarder = Forwarder(HUB, between_peers=False)
    for node in (one, two, own):
        hub.forwarder.join(node.id, node, (wire.clone_topic("db"),), is_own=node is own)
    assert hub.forwarder.topics_for(one.id) == hub.forwarder.topics_for(own.id) == {wire.clone_topic("db")}
    hub.forwarder.announced(own.id, ())
    assert hub.forwarder.topics_for(one.id) == frozenset()
    said(one, PUT)
    assert (two.heard, own.heard, hub.forwarder.counters.no_subscriber) == ([], [], 1)
    hub.forwarder.announced(own.id, (wire.clone_topic("db"),))
    said(one, PUT)
    alias = wire.decode_command(own.heard[0].payload).sender
    said(two, wire.Nack((2,)), receiver=alias, to=HUB)
    assert (one.heard, hub.forwarder.counters.unknown) == ([], 1)
    said(own, wire.Nack((2,)), receiver=alias, to=HUB)
    assert len(one.heard) == 1


def test_who_takes_no_part() -> None:
    hub, (one, two) = peers(2)
    hub.forwarder.leave(one.id)
    said(one, PUT)
    assert (two.heard, hub.forwarder.counters.elsewhere) == ([], 1)
    assert hub.forwarder.is_needed


def test_entities_are_bounded() -> None:
    hub, (one, two) = peers(2, ForwarderLimits(entities=2))
    for number in (1, 2, 3, 1):
        said(one, PUT, sender=wire.entity(one.id, number))
    assert (len(two.heard), hub.forwarder.entities, hub.forwarder.counters.too_many) == (3, 2, 1)


def test_topics_are_bounded() -> None:
    hub, (one, two) = peers(2, ForwarderLimits(topics=3))
    hub.forwarder.announced(one.id, tuple(wire.master_topic(f"s{number}") for number in range(5)))
    assert len(hub.forwarder.topics_for(two.id)) == 3
    assert hub.forwarder.counters.too_many == 2


def test_who_is_lost_is_forgotten() -> None:
    hub, (one, two) = peers(2)
    said(one, PUT)
    alias = wire.decode_command(two.heard[0].payload).sender
    hub.forwarder.leave(one.id)
    hub.forwarder.leave(b"nobody")
    for _ in range(FORGET_TICKS - 1):
        hub.forwarder.tick()
    assert hub.forwarder.entities == 1
    said(two, wire.Nack((1,)), receiver=alias, to=HUB)
    assert hub.forwarder.counters.unknown == 1
    hub.forwarder.tick()
    assert hub.forwarder.entities == 1  # that of the other one, which has spoken
    hub.forwarder.join(one.id, one, ())
    said(two, wire.Nack((1,)), receiver=alias, to=HUB)
    assert hub.forwarder.counters.unknown == 2


def test_who_does_not_read() -> None:
    hub, (one, two, three) = peers(3)
    two.reads = False
    said(one, PUT)
    assert (hub.forwarder.counters.undelivered, hub.forwarder.counters.forwarded, len(three.heard)) == (1, 1, 1)


def test_who_may_say_and_hear_what() -> None:
    hub, (one, two) = peers(2)
    one.writes = False
    said(one, PUT)
    said(one, wire.Keepalive(1))  # all that comes from a master may change copies
    hub.forwarder.announced(two.id, (wire.master_topic("db"),))
    said(one, PUT, topic=wire.master_topic("db").encode())
    assert (two.heard, hub.forwarder.counters.refused) == ([], 3)
    said(one, wire.Nack((0,)), topic=wire.master_topic("db").encode())
    assert len(two.heard) == 1
    two.hears = False
    said(one, wire.Nack((0,)), topic=wire.master_topic("db").encode())
    one.says = False
    said(one, wire.Nack((0,)), topic=wire.master_topic("db").encode())
    assert (len(two.heard), hub.forwarder.counters.refused) == (1, 5)


@pytest.mark.parametrize("topic", [b"db", b"db/<$>/data/other", b"\xff/<$>/data/master"])
def test_other_topics(topic: bytes) -> None:
    hub, (one, two) = peers(2)
    said(one, PUT, topic=topic)
    assert (two.heard, hub.forwarder.counters.invalid) == ([], 1)


def deep(levels: int) -> bytes:
    return b"\x0e\x01" * levels + b"\x00"


def test_long_commands_are_looked_over() -> None:
    hub, (one, two) = peers(2, ForwarderLimits(snapshot_values=5_000))
    long = encode("x" * 40_000)
    entries = tuple((encode(Count(number)), encode("x" * 20)) for number in range(2_000))
    for content in (PUT._replace(value=long), wire.AckClone(1, 5, entries), wire.AckClone(1, 5, ((long, long),))):
        said(one, content)
    assert len(two.heard) == 3
    sound = wire.encode_command(
        wire.Command(1, wire.entity(one.id, 7), wire.NIL_ENTITY, PUT._replace(value=encode("x")))
    )
    for value in (deep(20_000), b"\x0e\xff\xff\x03" + bytes(40_000), b"\x0f" + bytes(40_000)):
        said(one, PUT, payload=sound.replace(encode("x"), value))
    many = tuple((encode(Count(number)), encode("x" * 20)) for number in range(3_000))
    said(one, wire.AckClone(1, 5, many))
    snapshot = wire.encode_command(
        wire.Command(1, wire.entity(one.id, 7), wire.NIL_ENTITY, wire.AckClone(1, 5, entries))
    )
    said(one, PUT, payload=snapshot[:-1])
    said(one, PUT, payload=snapshot + b"\0")
    said(one, PUT, payload=bytes(57))
    assert (len(two.heard), hub.forwarder.counters.invalid) == (3, 6)


WORSE = Faults(lost=0.2, doubled=0.2, delayed=0.3)


@pytest.mark.parametrize("seed", range(1))
def test_a_cut_of_more_than_50_s(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.tick(10)
    simulation.network.cut.add("clone 1")
    for _ in range(SILENT_TICKS + 50):
        simulation.clones[0].add("sum", 1)
        simulation.clones[1].add("other", 1)
        simulation.tick()
    assert simulation.served.master.clones == 2
    assert simulation.served.master.waiting_bytes < 10_000
    simulation.settle()
    assert simulation.is_idle()
    assert simulation.is_equal()
    assert simulation.served.store.content == {encode("other"): encode(Count(SILENT_TICKS + 50))}
    assert simulation.clones[0].lost == ["the master was silent for too long"]
    assert simulation.clones[0].states.count("") == 2


def test_a_clone_that_was_forgotten_is_told() -> None:
    simulation = Simulation(1, clones=1)
    simulation.tick(10)
    cloned = simulation.clones[0]
    simulation.served.master._clones.clear()
    simulation.served.put("k", 1)
    simulation.tick(2 * HEARTBEAT_TICKS)
    assert cloned.lost == ["change 2 is lost for good"]
    assert simulation.is_equal()
    assert simulation.served.master.clones == 1


def test_a_clone_that_lags_too_far_behind() -> None:
    simulation = Simulation(1, clones=2, limits=MasterLimits(log_actions=50))
    simulation.tick(10)
    simulation.network.cut.add("clone 1")
    for number in range(200):
        simulation.served.put(f"k{number}", number)
        simulation.tick()
    simulation.settle()
    assert simulation.is_equal()
    assert len(simulation.clones[0].lost) == 1


@pytest.mark.parametrize("seed", range(1))
def test_put_unique_by_two_at_once(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.tick(10)
    simulation.network.faults = WORSE
    results: dict[int, list[bool | None]] = {}
    for number in range(50):
        results[number] = []
        for cloned in simulation.clones:
            cloned.put_unique(f"k{number}", number, results[number])
        simulation.tick()
    simulation.settle()
    assert all(sorted(map(str, told)) == ["False", "False", "True"] for told in results.values())
    assert simulation.is_equal()


def test_another_master() -> None:
    simulation = Simulation(1)
    simulation.tick(10)
    results: list[bool | None] = []
    simulation.network.cut.add("master")
    simulation.clones[0].add("sum", 5)
    simulation.clones[0].put_unique("k", "v", results)
    simulation.make_master(number=2)
    simulation.served.put("new", 1)
    simulation.settle(SILENT_TICKS + 20)
    assert simulation.is_equal()
    assert simulation.served.store.content == {encode("new"): encode(Count(1))}
    assert results == [None]
    assert all(cloned.lost for cloned in simulation.clones)
