"""`Peerings`: all connections of a hub to Broker endpoints, with their registry, and the hub's data stores for Zeeks.

```
a peering ─▶ BrokerConversation ─▶ Forwarder ─▶ BrokerConversation.deliver of another peering
                                       ├─▶ Master: a store of this hub that Zeeks may clone (`zeek.masters`)
                                       └─▶ Clone: a store of this hub that follows a Zeek's (`zeek.clones`)
```

The forwarder knows the hub's masters as one more peer, and its clones as another. A C++ clone follows one entity at one
endpoint for as long as it lives, so stores in files keep the hub's endpoint id.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from hub.errors import CloseCode
from hub.messages.batch import Batch
from hub.statistics.events import PeerCodes, peer_status
from hub.stores.command import parse_served
from peers.server.server import Server
from peers.stores.master import Master as Owner
from peers.values import from_msgpack
from peers.values.forms import Form, Made
from peers.zeek.broker.envelopes import data_envelopes
from peers.zeek.broker.messages import ID_BYTES, LENGTH, NIL_ID, BrokerCode, Envelope, EnvelopeType, decode_envelope
from peers.zeek.broker.stores.channel import TICK_S
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import (
    InvalidCommandError,
    announces_master,
    clone_topic,
    decode_command,
    entity,
    master_topic,
)
from peers.zeek.broker.stores.master import Master, MasterLimits

if TYPE_CHECKING:
    from peers.connections.broker import BrokerConversation

_LOGGED_REFUSALS = 100  # most stores, and users, whose rejections are logged; all are counted

_ENDPOINT = "zeek endpoint"


class Registry:
    """Connections by the id of the far endpoint; it decides which of two connections to one endpoint stays."""

    def __init__(self) -> None:
        self._holders: dict[bytes, BrokerConversation] = {}  # endpoint → connection in its handshake, or peered
        self._waiting: dict[bytes, list[BrokerConversation]] = {}  # endpoint in its handshake → other connections to it

    def __len__(self) -> int:
        return len(self._holders) - len(self._waiting)

    def __contains__(self, endpoint_id: bytes) -> bool:
        return endpoint_id in self._holders and endpoint_id not in self._waiting

    def claim(self, endpoint_id: bytes, claimant: BrokerConversation) -> None:
        """Ask to become the peering with an endpoint: the claimant goes on, waits, or gives way.

        Every claimant must be given to `release` in the end.
        """
        if endpoint_id not in self._holders:
            self._holders[endpoint_id] = claimant
            self._waiting[endpoint_id] = []
        if self._holders[endpoint_id] is claimant:
            claimant.proceed()
        elif endpoint_id in self._waiting:
            self._waiting[endpoint_id].append(claimant)
        else:
            claimant.give_way()

    def settle(self, endpoint_id: bytes) -> None:
        for other in self._waiting.pop(endpoint_id, []):
            other.give_way()

    def release(self, endpoint_id: bytes, claimant: BrokerConversation) -> None:
        """Forget a connection that is over; harmless if it neither was the holder nor waited."""
        waiting = self._waiting.get(endpoint_id, [])
        if self._holders.get(endpoint_id) is not claimant:
            if claimant in waiting:
                waiting.remove(claimant)
        elif waiting:
            holder = self._holders[endpoint_id] = waiting.pop(0)
            holder.proceed()
        else:
            del self._holders[endpoint_id]
            self._waiting.pop(endpoint_id, None)


class _OwnEnd:
    """The stores of this hub as a peer with an id that no Zeek sees. See `peers.zeek.broker.stores.forwarder.End`."""

    user = None

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self.id = b""
        self.by_topic: dict[bytes, Master | Clone] = {}

    def set_id(self, endpoint_id: bytes) -> None:
        self.id = uuid.uuid5(uuid.UUID(bytes=endpoint_id), self._namespace).bytes

    def join(self) -> None:
        if self.by_topic:
            self._server.zeek.forwarder.join(self.id, self, [topic.decode() for topic in self.by_topic], is_own=True)

    def send(self, topic: str, to: bytes, command: bytes) -> None:
        self._server.zeek.forwarder.hear(self.id, Envelope(self.id, to, EnvelopeType.COMMAND, topic.encode(), command))

    def tick(self) -> None:
        for end in self.by_topic.values():
            end.tick()

    def close(self) -> None:
        self.by_topic.clear()
        self._server.zeek.forwarder.leave(self.id)

    def deliver(self, frame: bytes) -> bool:
        envelope = decode_envelope(frame[LENGTH.size :])
        end = self.by_topic.get(envelope.topic)
        if end is not None:
            try:
                command = decode_command(envelope.payload)
            except InvalidCommandError:
                self._server.zeek.master_counters.unexpected += 1
            else:
                end.hear(command, len(envelope.payload))
        return True

    def may_say(self, name: str, *, writes: bool) -> bool:  # noqa: ARG002 -- see `End`
        return True

    def may_hear(self, name: str) -> bool:  # noqa: ARG002 -- see `End`
        return True


class Stores:
    """Data stores between all Broker peers of one hub."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._announce: set[Callable[[], object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._masters = _OwnEnd(server, "data stores")
        self._clones = _OwnEnd(server, "copies of data stores")
        self._objects = count(server.wall_us() * 1_000)
        """Numbers of entities: others after each start, as a Zeek may still know those of the last one."""
        self._held_bytes = 0  # bytes that masters hold for their clones, as they were charged last
        self._logged_stores: set[str] = set()
        self._logged_refusals: set[tuple[str, str | None]] = set()
        server.zeek.forwarder.on_topics = self._topics_changed

    def open(self) -> None:
        server = self.server
        server.zeek.forwarder.own_id = self._endpoint_id()
        self._masters.set_id(server.zeek.forwarder.own_id)
        for text in server.settings.zeek.masters:
            self._serve(*parse_served(text))
        self._masters.join()
        self._clones.set_id(server.id)
        for text in server.settings.zeek.clones:
            self._follow(*parse_served(text))
        self._clones.join()
        for clone in server.zeek.copies.values():
            clone.begin()
        self._plan()

    def close(self) -> None:
        for master in self.server.zeek.masters.values():
            master.close()
        self.server.zeek.masters.clear()
        self._charge()
        self.server.zeek.copies.clear()
        self._masters.close()
        self._clones.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _owner(self, name: str) -> Owner:
        owner = self.server.stores.get(name)
        if owner is None:
            raise ValueError(f"{name!r} is not a store of this hub")  # the settings were looked over before
        return owner

    def _endpoint_id(self) -> bytes:
        """Return the hub's endpoint id from the stores in files; if none has it, write it there."""
        kept = [owner for owner in self.server.stores if owner.notes is not None]
        noted = [(owner.notes or {}).get(_ENDPOINT, b"") for owner in kept]
        endpoint_id = next((each for each in noted if len(each) == ID_BYTES and any(each)), self.server.id)
        for owner, known in zip(kept, noted, strict=True):
            if known != endpoint_id:
                owner.apply([], lambda _, __: None, note=lambda _: {_ENDPOINT: endpoint_id})
        return endpoint_id

    def _serve(self, known: str, name: str) -> None:
        server = self.server
        master = Master(
            known,
            self._masters.id,
            next(self._objects),
            self._owner(name),
            partial(self._masters.send, clone_topic(known)),
            now_ns=lambda: server.wall_us() * 1_000,
            limits=MasterLimits(snapshot_bytes=server.settings.limits.frame_bytes),
            counters=server.zeek.master_counters,
            user_of=server.zeek.forwarder.user_of,
            on_refused=partial(self._log_refusal, known),
        )
        self._masters.by_topic[master_topic(known).encode()] = server.zeek.masters[known] = master

    def _follow(self, known: str, name: str) -> None:
        server = self.server
        owner = self._owner(name)
        topic = master_topic(known)
        is_announced = partial(server.zeek.forwarder.is_announced, self._clones.id, topic)

        def send(to: bytes, command: bytes) -> None:
            if to != NIL_ID or is_announced():  # no other Zeek is asked for a master
                self._clones.send(topic, to, command)

        clone = Clone(
            known,
            owner,
            lambda: entity(self._clones.id, next(self._objects)),
            send,
            partial(self._log_state, known),
            is_announced=is_announced,
            counters=server.zeek.master_counters.channel,
        )
        owner.forward = clone.apply
        self._clones.by_topic[clone_topic(known).encode()] = server.zeek.copies[known] = clone

    def _log_state(self, known: str, reason: str) -> None:
        if reason:
            self.server.log.warning("a copy of a Zeek's data store follows no master", store=known, reason=reason)
        else:
            self.server.log.info("a copy of a Zeek's data store follows its master", store=known)

    def _log_refusal(self, known: str, user: str | None, reason: str) -> None:
        """Log why a store has rejected a Zeek's write, which gets no answer; once for each user."""
        refused = (known, user)
        if refused not in self._logged_refusals and len(self._logged_refusals) < _LOGGED_REFUSALS:
            self._logged_refusals.add(refused)
            log = self.server.log
            log.warning("a store rejected a command of a Zeek", store=known, user=user or "", reason=reason)

    def look_at(self, name: str, prefixes: Sequence[str]) -> None:
        for known in self.server.zeek.masters:
            if known not in self._logged_stores and announces_master(prefixes, known):
                self._logged_stores.add(known)
                text = "a Zeek has a master of a store that this hub has, too, or subscribes to its topic"
                self.server.log.warning(text, name=name, store=known)

    def enter(self, announce: Callable[[], object]) -> None:
        self._announce.add(announce)

    def _plan(self) -> None:
        if self._timer is None and self.server.zeek.forwarder.is_needed:
            self._timer = self.server.loop.call_later(TICK_S, self._tick)

    def leave(self, announce: Callable[[], object], peer_id: bytes) -> None:
        self._announce.discard(announce)
        self.server.zeek.forwarder.leave(peer_id)
        self._plan()

    def _topics_changed(self) -> None:
        for announce in tuple(self._announce):
            announce()

    def _charge(self) -> None:
        held_bytes = sum(master.log_bytes for master in self.server.zeek.masters.values())
        self.server.held.charge(held_bytes - self._held_bytes)
        self._held_bytes = held_bytes

    def _tick(self) -> None:
        self._timer = None
        self.server.zeek.forwarder.tick()
        self._masters.tick()
        self._clones.tick()
        self._charge()
        self._plan()


