"""`Master`: the end of a store that its clones at Broker endpoints copy, and whose wishes it grants.

```
clone ── nack [0] ───────▶ producer ── the whole content, then each change ─▶ all clones
clone ── attach_writer ──▶ consumer, one for each clone that writes ── wishes in order ─▶ store.apply
                                                                   store's owner ── changed ─▶ producer
```

The store behind it may be changed by others, too: whoever changes it says so by `changed`. So what a clone wishes comes
back to it, and to all others, as what has become of it: an addition as the new whole value.

Two things are better than in Broker. A clone that was removed, since it was silent or slow, is told at its next sign of
life that something will never come, so that it begins anew rather than going stale unnoticed. And a writer that is not
known (any more) is asked for its handshake.

Owner: the connections of one hub, which call `tick` each 100 ms. Limits: clones, writers, what is buffered for them
(`ChannelLimits`), the bytes of one snapshot (it must fit into one frame, as there is no way to split it), and those of
all snapshots that are not acknowledged yet. Cost: a broadcast is encoded once. No I/O, no clock. Not here: values and
arithmetic (the store), topics and envelopes (its owner).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from peers.zeek.broker.stores.channel import HEARTBEAT_TICKS, SILENT_TICKS, ChannelCounters, ChannelLimits
from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    AckClone,
    Action,
    Add,
    AttachWriter,
    Clear,
    Command,
    CumulativeAck,
    Erase,
    Expire,
    Keepalive,
    Nack,
    Put,
    PutUnique,
    PutUniqueResult,
    RetransmitFailed,
    Subtract,
    encode_command,
    node_of,
)
from peers.zeek.broker.stores.consumer import Consumer
from peers.zeek.broker.stores.producer import Producer

__all__ = ["Change", "Master", "MasterCounters", "MasterLimits", "ServedStore", "Wish"]

Wish = Put | PutUnique | Erase | Add | Subtract | Clear
"""What a clone may want."""

Change = Put | Erase | Expire | Clear
"""What clones are told of."""

_SNAPSHOT_OVERHEAD_BYTES = 256
"""More than the header of an envelope, that of a command, and the fields before the entries take, without the topic."""

_TOPIC_BYTES = 1024
"""Longest topic."""


class ServedStore(Protocol):
    """What a master needs of the store. Keys and values are bodies in Broker's binary format."""

    def apply(self, wish: Wish, then: Callable[[bool], object]) -> None:
        """Grant a wish, if it can be.

        Args:
            wish: What a clone wants.
            then: Called, now or later, behind `Master.changed` for each change, with whether there were any. Wishes are
                answered in their order.
        """

    def __len__(self) -> int:
        """Return how many entries there are."""

    def entries(self) -> Iterable[tuple[bytes, bytes]]:
        """Return the whole content."""


class MasterLimits(NamedTuple):
    """How much one master holds for its clones."""

    clones: int = 1_000
    writers: int = 1_000
    snapshot_entries: int = 100_000
    """Most entries of a snapshot: it is made in one go, 2.5 µs each, so 0.25 s for so many."""
    snapshot_bytes: int = 16 * 1024 * 1024
    """Largest snapshot, with all that stands around it: that of a frame."""
    open_snapshot_bytes: int = 64 * 1024 * 1024
    """Most bytes of snapshots that are not acknowledged yet; who finds no room asks again 200 ms later."""
    channel: ChannelLimits = ChannelLimits()
    """Of what is buffered for all clones, and of what waits of each writer."""


@dataclass(slots=True)
class MasterCounters:
    """What was not as it should be, since the start; masters may share one."""

    channel: ChannelCounters = field(default_factory=ChannelCounters)
    snapshots_too_large: int = 0
    """How often a clone was not served since the content does not fit into a frame, or has too many entries."""
    refused: int = 0
    """Clones and writers that were not taken, as there are too many; they ask again."""
    unexpected: int = 0
    """Commands that mean nothing to a master, or another one."""


class _Writer:
    """A clone that writes."""

    __slots__ = ("consumer", "last_heard")

    def __init__(self, consumer: Consumer, tick: int) -> None:
        self.consumer = consumer
        self.last_heard = tick


