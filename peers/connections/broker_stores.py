"""`Stores`, `StoreEnd`: forwarding of data stores between Zeeks, and the stores of this hub that take part.

```
a peering ─▶ StoreEnd.hear ─▶ Forwarder ─▶ StoreEnd.deliver of another peering ─▶ session, or a queue until it reads
                                  ├─▶ Master: a store of this hub that Zeeks may clone (`zeek.masters`)
                                  └─▶ Clone: a store of this hub that follows a Zeek's (`zeek.clones`)
```

The forwarder knows the hub's masters as one more peer, and its clones as another. A C++ clone follows one entity at one
endpoint for as long as it lives, so stores in files keep the hub's endpoint id. Commands are written before messages:
they are few, and a channel without any for 50 s is given up. The newest command for a slow peer is dropped when its
queue is full, as the channel sends it again. A peering takes part while this hub is the gateway of its endpoint.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Final

from hub.policy.policy import Action, Rights, not_granted
from hub.routing.routes import Route
from hub.stores.command import parse_served
from peers.connections.connection import Connection
from peers.server.server import Server
from peers.stores.master import Master as Owner
from peers.zeek.broker.messages import ID_BYTES, LENGTH, NIL_ID, Envelope, EnvelopeType, decode_envelope
from peers.zeek.broker.session import Session
from peers.zeek.broker.stores.channel import TICK_S
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import (
    InvalidCommandError,
    announces_master,
    clone_topic,
    decode_command,
    entity,
    is_store_topic,
    master_topic,
    store_of,
)
from peers.zeek.broker.stores.master import Master, MasterLimits

QUEUE_COMMANDS: Final = 1024
"""Most commands that wait for one slow peer."""

QUEUE_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of these; a single one may be as long as a frame."""

_TOLD_REFUSALS = 100
"""Most stores, and users, whose rejections are logged; all are counted."""

_TOLD_STORES = 20
"""Most stores that one line of the log names."""

_ENDPOINT = "zeek endpoint"


class _OwnEnd:
    """The stores of this hub as a peer with an id that no Zeek sees. See `peers.zeek.broker.stores.forwarder.End`."""

    user = None

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self.id = b""
        self.by_topic: dict[bytes, Master | Clone] = {}

    def set_id(self, endpoint_id: bytes) -> None:
        """Derive the id from that of the hub."""
        self.id = uuid.uuid5(uuid.UUID(bytes=endpoint_id), self._namespace).bytes

    def join(self) -> None:
        """Take part, if there are any stores."""
        if self.by_topic:
            self._server.zeek.forwarder.join(self.id, self, [topic.decode() for topic in self.by_topic], is_own=True)

    def send(self, topic: str, to: bytes, command: bytes) -> None:
        self._server.zeek.forwarder.hear(self.id, Envelope(self.id, to, EnvelopeType.COMMAND, topic.encode(), command))

    def tick(self) -> None:
        for end in self.by_topic.values():
            end.tick()

    def close(self) -> None:
        """Take part no more."""
        self.by_topic.clear()
        self._server.zeek.forwarder.leave(self.id)

    def deliver(self, frame: bytes) -> bool:
        """See `End`."""
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
        """See `End`: nothing is denied to the hub."""
        return True

    def may_hear(self, name: str) -> bool:  # noqa: ARG002 -- see `End`
        """See `End`."""
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
        self._held_bytes = 0
        """Bytes that masters hold for their clones, as they were charged last."""
        self._told: set[str] = set()
        self._refused: set[tuple[str, str | None]] = set()
        server.zeek.forwarder.on_topics = self._topics_changed

    def open(self) -> None:
        """Serve the stores of the settings; the stores of the hub are open, and no Zeek has come."""
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
        """The stores of the hub are about to be closed."""
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
            raise ValueError(f"{name!r} is no store of this hub")  # the settings were looked over before
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
            self.server.log.warning("a copy of a Zeek's data store follows nobody", store=known, reason=reason)
        else:
            self.server.log.info("a copy of a Zeek's data store follows its master", store=known)

    def _log_refusal(self, known: str, user: str | None, reason: str) -> None:
        """Log why a store has rejected a Zeek's write, which gets no answer; once for each user."""
        refused = (known, user)
        if refused not in self._refused and len(self._refused) < _TOLD_REFUSALS:
            self._refused.add(refused)
            log = self.server.log
            log.warning("a store has not taken what a Zeek has written", store=known, user=user or "", reason=reason)

    def look_at(self, name: str, prefixes: Sequence[str]) -> None:
        """Log if a Zeek has a master of a store that is served here; once for each store."""
        for known in self.server.zeek.masters:
            if known not in self._told and announces_master(prefixes, known):
                self._told.add(known)
                text = "a Zeek has a master of a store that this hub has, too, or asks for what covers its topic"
                self.server.log.warning(text, name=name, store=known)

    def enter(self, announce: Callable[[], object]) -> None:
        """A peering takes part."""
        self._announce.add(announce)

    def _plan(self) -> None:
        if self._timer is None and self.server.zeek.forwarder.is_needed:
            self._timer = self.server.loop.call_later(TICK_S, self._tick)

    def leave(self, announce: Callable[[], object], peer_id: bytes) -> None:
        """A peering takes part no longer."""
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


