"""`Masters`: stores of this hub that Zeeks may clone (`zeek.masters`), as masters behind the hub's own forwarder.

```
Zeek's clone ◀─▶ forwarder ◀─▶ Masters: one node that nobody sees ◀─▶ Master ◀─▶ HubStore ◀─▶ the store of the hub
```

The forwarder knows this as one more peer, which announces the topics of its masters: so a clone at a Zeek cannot tell a
store of the hub from one at another Zeek, and a Zeek that would be the master of such a store is told `master_exists`.

A clone of C++ Broker follows one entity, at one endpoint, for as long as it lives. So a store that is kept in a file
keeps there which entity its master is, and under which numbers clones were told of what (`ledger`); and the first one
that the settings name keeps the hub's endpoint id. After a restart the clones find the master that they knew, and go on
where they were. A store in memory forgets all of that. Where the hub is the same endpoint again, as another store is in
a file, its master is the same entity, with numbers behind all that were told before (`reserved`, noted in that file):
so clones hear that everything is gone, and of all that comes. Where no store is in a file, C++ clones that were
attached before must be started again, as with Broker's own masters.

Owner: the hub's event loop; `peers.connections.broker_stores` calls `tick`. Not here: who may write
(`peers.connections.broker_stores.StoreEnd`), what a store does (`peers.stores`).
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from functools import partial

from hub.errors import HubError, StoreError
from hub.stores.change import Change
from hub.stores.naming import parse_served
from peers.node.node import Node
from peers.stores.master import Master as Owner
from peers.zeek.broker.envelope import Envelope, EnvelopeType, decode_envelope
from peers.zeek.broker.handshake_messages import ID_BYTES, LENGTH
from peers.zeek.broker.stores.command import InvalidCommandError, decode_command, entity
from peers.zeek.broker.stores.ledger import Ledger
from peers.zeek.broker.stores.master import Master, MasterLimits
from peers.zeek.broker.stores.reserved import Reserved
from peers.zeek.broker.stores.served import HubStore
from peers.zeek.broker.stores.topics import announces_master, clone_topic, master_topic

__all__ = ["Masters"]

_NAMESPACE = "data stores"

_TOLD_REFUSALS = 100
"""Most stores and users of which the log says that something was refused; all are counted."""

_NUMBERS = "zeek numbers "
"""With the name of a store in memory, the note of up to which number its clones may have been told something."""

_ENDPOINT = "zeek endpoint"
"""The note of the hub's endpoint id."""


