"""`Copies`: stores of this hub that follow stores of Zeeks (`zeek.clones`), as clones behind the hub's own forwarder.

```
Zeek's master ◀─▶ forwarder ◀─▶ Copies: one node that nobody sees ◀─▶ Clone ─▶ FollowedStore ─▶ the store of the hub
                                                                         └◀ Writes ◀─ its clients
```

Clients read such a store, watch it, copy it, and write to it like any other: the master at the Zeek does what they ask
for, and they are answered once that has come back. It asks for a master while a Zeek
announces one. Once the master is silent for 50 s, as the Zeek is gone, it looks for one again, and says so to the log:
meanwhile, what was there is there.

Owner: the hub's event loop; `peers.connections.broker_stores` calls `tick`. Not here: what a Zeek may bring
(`peers.connections.broker_stores.StoreEnd`), what a store does (`peers.stores`).
"""

from __future__ import annotations

import uuid
from functools import partial
from itertools import count

from hub.stores.naming import parse_served
from peers.node.node import Node
from peers.zeek.broker.envelope import Envelope, EnvelopeType, decode_envelope
from peers.zeek.broker.handshake_messages import LENGTH, NIL_ID
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import InvalidCommandError, decode_command, entity
from peers.zeek.broker.stores.followed import FollowedStore
from peers.zeek.broker.stores.topics import clone_topic, master_topic
from peers.zeek.broker.stores.writes import Writes

__all__ = ["Copies"]

_NAMESPACE = "copies of data stores"


class Copies:
    """Of one hub; see `peers.zeek.broker.stores.forwarder.End`.

    Args:
        node: The hub.
    """

    __slots__ = ("_by_topic", "_id", "_node", "_objects", "_writes")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._id = uuid.uuid5(uuid.UUID(bytes=node.id), _NAMESPACE).bytes
        """Of the node that stands for this hub behind its forwarder."""
        self._objects = count(node.wall_us() * 1_000)
        """Numbers of its entities: others after each start, as a master may still know those of the last one."""
        self._by_topic: dict[bytes, Clone] = {}
        self._writes: list[Writes] = []

    def open(self) -> None:
        """Follow what the settings name; the stores that do are open."""
        for text in self._node.settings.zeek.clones:
            self._follow(*parse_served(text))
        if self._by_topic:
            topics = [topic.decode() for topic in self._by_topic]
            self._node.zeek_stores.join(self._id, self, topics, is_own=True)
        for clone in self._by_topic.values():
            clone.begin()

    def _follow(self, known: str, name: str) -> None:
        node = self._node
        owner = node.stores.get(name)
        if owner is None:
            raise ValueError(f"{name!r} is no store of this hub")  # the settings were looked over before
        is_announced = partial(node.zeek_stores.is_announced, self._id, master_topic(known))
        writes = Writes(known, owner.store, self._entity, is_announced)
        self._writes.append(writes)
        followed = FollowedStore(owner, lambda: owner.store.entries, partial(self._tell, known, writes), writes.take)
        writes.clone = clone = Clone(
            self._entity,
            followed,
            partial(self._send, master_topic(known)),
            counters=node.zeek_master_counters.channel,
            writes=False,
            resends=False,
            on_settled=writes.settled,
        )
        owner.forward = writes.apply
        self._by_topic[clone_topic(known).encode()] = clone
        node.zeek_copies[known] = (clone, followed)

    def _entity(self) -> bytes:
        return entity(self._id, next(self._objects))

    def _send(self, topic: str, to: bytes, command: bytes) -> None:
        forwarder = self._node.zeek_stores
        if to != NIL_ID or forwarder.is_announced(self._id, topic):  # nobody else is asked for a master
            forwarder.hear(self._id, Envelope(self._id, to, EnvelopeType.COMMAND, topic.encode(), command))

    def _tell(self, known: str, writes: Writes, reason: str) -> None:
        if reason:
            writes.lose(reason)
            self._node.log.warning("a copy of a Zeek's data store follows nobody", store=known, reason=reason)
        else:
            self._node.log.info("a copy of a Zeek's data store follows its master", store=known)

    def tick(self) -> None:
        """Let a tick pass."""
        for clone in self._by_topic.values():
            clone.tick()
        for writes in self._writes:
            writes.tick()

    def close(self) -> None:
        """Follow nobody any more."""
        self._by_topic.clear()
        self._writes.clear()
        self._node.zeek_copies.clear()
        self._node.zeek_stores.leave(self._id)

    # As a peer of the forwarder.

    def deliver(self, frame: bytes) -> bool:
        """See `End`."""
        envelope = decode_envelope(frame[LENGTH.size :])
        clone = self._by_topic.get(envelope.topic)
        if clone is not None:
            try:
                command = decode_command(envelope.payload)
            except InvalidCommandError:
                self._node.zeek_master_counters.unexpected += 1
            else:
                clone.hear(command, len(envelope.payload))
        return True

    def may_say(self, name: str, *, writes: bool) -> bool:  # noqa: ARG002 -- see `End`
        """See `End`: nobody denies the hub anything."""
        return True

    def may_hear(self, name: str) -> bool:  # noqa: ARG002 -- see `End`
        """See `End`."""
        return True

    @property
    def user(self) -> None:
        """See `End`: what clients write is charged to them, before it comes here."""
        return