class StoreEnd:
    """One peering; see `peers.zeek.broker.stores.forwarder.End`.

    Args:
        stores: Of the hub.
        connection: Of the peering.
        session: Of the same.
        announce: Called when other topics are to be announced to the far side.
    """

    def __init__(
        self, stores: Stores, connection: Connection, session: Session[Route], announce: Callable[[], object]
    ) -> None:
        self._stores = stores
        self._server = stores.server
        self._connection = connection
        self._announce = announce
        self._session = session
        self._is_in = False
        self._topics: tuple[str, ...] = ()
        self._told: set[tuple[str, bool]] = set()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    # What the far side wants, and says.

    @property
    def topics(self) -> frozenset[str]:
        """The topics of stores to announce to the far side."""
        return self._server.zeek.forwarder.topics_for(self._session.peer_id)

    def follow(self, prefixes: Sequence[str]) -> None:
        """The far side takes part, with this filter."""
        forwarder = self._server.zeek.forwarder
        peer_id = self._session.peer_id
        if self._is_in:
            forwarder.announced(peer_id, prefixes)
        else:
            self._is_in = True
            forwarder.join(peer_id, self, prefixes)
            self._stores.enter(self._announce)
        topics = tuple(filter(is_store_topic, prefixes))
        if topics != self._topics:
            self._topics = topics
            self._log_stores()
        self._stores.look_at(self._connection.conversation.far_name, prefixes)

    def leave(self) -> None:
        """The far side takes part no longer; may be called several times."""
        if self._is_in:
            self._is_in = False
            self._topics = ()
            self._stores.leave(self._announce, self._session.peer_id)
        self._forget()

    def conclude(self) -> None:
        """Drop references."""
        self.leave()
        self._announce = lambda: None

    def hear(self, envelope: Envelope) -> None:
        """The far side has sent a command."""
        self._server.zeek.forwarder.hear(envelope.sender, envelope)

    def _log_stores(self) -> None:
        stores = [store for store in map(store_of, self._topics) if store is not None]
        masters = sorted(name for name, is_master in stores if is_master)
        clones = sorted(name for name, is_master in stores if not is_master)
        self._server.log.info(
            "data stores of a Zeek",
            name=self._connection.conversation.far_name,
            masters=masters[:_TOLD_STORES],
            clones=clones[:_TOLD_STORES],
            more=max(0, len(masters) - _TOLD_STORES) + max(0, len(clones) - _TOLD_STORES),
        )

    # What the policy says.

    def may_say(self, name: str, *, writes: bool) -> bool:
        """See `End`: writing a store is publishing under its name; copying it is subscribing."""
        handler = self._connection.handler
        if handler is None:
            return False
        return self._may(
            handler.rights, handler.acts.publishing if writes else handler.acts.seeing, name, writes=writes
        )

    def may_hear(self, name: str) -> bool:
        """See `End`."""
        handler = self._connection.handler
        return handler is not None and self._may(handler.rights, handler.acts.seeing, name, writes=False)

    @property
    def user(self) -> str | None:
        """See `End`: the user whom the connection is charged to."""
        handler = self._connection.handler
        return None if handler is None or handler.rights is None else handler.rights.user.name

    def _may(self, rights: Rights | None, action: Action, name: str, *, writes: bool) -> bool:
        if rights is None or rights.may(action, name):
            return True
        refused = (name, writes)
        if refused not in self._told and len(self._told) < _TOLD_REFUSALS:
            self._told.add(refused)
            error = not_granted(rights, action, name)
            address = self._connection.address
            self._server.log.warning("a Zeek may not use a data store", address=address, store=name, reason=error.text)
        return False

    # What is for the far side.

    def deliver(self, frame: bytes) -> bool:
        """See `End`: write a command after this turn, or let it wait; False if there is no room."""
        connection = self._connection
        handler = connection.handler
        if handler is None or self._session.closed or connection.transport.is_closing():
            return False
        if handler.writable and not self._waiting:
            self._session.send(frame)
            connection.write_later()
            return True
        is_full = len(self._waiting) >= QUEUE_COMMANDS or self._waiting_bytes + len(frame) > QUEUE_BYTES
        if self._waiting and is_full:
            return False
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        self._server.held.charge(len(frame))
        return True

    def take_waiting(self) -> list[bytes]:
        """Return and forget the commands that wait for the far side."""
        waiting = self._waiting
        self._forget()
        return waiting

    def _forget(self) -> None:
        if self._waiting_bytes:
            self._server.held.charge(-self._waiting_bytes)
            self._waiting_bytes = 0
        self._waiting = []