class Masters:
    """Of one hub; see `peers.zeek.broker.stores.forwarder.End`.

    Args:
        node: The hub.
    """

    __slots__ = (
        "_by_topic",
        "_id",
        "_listening",
        "_node",
        "_noting",
        "_refused",
        "_reserved",
        "_told",
        "_waiting",
    )

    def __init__(self, node: Node) -> None:
        self._node = node
        self._id = b""
        """Of the node that stands for this hub behind its forwarder, once it is known."""
        self._by_topic: dict[bytes, Master] = {}
        self._noting: Owner | None = None
        """The store in whose file the endpoint id is, and what stores in memory must know after a restart."""
        self._reserved: list[tuple[Reserved, Ledger]] = []
        """Of stores in memory."""
        self._waiting: set[bytes] = set()
        """Topics of masters that hear nobody yet: their numbers are not noted."""
        self._listening: list[Callable[[], object]] = []
        """Each ends that a master is told of the changes of its store."""
        self._told: set[str] = set()
        """Of which stores the log was told that a Zeek has a master, too."""
        self._refused: set[tuple[str, str | None]] = set()
        """Of which stores and users the log was told that a write was refused."""

    def open(self) -> None:
        """Serve the stores that the settings name; those must be open, and no Zeek may have come."""
        node = self._node
        node.zeek_stores.own_id = self._endpoint_id()
        self._id = uuid.uuid5(uuid.UUID(bytes=node.zeek_stores.own_id), _NAMESPACE).bytes
        for number, text in enumerate(node.settings.zeek.masters):
            self._serve(*parse_served(text), number)
        if self._by_topic:
            node.zeek_stores.join(self._id, self, [topic.decode() for topic in self._by_topic], is_own=True)

    def _endpoint_id(self) -> bytes:
        """Return the hub's endpoint id, as the stores know it; if none of them does, let them know it."""
        kept = [owner for owner in self._node.stores if owner.notes is not None]
        noted = [(owner.notes or {}).get(_ENDPOINT, b"") for owner in kept]
        self._noting = kept[0] if kept else None
        endpoint_id = next((each for each in noted if len(each) == ID_BYTES and any(each)), self._node.id)
        for owner, known in zip(kept, noted, strict=True):
            if known != endpoint_id:
                owner.apply([], _ignore, note=lambda _: {_ENDPOINT: endpoint_id})
        return endpoint_id

    def _ledger(self, known: str, owner: Owner, new_object: int) -> Ledger | None:
        if owner.notes is None:
            return None if self._noting is None else self._ledger_in_memory(known, owner, self._noting)
        ledger = Ledger(known, owner.notes, lambda: owner.store.number, new_object, is_certain=owner.is_certain)
        owner.apply([], _ignore, note=lambda _: ledger.begin())
        return ledger

    def _ledger_in_memory(self, known: str, owner: Owner, noting: Owner) -> Ledger:
        name, topic = _NUMBERS + known, master_topic(known).encode()

        def hear(error: HubError | None) -> None:
            if error is None:
                self._waiting.discard(topic)
            else:
                noting.when_kept(hear)

        reserved = Reserved(
            (noting.notes or {}).get(name, b""), lambda note: noting.apply([], _ignore, note=lambda _: {name: note})
        )
        ledger = Ledger(known, {}, lambda: owner.store.number, _lasting_object(known), began=reserved.began)
        self._reserved.append((reserved, ledger))
        self._waiting.add(topic)
        noting.when_kept(hear)
        return ledger

    def _serve(self, known: str, name: str, number: int) -> None:
        node = self._node
        owner = node.stores.get(name)
        if owner is None:
            raise ValueError(f"{name!r} is no store of this hub")  # the settings were looked over before
        new_object = node.wall_us() * 1_000 + number
        ledger = self._ledger(known, owner, new_object)
        own = entity(self._id, new_object if ledger is None else ledger.object)
        store = HubStore(
            own,
            owner,
            owner.store,
            lambda: node.wall_us() * 1_000,
            ledger,
            user_of=node.zeek_stores.user_of,
            on_refused=partial(self._log_refusal, known),
        )
        topic = clone_topic(known).encode()
        limits = MasterLimits(snapshot_bytes=node.settings.limits.frame_bytes)
        history = None if ledger is None else store
        send, counters = partial(self._send, topic), node.zeek_master_counters
        master = Master(own, store, send, limits=limits, counters=counters, history=history)
        self._by_topic[master_topic(known).encode()] = master
        node.zeek_masters[known] = (master, store)
        listener = partial(self._tell, master, store, ledger)
        owner.listeners.append(listener)
        self._listening.append(partial(owner.listeners.remove, listener))
        if ledger is not None:
            owner.noters.append(store.note)

    def _send(self, topic: bytes, to: bytes, command: bytes) -> None:
        self._node.zeek_stores.hear(self._id, Envelope(self._id, to, EnvelopeType.COMMAND, topic, command))

    def _tell(self, master: Master, store: HubStore, ledger: Ledger | None, changes: Sequence[Change]) -> None:
        for reserved, known in self._reserved:
            if known is ledger:
                reserved.reach(known.last)
        for change in changes:
            number = 0 if ledger is None else ledger.number_of(change.number)
            for told in store.told((change,)):
                master.changed(told, number)

    def tick(self) -> None:
        """Let a tick pass."""
        for reserved, ledger in self._reserved:
            reserved.reach(ledger.last)
        for master in self._by_topic.values():
            master.tick()

    def close(self) -> None:
        """Serve nothing any more."""
        for end in self._listening:
            end()
        self._listening.clear()
        self._by_topic.clear()
        self._reserved.clear()
        self._node.zeek_masters.clear()
        self._node.zeek_stores.leave(self._id)

    def _log_refusal(self, known: str, user: str | None, reason: str) -> None:
        """Tell the log why a store has not taken what a Zeek has written, which is not told; of each user once."""
        refused = (known, user)
        if refused not in self._refused and len(self._refused) < _TOLD_REFUSALS:
            self._refused.add(refused)
            log = self._node.log
            log.warning("a store has not taken what a Zeek has written", store=known, user=user or "", reason=reason)

    def look_at(self, name: str, prefixes: Sequence[str]) -> None:
        """Tell the log if a Zeek says that it has a master of a store that is served here; of each store once."""
        for known in self._node.zeek_masters:
            if known not in self._told and announces_master(prefixes, known):
                self._told.add(known)
                self._node.log.warning(
                    "a Zeek has a master of a store that this hub has, too, or asks for what covers its topic",
                    name=name,
                    store=known,
                )

    # As a peer of the forwarder.

    def deliver(self, frame: bytes) -> bool:
        """See `End`."""
        envelope = decode_envelope(frame[LENGTH.size :])
        master = self._by_topic.get(envelope.topic)
        if master is not None and envelope.topic not in self._waiting:
            try:
                command = decode_command(envelope.payload)
            except InvalidCommandError:
                self._node.zeek_master_counters.unexpected += 1
            else:
                master.hear(command, len(envelope.payload))
        return True

    def may_say(self, name: str, *, writes: bool) -> bool:  # noqa: ARG002 -- see `End`
        """See `End`: nobody denies the hub anything."""
        return True

    def may_hear(self, name: str) -> bool:  # noqa: ARG002 -- see `End`
        """See `End`."""
        return True

    @property
    def user(self) -> None:
        """See `End`: what the hub tells is charged to those who have written it."""
        return


def _lasting_object(known: str) -> int:
    """Return the number of an entity that is the same after each start."""
    return int.from_bytes(hashlib.blake2b(known.encode(), digest_size=8).digest(), "big")


def _ignore(_: list[Change | StoreError | None], __: HubError | None) -> None:
    """Stand in where nobody waits for what has become of it."""