_PEER_ADDED, _PEER_REMOVED, _PEER_LOST = 1, 2, 3  # broker's status codes


def endpoint_text(endpoint_id: bytes) -> str:
    return str(uuid.UUID(bytes=endpoint_id)) if any(endpoint_id) else ""


class Peerings:
    """The Zeek side of a hub."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.registry = Registry()
        self.stores = Stores(server)

    @property
    def own_id(self) -> bytes:
        return self.server.zeek.forwarder.own_id

    def form(self, _: Batch) -> Form:
        return Form(self._make)

    def _make(self, batch: Batch) -> Made:
        return data_envelopes(batch, self.own_id, from_msgpack)

    def fail_tls(self, address: str, reason: str) -> None:
        self.server.zeek.tls_failures += 1
        self.server.log.warning("TLS handshake with a Zeek failed", address=address, reason=reason)

    def added(self, endpoint_id: bytes, address: str) -> None:
        self._announce("added", endpoint_id, address, "handshake successful", PeerCodes(0, "peer_added", _PEER_ADDED))

    def removed(self, endpoint_id: bytes, address: str, reason: str, code: int) -> None:
        self._announce("removed", endpoint_id, address, reason, PeerCodes(code, "peer_removed", _PEER_REMOVED))

    def lost(self, endpoint_id: bytes, address: str, reason: str) -> None:
        codes = PeerCodes(CloseCode.GOING_AWAY, "peer_lost", _PEER_LOST)
        self._announce("lost", endpoint_id, address, reason, codes)

    def unavailable(self, endpoint_id: bytes, address: str, reason: str) -> None:
        codes = PeerCodes(CloseCode.TRY_AGAIN_LATER, "peer_unavailable", BrokerCode.PEER_UNAVAILABLE)
        self._announce("unavailable", endpoint_id, address, reason, codes)

    def _announce(self, change: str, endpoint_id: bytes, address: str, reason: str, codes: PeerCodes) -> None:
        self.server.core.system_events.announce(peer_status(change, endpoint_text(endpoint_id), address, reason, codes))