class Master:
    """The serving end of one store.

    Args:
        own: Its entity.
        store: What it serves.
        send: Called with the id of a node, nil for all, and a command that goes there under the topic of clones.
        limits: Of what is held.
        counters: Raised here.
    """

    __slots__ = ("_content", "_counters", "_limits", "_own", "_producer", "_send", "_store", "_tick", "_writers")

    def __init__(
        self,
        own: bytes,
        store: ServedStore,
        send: Callable[[bytes, bytes], None],
        *,
        limits: MasterLimits | None = None,
        counters: MasterCounters | None = None,
    ) -> None:
        self._own = own
        self._store = store
        self._send = send
        self._limits = limits or MasterLimits()
        self._counters = counters or MasterCounters()
        self._producer = Producer(
            own,
            NIL_ENTITY,
            lambda to, command: send(node_of(to), command),
            self._snapshot,
            limits=self._limits.channel,
            counters=self._counters.channel,
        )
        self._writers: dict[bytes, _Writer] = {}
        self._tick = 0
        self._content: tuple[tuple[bytes, bytes], ...] | None = None
        """The whole content as it was written last, for clones that come together; None once it has changed, or at the
        next heartbeat."""

    @property
    def clones(self) -> int:
        """How many clones there are."""
        return len(self._producer)

    @property
    def writers(self) -> int:
        """How many clones have said that they write."""
        return len(self._writers)

    @property
    def buffered_bytes(self) -> int:
        """How much is held for clones that have not acknowledged it."""
        return self._producer.buffered_bytes

    @property
    def is_idle(self) -> bool:
        """Whether all clones have everything, and nothing of what they wish is known to be missing."""
        return self._producer.is_idle and all(writer.consumer.is_idle for writer in self._writers.values())

    def changed(self, change: Change) -> None:
        """Tell the clones of a change of the store, whoever has made it."""
        self._content = None
        self._produce(change)

    def hear(self, command: Command, size_bytes: int) -> None:
        """Take a command from under the topic of masters. Its sender must be of the node that has sent it.

        Args:
            command: What came.
            size_bytes: How long it was.
        """
        seq, sender, receiver, content = command
        if receiver not in (self._own, NIL_ENTITY):
            self._counters.unexpected += 1
            return
        match content:
            case Nack():
                self._repeat(sender, content.numbers)
            case CumulativeAck():
                self._acknowledge(sender, content.number)
            case AttachWriter():
                self._attach_writer(sender, content.offset)
            case Keepalive() | RetransmitFailed():
                self._hear_writer(sender, content)
            case Put() | PutUnique() | Erase() | Add() | Subtract() | Clear():
                self._hear_wish(sender, seq, content, size_bytes)
            case _:
                self._counters.unexpected += 1

    def tick(self) -> None:
        """Let a tick pass. What expires in the store is told behind this."""
        self._tick += 1
        if self._tick % HEARTBEAT_TICKS == 0:
            self._content = None
        self._producer.tick()
        for writer in self._writers.values():
            writer.consumer.tick()

    # Channel A, to all clones.

    def _produce(self, action: Action) -> None:
        while self._producer.is_full:
            self._producer.remove_slowest()
        self._producer.produce(action)

    def _snapshot(self, number: int, _: int) -> AckClone | None:
        if len(self._store) > self._limits.snapshot_entries:
            self._counters.snapshots_too_large += 1
            return None
        entries = self._content if self._content is not None else tuple(self._store.entries())
        self._content = entries
        size_bytes = sum(len(key) + len(value) for key, value in entries) + _SNAPSHOT_OVERHEAD_BYTES + _TOPIC_BYTES
        if size_bytes > self._limits.snapshot_bytes:
            self._counters.snapshots_too_large += 1
            return None
        if self._producer.handshake_bytes + size_bytes > self._limits.open_snapshot_bytes:
            self._counters.refused += 1
            return None
        return AckClone(number, HEARTBEAT_TICKS, entries)

    def _repeat(self, clone: bytes, numbers: tuple[int, ...]) -> None:
        if clone in self._producer:
            self._producer.repeat(clone, numbers)
        elif numbers != (0,):
            self._disown(clone, numbers[0] if numbers else 0)
        elif len(self._producer) >= self._limits.clones:
            self._counters.refused += 1
        else:
            self._producer.repeat(clone, numbers)

    def _acknowledge(self, clone: bytes, number: int) -> None:
        if clone in self._producer:
            self._producer.acknowledge(clone, number)
        else:
            self._disown(clone, number + 1)

    def _disown(self, clone: bytes, number: int) -> None:
        """Tell a clone that was removed so, by saying that what it waits for next will never come."""
        if 0 < number < 1 << 64:
            self._producer.fail(clone, number)

    # Channels B, from those that write.

    def _attach_writer(self, sender: bytes, offset: int) -> None:
        writer = self._writers.get(sender)
        if writer is None:
            if len(self._writers) >= self._limits.writers and not self._forget_silent_writer():
                self._counters.refused += 1
                return
            consumer = Consumer(
                self._grant,
                lambda _: None,  # it is counted, and the others go on
                partial(self._answer, sender),
                self._limits.channel,
                self._counters.channel,
            )
            writer = self._writers[sender] = _Writer(consumer, self._tick)
        writer.last_heard = self._tick
        writer.consumer.attach(offset)

    def _forget_silent_writer(self) -> bool:
        """Make room by forgetting the writer that has been silent for longest; return whether that was long enough."""
        sender = min(self._writers, key=lambda each: self._writers[each].last_heard)
        if self._tick - self._writers[sender].last_heard <= SILENT_TICKS:
            return False
        del self._writers[sender]
        return True

    def _hear_writer(self, sender: bytes, content: Keepalive | RetransmitFailed) -> None:
        writer = self._writers.get(sender)
        if writer is None:
            return
        writer.last_heard = self._tick
        if isinstance(content, Keepalive):
            writer.consumer.hear_end(content.number)
        else:
            writer.consumer.hear_lost(content.number)

    def _hear_wish(self, sender: bytes, seq: int, wish: Wish, size_bytes: int) -> None:
        writer = self._writers.get(sender)
        if writer is None:
            self._answer(sender, Nack((0,)))
            return
        writer.last_heard = self._tick
        writer.consumer.hear(seq, wish, size_bytes)

    def _answer(self, writer: bytes, content: CumulativeAck | Nack) -> None:
        self._send(node_of(writer), encode_command(Command(0, self._own, writer, content)))

    def _grant(self, wish: Action) -> None:
        match wish:
            case PutUnique():
                self._store.apply(wish, partial(self._answer_unique, wish))
            case Put() | Erase() | Add() | Subtract() | Clear():
                self._store.apply(wish, _ignore)
            case _:  # `hear` lets nothing else pass
                self._counters.unexpected += 1

    def _answer_unique(self, wish: PutUnique, inserted: bool) -> None:  # noqa: FBT001 -- called with what it is
        self._produce(PutUniqueResult(inserted, wish.who, wish.request, self._own))


def _ignore(_: bool) -> None:  # noqa: FBT001 -- as above
    """Stand in where nobody waits for an answer."""
