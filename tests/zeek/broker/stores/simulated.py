"""A master and some clones at nodes of their own, over a network that does what chance says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from hub.errors import HubError, StoreError
from hub.stores.command import Change, Command, StoreLimits
from hub.stores.store import Store
from peers.stores.operations import TypedOperations
from peers.values import Count, encode, from_msgpack, to_msgpack
from peers.values.binary import Tag
from peers.zeek.broker.messages import LENGTH, NIL_ID, Envelope, EnvelopeType, decode_envelope, encode_envelope
from peers.zeek.broker.stores.channel import ChannelCounters, ChannelLimits
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import (
    Add,
    Clear,
    Erase,
    Put,
    Subtract,
    clone_topic,
    decode_command,
    entity,
    master_topic,
)
from peers.zeek.broker.stores.forwarder import Forwarder, ForwarderLimits
from peers.zeek.broker.stores.master import Master, MasterCounters, MasterLimits, Wish, _command_of

Outcomes = list[Change | StoreError | None]
Notes = Mapping[str, bytes | None]


class MemoryOwner:
    notes: dict[str, bytes] | None = None
    is_certain = False

    def __init__(self, limits: StoreLimits | None = None) -> None:
        self.store = Store("db", TypedOperations(), limits or StoreLimits())
        self.listeners: list[Callable[[Sequence[Change]], object]] = []
        self.noters: list[Callable[[Sequence[Change]], Notes]] = []
        self.changes: list[Change] = []
        self.now_ns = 10**18
        self.error: HubError | None = None
        """Why nothing can be kept."""

    def apply(
        self,
        commands: Iterable[Command | StoreError],
        then: Callable[[Outcomes, HubError | None], object] = lambda _, __: None,
        publisher: object = None,
        user: str | None = None,
        note: Callable[[Outcomes], Notes] | None = None,
    ) -> None:
        outcomes: Outcomes = []
        for command in commands:
            try:
                if isinstance(command, StoreError):
                    raise command
                outcomes.append(self.store.apply(command, self.now_ns, publisher, user))
            except StoreError as error:
                outcomes.append(error)
        changes = [outcome for outcome in outcomes if isinstance(outcome, Change)]
        notes = {**self._noted(changes), **(note(outcomes) if note is not None else {})}
        self._keep(changes, lambda error: then(outcomes, error), notes)

    def _keep(self, changes: list[Change], then: Callable[[HubError | None], object], _notes: Notes) -> None:
        if self.error is None:
            self._tell(changes)
        then(self.error)

    def _noted(self, changes: list[Change]) -> Notes:
        return {name: each for noter in self.noters for name, each in noter(changes).items()}

    def _tell(self, changes: list[Change]) -> None:
        self.changes += changes
        for listener in self.listeners if changes else ():
            listener(changes)

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        then(self.error)

    def expire(self, key: bytes) -> None:
        self.now_ns += 10**12
        changes = self.store.expire(self.now_ns)
        assert [change.key for change in changes] == [to_msgpack(key)]
        self._noted(changes)
        self._tell(changes)

    @property
    def content(self) -> dict[bytes, bytes]:
        return {from_msgpack(key): from_msgpack(value) for key, (value, _, _) in self.store.entries.items()}


@dataclass(frozen=True)
class Faults:
    lost: float = 0.0
    doubled: float = 0.0
    delayed: float = 0.0
    """By up to three ticks, so that others overtake it."""


CALM = Faults()


@dataclass
class Network:
    """Carries bytes from one end to another at the next tick, or later, or never.

    Attributes:
        faults: What happens to what is sent from now on.
        cut: Names of ends that nothing reaches, and from whom nothing comes.
    """

    seed: int
    faults: Faults = CALM
    cut: set[str] = field(default_factory=set)
    carried: int = 0
    spoiled: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 -- to be repeatable
        self._ends: dict[str, Callable[[str, bytes], object]] = {}
        self._due: dict[int, list[tuple[str, str, bytes]]] = {}
        self._tick = 0

    def join(self, name: str, hear: Callable[[str, bytes], object]) -> None:
        self._ends[name] = hear

    def send(self, source: str, target: str, data: bytes) -> None:
        if source in self.cut or target in self.cut:
            self.spoiled += 1
            return
        chance, faults = self._chance.random, self.faults
        if chance() < faults.lost:
            self.spoiled += 1
            return
        for _ in range(2 if chance() < faults.doubled else 1):
            delay = self._chance.randint(1, 3) if chance() < faults.delayed else 0
            self.spoiled += bool(delay)
            self._due.setdefault(self._tick + delay, []).append((source, target, data))

    def deliver(self) -> None:
        due = self._due.get(self._tick, [])
        while due:
            source, target, data = due.pop(0)
            if source not in self.cut and target not in self.cut and target in self._ends:
                self.carried += 1
                self._ends[target](source, data)
        self._due.pop(self._tick, None)
        self._tick += 1


def node_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


Send = Callable[[bytes, bytes], None]


class ServedStore:
    def __init__(self, node: bytes, send: Send, limits: MasterLimits | None = None, number: int = 1) -> None:
        self.node = node
        self.store = MemoryOwner()
        self.counters = MasterCounters()
        self.master = Master(
            "db",
            node,
            number,
            self.store,
            send,
            now_ns=lambda: self.store.now_ns,
            limits=limits,
            counters=self.counters,
        )
        self.own = self.master.own

    def put(self, key: str, value: int) -> None:
        self.wish(Put(encode(key), encode(Count(value)), None, self.own))

    def wish(self, wish: Wish) -> None:
        self.store.apply([_command_of(wish)])


class ClonedStore:
    def __init__(self, node: bytes, send: Send, limits: ChannelLimits | None = None, *, first: int = 1) -> None:
        self.node = node
        numbers = count(first)
        self.replica = MemoryOwner()
        self.states: list[str] = []
        self.counters = ChannelCounters()
        self.clone = Clone(
            "db",
            self.replica,
            lambda: entity(node, next(numbers)),
            send,
            self.states.append,
            limits=limits,
            counters=self.counters,
        )

    @property
    def lost(self) -> list[str]:
        return list(filter(None, self.states))

    def wish(self, wish: Wish) -> None:
        if self.clone.is_attached:
            self.clone._write(wish)

    def add(self, key: str, number: int) -> None:
        self.wish(Add(encode(key), encode(Count(number)), Tag.COUNT, None, self.clone._own))

    def put_unique(self, key: str, value: object, results: list[bool | None]) -> None:
        def then(outcomes: list[Change | StoreError | None], _: object) -> None:
            (outcome,) = outcomes
            results.append(None if isinstance(outcome, StoreError) else outcome is not None)

        command = Command("put_unique", to_msgpack(encode(key)), to_msgpack(encode(value)))
        self.clone.apply([command], then)


class Simulation:
    def __init__(self, seed: int, clones: int = 3, limits: MasterLimits | None = None) -> None:
        self.network = Network(seed)
        self.clones: list[ClonedStore] = []
        self.served = self.make_master(limits)
        for number in range(1, clones + 1):
            self.add_clone(number)

    def make_master(self, limits: MasterLimits | None = None, number: int = 1) -> ServedStore:
        served = ServedStore(node_id(0xFF), self._to_clones, limits, number)
        self.network.join("master", lambda _, data: served.master.hear(decode_command(data), len(data)))
        self.served = served
        return served

    def add_clone(self, number: int, limits: ChannelLimits | None = None) -> ClonedStore:
        name = f"clone {number}"
        cloned = ClonedStore(node_id(number), lambda _, command: self.network.send(name, "master", command), limits)
        self.network.join(name, lambda _, data: cloned.clone.hear(decode_command(data), len(data)))
        self.clones.append(cloned)
        cloned.clone.begin()
        return cloned

    def _to_clones(self, to: bytes, command: bytes) -> None:
        for cloned in self.clones:
            if to in (NIL_ID, cloned.node):
                self.network.send("master", f"clone {int.from_bytes(cloned.node, 'big')}", command)

    def tick(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            self.served.master.tick()
            for cloned in self.clones:
                cloned.clone.tick()
            self.network.deliver()

    def settle(self, ticks: int = 100) -> None:
        self.network.faults = CALM
        self.network.cut.clear()
        self.tick(ticks)

    def is_equal(self) -> bool:
        return all(cloned.replica.content == self.served.store.content for cloned in self.clones)

    def is_idle(self) -> bool:
        return self.served.master.is_idle and all(cloned.clone.is_idle for cloned in self.clones)


_KEYS = [encode(f"k{number}") for number in range(30)]


def any_wish(chance: random.Random, publisher: bytes) -> Wish:
    key = chance.choice(_KEYS)
    value = encode(Count(chance.randrange(100)))
    kind = chance.randrange(12)
    if kind < 6:
        return Put(key, value, None, publisher)
    if kind < 9:
        return Add(key, value, Tag.COUNT, None, publisher)
    if kind == 9:
        return Subtract(key, encode("text"), None, publisher)  # a clash, or no such key: nothing happens
    if kind == 10 and chance.random() < 0.1:
        return Clear(publisher)
    return Erase(key, publisher)


HUB = b"h" * 16


class Node:
    """A Broker endpoint that is peered with the hub: it has masters and clones, and takes what is for it alone.

    As C++ Broker, it sends what has no receiver only to a peer whose filter covers the topic.
    """

    def __init__(self, number: int, hub: Hub) -> None:
        self.id = node_id(number)
        self.name = f"node {number}"
        self.hub = hub
        self.masters: dict[str, ServedStore] = {}
        self.clones: dict[str, ClonedStore] = {}
        self.objects = count(1)
        self.heard: list[Envelope] = []
        self.strangers = 0
        self.reads = True
        self.says = self.hears = self.writes = True
        hub.network.join(self.name, lambda _, data: self.hear(decode_envelope(data[LENGTH.size :])))

    @property
    def filter(self) -> tuple[str, ...]:
        return tuple(sorted([*map(master_topic, self.masters), *map(clone_topic, self.clones)]))

    def sender(self, topic: str) -> Callable[[bytes, bytes], None]:
        def send(to: bytes, command: bytes) -> None:
            is_asked = any(topic.startswith(prefix) for prefix in self.hub.forwarder.topics_for(self.id))
            if to == HUB or (to == NIL_ID and is_asked):
                envelope = Envelope(self.id, to, EnvelopeType.COMMAND, topic.encode(), command)
                self.hub.network.send(self.name, "hub", encode_envelope(envelope))

        return send

    def serve(self, name: str) -> ServedStore:
        served = self.masters[name] = ServedStore(self.id, self.sender(clone_topic(name)), number=next(self.objects))
        self.hub.forwarder.announced(self.id, self.filter)
        return served

    def copy(self, name: str) -> ClonedStore:
        cloned = self.clones[name] = ClonedStore(
            self.id, self.sender(master_topic(name)), first=1000 * next(self.objects)
        )
        self.hub.forwarder.announced(self.id, self.filter)
        cloned.clone.begin()
        return cloned

    def hear(self, envelope: Envelope) -> None:
        assert envelope.sender == HUB
        self.heard.append(envelope)
        if envelope.receiver not in (NIL_ID, self.id):
            self.strangers += 1
            return
        command = decode_command(envelope.payload)
        for name, served in self.masters.items():
            if envelope.topic.decode() == master_topic(name):
                served.master.hear(command, len(envelope.payload))
        for name, cloned in self.clones.items():
            if envelope.topic.decode() == clone_topic(name):
                cloned.clone.hear(command, len(envelope.payload))

    def tick(self) -> None:
        for served in self.masters.values():
            served.master.tick()
        for cloned in self.clones.values():
            cloned.clone.tick()

    # As the hub sees it.

    def deliver(self, frame: bytes) -> bool:
        if self.reads:
            self.hub.network.send("hub", self.name, frame)
        return self.reads

    def may_say(self, _: str, *, writes: bool) -> bool:
        return self.writes if writes else self.says

    @property
    def user(self) -> str | None:
        return None

    def may_hear(self, _: str) -> bool:
        return self.hears


class Hub:
    def __init__(self, seed: int = 0, limits: ForwarderLimits | None = None) -> None:
        self.network = Network(seed)
        self.limits = limits
        self.told = 0
        self.nodes: dict[bytes, Node] = {}
        self.forwarder = self.start()
        self.network.join("hub", lambda _, data: self.hear(decode_envelope(data[LENGTH.size :])))

    def start(self) -> Forwarder:
        self.forwarder = Forwarder(HUB, limits=self.limits)
        self.forwarder.on_topics = self.tell
        for node in self.nodes.values():
            self.forwarder.join(node.id, node, node.filter)
        return self.forwarder

    def tell(self) -> None:
        self.told += 1

    def hear(self, envelope: Envelope) -> None:
        if envelope.sender in self.nodes:
            self.forwarder.hear(envelope.sender, envelope)

    def peer(self, number: int) -> Node:
        node = Node(number, self)
        self.nodes[node.id] = node
        self.forwarder.join(node.id, node, ())
        return node

    def cut(self, node: Node) -> None:
        self.network.cut.add(node.name)
        self.forwarder.leave(node.id)

    def mend(self, node: Node) -> None:
        self.network.cut.discard(node.name)
        self.forwarder.join(node.id, node, node.filter)

    def tick(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            self.forwarder.tick()
            for node in self.nodes.values():
                node.tick()
            self.network.deliver()

    def settle(self, ticks: int = 100) -> None:
        self.network.faults = CALM
        self.tick(ticks)
