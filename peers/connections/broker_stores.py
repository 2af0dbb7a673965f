"""`Stores`, `StoreEnd`: the data stores of Zeeks, as one hub forwards their commands, and as one peering takes part.

Stores of the hub itself that Zeeks may clone are in `peers.connections.broker_masters`, those that follow a Zeek's in
`peers.connections.broker_copies`.

```
StoreCommand ─▶ StoreEnd.hear ─▶ forwarder ─▶ StoreEnd.deliver of another peering ─▶ session, or a queue until it reads
FilterChanged ─▶ StoreEnd.follow ─▶ forwarder ─ on_topics ─▶ every peering announces the topics of the others' stores
```

Commands are put before messages: they are few, and a channel that gets none for 50 s is given up. What a peer does not
read waits in a queue of its own; the newest is dropped when that is full, as the channel sends it again
(`peers.zeek.broker.stores`).

Owner: the hub's event loop. Invariants: a peering takes part while this hub is the gateway of its endpoint; the
forwarder's ticks come while they mean anything. Cost: 5 µs a command. Not here: what is rewritten (`forwarder`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from hub.policy.policy import Action, Rights
from hub.policy.refusal import not_granted
from hub.routes import Route
from peers.connections.broker_copies import Copies
from peers.connections.broker_masters import Masters
from peers.connections.connection import Connection
from peers.node.node import Node
from peers.zeek.broker.envelope import Envelope
from peers.zeek.broker.session import Session
from peers.zeek.broker.stores.channel import TICK_S
from peers.zeek.broker.stores.topics import is_store_topic, store_of

__all__ = ["QUEUE_BYTES", "QUEUE_COMMANDS", "StoreEnd", "Stores"]

QUEUE_COMMANDS: Final = 1024
"""Most commands that wait for one peer that does not read."""

QUEUE_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of these; one that is alone may be as long as a frame."""

_TOLD_REFUSALS = 100
"""Most stores of which the log says that one Zeek may not use them."""

_TOLD_STORES = 20
"""Most stores that one line of the log names."""


def _nothing() -> None:
    """Stand in for whoever announces topics, once nobody does."""


class Stores:
    """Of one hub, between all its Broker peers.

    Args:
        node: The hub.
    """

    __slots__ = ("_announce", "_timer", "copies", "masters", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._announce: set[Callable[[], object]] = set()
        """What each peering that takes part does when it has other topics to announce."""
        self._timer: asyncio.TimerHandle | None = None
        """The next tick; None while nobody needs one."""
        self.masters = Masters(node)
        """The stores of this hub that Zeeks may clone, once they are open."""
        self.copies = Copies(node)
        """Those that follow stores of Zeeks, likewise."""
        node.zeek_stores.on_topics = self._topics_changed

    def open(self) -> None:
        """Serve what the settings name; the stores of the hub are open."""
        self.masters.open()
        self.copies.open()
        self._plan()

    def close(self) -> None:
        """The stores of the hub are about to be closed."""
        self.masters.close()
        self.copies.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def enter(self, announce: Callable[[], object]) -> None:
        """A peering takes part."""
        self._announce.add(announce)

    def _plan(self) -> None:
        if self._timer is None and self.node.zeek_stores.is_needed:
            self._timer = self.node.loop.call_later(TICK_S, self._tick)

    def leave(self, announce: Callable[[], object], peer_id: bytes) -> None:
        """A peering takes part no longer."""
        self._announce.discard(announce)
        self.node.zeek_stores.leave(peer_id)
        self._plan()

    def _topics_changed(self) -> None:
        for announce in tuple(self._announce):
            announce()

    def _tick(self) -> None:
        self._timer = None
        self.node.zeek_stores.tick()
        self.masters.tick()
        self.copies.tick()
        self._plan()


class StoreEnd:
    """One peering; see `peers.zeek.broker.stores.forwarder.End`.

    Args:
        stores: Of the hub.
        connection: Of the peering.
        session: Of the same.
        announce: Called when other topics are to be announced to the far side.
    """

    __slots__ = (
        "_announce",
        "_connection",
        "_is_in",
        "_node",
        "_session",
        "_stores",
        "_told",
        "_topics",
        "_waiting",
        "_waiting_bytes",
    )

    def __init__(
        self, stores: Stores, connection: Connection, session: Session[Route], announce: Callable[[], object]
    ) -> None:
        self._stores = stores
        self._node = stores.node
        self._connection = connection
        self._announce = announce
        self._session = session
        self._is_in = False
        """Whether it takes part."""
        self._topics: tuple[str, ...] = ()
        """Those of stores that the far side has announced."""
        self._told: set[tuple[str, bool]] = set()
        """Of which refusals the log was told."""
        self._waiting: list[bytes] = []
        """Commands for the far side, which does not read."""
        self._waiting_bytes = 0

    # What the far side wants, and says.

    @property
    def topics(self) -> frozenset[str]:
        """The topics of stores that the far side is to be told of."""
        return self._node.zeek_stores.topics_for(self._session.peer_id)

    def follow(self, prefixes: Sequence[str]) -> None:
        """The far side takes part, with this filter."""
        forwarder = self._node.zeek_stores
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
        self._stores.masters.look_at(self._connection.conversation.far_name, prefixes)

    def leave(self) -> None:
        """The far side takes part no longer; once or more."""
        if self._is_in:
            self._is_in = False
            self._topics = ()
            self._stores.leave(self._announce, self._session.peer_id)
        self._forget()

    def conclude(self) -> None:
        """The peering is over: let go of what knows it."""
        self.leave()
        self._announce = _nothing

    def hear(self, envelope: Envelope) -> None:
        """The far side has sent a command."""
        self._node.zeek_stores.hear(envelope.sender, envelope)

    def _log_stores(self) -> None:
        stores = [store for store in map(store_of, self._topics) if store is not None]
        masters = sorted(name for name, is_master in stores if is_master)
        clones = sorted(name for name, is_master in stores if not is_master)
        self._node.log.info(
            "data stores of a Zeek",
            name=self._connection.conversation.far_name,
            masters=masters[:_TOLD_STORES],
            clones=clones[:_TOLD_STORES],
            more=max(0, len(masters) - _TOLD_STORES) + max(0, len(clones) - _TOLD_STORES),
        )

    # What the policy says.

    def may_say(self, name: str, *, writes: bool) -> bool:
        """See `End`: whoever changes a store publishes under its name; to copy it is to subscribe."""
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
        """See `End`: the user whom the connection is charged to, as a client's is."""
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
            self._node.log.warning("a Zeek may not use a data store", address=address, store=name, reason=error.text)
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
        self._node.held.charge(len(frame))
        return True

    def take_waiting(self) -> list[bytes]:
        """Return and forget what waits for the far side."""
        waiting = self._waiting
        self._forget()
        return waiting

    def _forget(self) -> None:
        if self._waiting_bytes:
            self._node.held.charge(-self._waiting_bytes)
            self._waiting_bytes = 0
        self._waiting = []
