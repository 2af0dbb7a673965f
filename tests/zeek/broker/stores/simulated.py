"""A master and some clones at nodes of their own, over a network that does what chance says."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

from hub.errors import StoreError
from hub.stores.command import Change, Command
from peers.values import Count, encode, to_msgpack
from peers.values.layout import Tag
from peers.zeek.broker.messages import NIL_ID
from peers.zeek.broker.stores.channel import ChannelCounters, ChannelLimits
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import Add, Clear, Erase, Put, Subtract, decode_command, entity
from peers.zeek.broker.stores.master import Master, MasterCounters, MasterLimits, Wish, _command_of
from tests.zeek.broker.stores.memory import MemoryOwner
from tests.zeek.broker.stores.network import CALM, Network


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
