"""`Forwarder`: lets masters and clones of different Broker endpoints find each other, with this hub between them.

A Broker endpoint takes a command only from the node that has sent it, and answers that one. So both sides talk to the
hub: it replaces the sender by an alias, and an alias by its entity.

```
clone at P ── sender (P, 7) ──▶ hub ── sender (hub, k) ──▶ master at Q          k stands for (P, 7): an alias
clone at P ◀── receiver (P, 7) ── hub ◀── receiver (hub, k) ── master at Q
```

A command to nil goes to all other peers whose filter covers the topic, one to an alias to the peer of that entity. A
peer gets the topics of stores that others announce, never its own: a restarted master must not take itself for another
one. The hub itself takes part as a peer. Cost: 5 µs a command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from peers.values import InvalidDataError
from peers.values.binary import Budget, read_length, value_end
from peers.zeek.broker.envelopes import UNREAD_BYTES
from peers.zeek.broker.messages import NIL_ID, Envelope, EnvelopeType, encode_envelope
from peers.zeek.broker.stores import command as wire

FORGET_TICKS = 600  # How long entities of a lost peer are known: 60 s, longer than masters wait for clones
_HASH_BYTES = 8
_SNAPSHOT = wire.KINDS[wire.AckClone]
_VALUES = {wire.KINDS[each]: 2 for each in (wire.Put, wire.PutUnique, wire.Add, wire.Subtract)}
_VALUES.update({wire.KINDS[each]: 1 for each in (wire.Erase, wire.Expire)})
"""Number of values that commands of a kind begin with."""
_CHANGING = {*_VALUES, wire.KINDS[wire.Clear], wire.KINDS[wire.AttachWriter]}
_ENTRIES_OFFSET = wire.KIND_OFFSET + 1 + 8 + 2


class ForwarderLimits(NamedTuple):
    """Limits of one peer."""

    entities: int = 1_000
    topics: int = 2_000  # Two for each store
    snapshot_values: int = 500_000  # Most elements and entries of one command that is checked: 0.2 µs each


@dataclass(slots=True)
class ForwarderCounters:
    """Commands since the start: forwarded to at least one peer, or dropped."""

    forwarded: int = 0
    no_subscriber: int = 0  # For all, but without a subscriber
    elsewhere: int = 0  # From a peer that another hub forwards for
    unknown: int = 0  # For an entity that is not known, or whose peer is gone; or from an entity of another peer
    undelivered: int = 0  # For a slow peer. The channel sends them again.
    refused: int = 0  # The policy does not allow a peer to send or to receive them
    invalid: int = 0  # No commands, or with invalid values, too many, or too deep ones
    too_many: int = 0  # From entities over the limit. Topics over the limit count, too.


class End(Protocol):
    """A peer, as the forwarder needs it."""

    def deliver(self, frame: bytes) -> bool:
        """Send an envelope as a frame; return whether it was taken."""

    def may_say(self, name: str, *, writes: bool) -> bool:
        """Return whether it may send a command of a store; `writes`: one that may change it."""

    def may_hear(self, name: str) -> bool: ...
    @property
    def user(self) -> str | None: ...  # charged for its entries


@dataclass(slots=True, eq=False)
class _Peer:
    is_own: bool = False  # the hub itself
    end: End | None = None  # while it is lost
    prefixes: tuple[str, ...] = ()
    topics: frozenset[str] = frozenset()  # of stores, among the prefixes
    entities: set[int] = field(default_factory=set)  # aliases
    lost_tick: int = 0


class Forwarder:
    """Forwards between all peers of one hub; or, without `between_peers`, between each of them and the hub only."""

    def __init__(self, own_id: bytes, *, between_peers: bool = True, limits: ForwarderLimits | None = None) -> None:
        self.own_id = own_id  # Endpoint id of the hub; it may change before any peer has come
        self._between_peers = between_peers
        self.on_topics: Callable[[], object] = lambda: None
        """Called when the topics to be announced to peers have changed."""
        self._limits = limits or ForwarderLimits()
        self._peers: dict[bytes, _Peer] = {}
        self._targets: dict[int, tuple[bytes, bytes]] = {}  # Alias → peer and entity
        self._tick = 0
        self.counters = ForwarderCounters()

    @property
    def entities(self) -> int:
        return len(self._targets)

    @property
    def stores(self) -> int:
        topics = {topic for peer in self._peers.values() for topic in peer.topics}
        return len({wire.store_of(topic) for topic in topics if topic.endswith("master")})

    # Peers.

    @property
    def is_needed(self) -> bool:
        """Whether `tick` must be called: a peer is to be forgotten, or the hub itself takes part."""
        return any(peer.end is None or peer.is_own for peer in self._peers.values())

    def join(self, peer_id: bytes, end: End, prefixes: Iterable[str], *, is_own: bool = False) -> None:
        """A peer has come, with its filter; its entities of before it was lost are known."""
        peer = self._peers.setdefault(peer_id, _Peer())
        peer.end = end
        peer.is_own = is_own
        self.announced(peer_id, prefixes)

    def announced(self, peer_id: bytes, prefixes: Iterable[str]) -> None:
        peer = self._peers[peer_id]
        peer.prefixes = tuple(prefixes)
        topics = [prefix for prefix in peer.prefixes if wire.is_store_topic(prefix)]
        self.counters.too_many += max(0, len(topics) - self._limits.topics)
        self._set_topics(peer, frozenset(topics[: self._limits.topics]))

    def leave(self, peer_id: bytes) -> None:
        peer = self._peers.get(peer_id)
        if peer is not None:
            peer.end = None
            peer.lost_tick = self._tick
            peer.prefixes = ()
            self._set_topics(peer, frozenset())

    def topics_for(self, peer_id: bytes) -> frozenset[str]:
        """Return the topics to be announced to a peer: those of all others."""
        return frozenset().union(*(peer.topics for peer in self._others(peer_id)))

    def is_announced(self, peer_id: bytes, topic: str) -> bool:
        return any(topic in peer.topics for peer in self._others(peer_id))

    def user_of(self, alias: bytes) -> str | None:
        """Return the user who is charged for the entries of an alias."""
        peer_id, _ = self._targets.get(wire.object_of(alias), (NIL_ID, wire.NIL_ENTITY))
        peer = self._peers.get(peer_id)
        return None if peer is None or peer.end is None else peer.end.user

    def _others(self, peer_id: bytes) -> Iterator[_Peer]:
        return (peer for other, peer in self._peers.items() if self._meet(peer_id, other))

    def _meet(self, one: bytes, other: bytes) -> bool:
        if one == other:
            return False
        return self._between_peers or any(each in self._peers and self._peers[each].is_own for each in (one, other))

    def tick(self) -> None:
        """Let a tick pass: forget peers that were lost for long enough."""
        self._tick += 1
        for peer_id in [each for each, peer in self._peers.items() if peer.end is None]:
            peer = self._peers[peer_id]
            if self._tick - peer.lost_tick >= FORGET_TICKS:
                for alias in peer.entities:
                    del self._targets[alias]
                del self._peers[peer_id]

    def _set_topics(self, peer: _Peer, topics: frozenset[str]) -> None:
        if topics != peer.topics:
            peer.topics = topics
            self.on_topics()

    # Commands.

    def hear(self, peer_id: bytes, envelope: Envelope) -> None:
        payload = envelope.payload
        peer = self._peers.get(peer_id)
        if peer is None or peer.end is None:
            self.counters.elsewhere += 1
            return
        store = self._store_of(envelope)
        if store is None:
            self.counters.invalid += 1
            return
        name, to_master = store
        if not peer.end.may_say(name, writes=not to_master or payload[wire.KIND_OFFSET] in _CHANGING):
            self.counters.refused += 1
            return
        sender = payload[wire.SENDER_OFFSET : wire.RECEIVER_OFFSET]
        alias = self._alias(peer_id, sender)
        if alias is None:
            return
        receiver = payload[wire.RECEIVER_OFFSET : wire.KIND_OFFSET]
        if receiver == wire.NIL_ENTITY:
            self._broadcast(peer_id, envelope, name, alias)
        else:
            self._pass_on(peer_id, envelope, name, alias, receiver)

    def _store_of(self, envelope: Envelope) -> tuple[str, bool] | None:
        """Return the store of a command, and whether it is for the master; None if it cannot be passed on.

        Long commands are checked, as values that nest too deep end C++ Broker's process.
        """
        payload = envelope.payload
        try:
            store = wire.store_of(envelope.topic.decode())
            if len(payload) > UNREAD_BYTES:
                self._look_over(payload)
        except (ValueError, IndexError):  # UnicodeDecodeError and InvalidDataError are ValueErrors
            return None
        return store if len(payload) > wire.KIND_OFFSET else None

    def _look_over(self, payload: bytes) -> None:
        """Raise a `ValueError` or an `IndexError` for invalid values, too many, or too deep ones."""
        kind, position = payload[wire.KIND_OFFSET], wire.KIND_OFFSET + 1
        budget = Budget(self._limits.snapshot_values)
        if kind == _SNAPSHOT:
            count, position = read_length(payload, _ENTRIES_OFFSET)
            budget.take(2 * count, position)
            for _ in range(2 * count):
                position = value_end(payload, position, budget)
            if position != len(payload):
                raise InvalidDataError("something follows the entries")
        for _ in range(_VALUES.get(kind, 0)):
            position = value_end(payload, position, budget)

    def _alias(self, peer_id: bytes, sender: bytes) -> bytes | None:
        """Return the alias of an entity; None if it is of another peer, or one too many."""
        if wire.node_of(sender) != peer_id:
            self.counters.unknown += 1
            return None
        digest = hashlib.blake2b(sender, digest_size=_HASH_BYTES, key=self.own_id).digest()
        number = int.from_bytes(digest, "big")
        known = self._targets.get(number)
        if known is None:
            peer = self._peers[peer_id]
            if len(peer.entities) >= self._limits.entities:
                self.counters.too_many += 1
                return None
            peer.entities.add(number)
            self._targets[number] = (peer_id, sender)
        elif known[1] != sender:  # two of the same hash
            self.counters.too_many += 1
            return None
        return wire.entity(self.own_id, number)

    def _broadcast(self, peer_id: bytes, envelope: Envelope, name: str, alias: bytes) -> None:
        topic = envelope.topic.decode()
        frame = self._frame(envelope, NIL_ID, alias, wire.NIL_ENTITY)
        heard = [
            peer.end
            for peer in self._others(peer_id)
            if peer.end is not None and any(map(topic.startswith, peer.prefixes))
        ]
        self.counters.no_subscriber += not heard
        self.counters.forwarded += sum([self._deliver(end, name, frame) for end in heard]) > 0

    def _pass_on(self, peer_id: bytes, envelope: Envelope, name: str, alias: bytes, receiver: bytes) -> None:
        target = self._targets.get(wire.object_of(receiver)) if wire.node_of(receiver) == self.own_id else None
        node, found = target or (NIL_ID, wire.NIL_ENTITY)
        end = self._peers[node].end if node in self._peers and self._meet(peer_id, node) else None
        if end is None:
            self.counters.unknown += 1
            return
        to = node if envelope.receiver == self.own_id else NIL_ID
        self.counters.forwarded += self._deliver(end, name, self._frame(envelope, to, alias, found))

    def _deliver(self, end: End, name: str, frame: bytes) -> bool:
        if not end.may_hear(name):
            self.counters.refused += 1
            return False
        if not end.deliver(frame):
            self.counters.undelivered += 1
            return False
        return True

    def _frame(self, envelope: Envelope, to: bytes, alias: bytes, receiver: bytes) -> bytes:
        payload = envelope.payload
        rewritten = payload[: wire.SENDER_OFFSET] + alias + receiver + payload[wire.KIND_OFFSET :]
        return encode_envelope(Envelope(self.own_id, to, EnvelopeType.COMMAND, envelope.topic, rewritten))
