"""`Master`: the end of a store that its clones at Broker endpoints copy, and whose wishes it grants.

```
clone ── nack [0] ───────▶ producer ── the whole content, then each change ─▶ all clones
clone ── attach_writer ──▶ consumer, one for each clone that writes ── wishes in order ─▶ store.apply
                                                                   store's owner ── changed ─▶ producer
```

The store behind it may be changed by others, too: whoever changes it says so by `changed`. So what a clone wishes comes
back to it, and to all others, as what has become of it: an addition as the new whole value.

Some things are better than in Broker. A clone that is not known (any more), since it was silent or slow, or since the
hub has started again, goes on where it is, if the store can tell what it lacks (`History`). If not, it is told that
something will never come, so that it begins anew, or says so in its log, rather than going stale unnoticed. A writer
that is not known, or was silent for long, is asked for its handshake; where it is known how far it had come, it goes on
there. And what a writer wishes is acknowledged once it is kept; nor is a clone given a content before (`Producer`).

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

from hub.errors import HubError
from peers.zeek.broker.stores.channel import HEARTBEAT_TICKS, SILENT_TICKS, ChannelCounters, ChannelLimits, Later
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
from peers.zeek.broker.stores.ledger import By
from peers.zeek.broker.stores.producer import FIRST_NUMBER, Producer

__all__ = ["Change", "Granted", "History", "Master", "MasterCounters", "MasterLimits", "ServedStore", "Wish"]

Wish = Put | PutUnique | Erase | Add | Subtract | Clear
"""What a clone may want."""

Change = Put | Erase | Expire | Clear
"""What clones are told of."""

_SNAPSHOT_OVERHEAD_BYTES = 256
"""More than the header of an envelope, that of a command, and the fields before the entries take, without the topic."""

_TOPIC_BYTES = 1024
"""Longest topic."""

_LONG_TICKS = SILENT_TICKS // 2
"""How long a writer may be silent before it is asked where it is: C++ clones drop what they have written to a master
from which they have heard nothing for `SILENT_TICKS`, and write nothing more until they are asked."""

_HANDSHAKE = Nack((0,))
"""Asks for where a writer begins."""


class Granted(Protocol):
    """Told what a wish has led to."""

    def __call__(self, inserted: bool, number: int = 0, /) -> object:  # noqa: FBT001 -- called with what it is
        """Take note of whether there was a change, and under which number that is answered; 0 for the next."""


class ServedStore(Protocol):
    """What a master needs of the store. Keys and values are bodies in Broker's binary format."""

    def apply(self, wish: Wish, then: Granted, by: By | None = None) -> None:
        """Grant a wish, if it can be.

        Args:
            wish: What a clone wants.
            then: Called, now or later, behind `Master.changed` for each change. Wishes are answered in their order;
                one that could not be kept is not, where there is a history.
            by: Who wishes it.
        """

    def __len__(self) -> int:
        """Return how many entries there are."""

    def entries(self) -> Iterable[tuple[bytes, bytes]]:
        """Return the whole content."""

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        """Call `then` once all of the content of now is kept; later with an error if that has failed once."""


class History(Protocol):
    """What a store knows of the numbers of its master's channel, also of those from before the hub was started."""

    @property
    def last(self) -> int:
        """The last number."""

    def remembers(self, number: int) -> bool:
        """Return whether `recall` knows a number."""

    def recall(self, number: int) -> Action | Later | None:
        """Return what stands under a number, as the store is now, and is kept; None if nobody knows."""

    def position(self, writer: bytes) -> int | None:
        """Return the number of the last wish of a clone that was granted; None if nobody knows."""

    def rest(self) -> None:
        """Let go of what is only there to be quicker."""


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
    recalled: int = 100_000
    """How many numbers a clone may lack that goes on where it is: more are not recalled."""
    channel: ChannelLimits = ChannelLimits()
    """Of what is buffered for all clones, and of what waits of each writer."""


@dataclass(slots=True)
class MasterCounters:
    """What was not as it should be, since the start; masters may share one."""

    channel: ChannelCounters = field(default_factory=ChannelCounters)
    snapshots_too_large: int = 0
    """How often a clone was not served since the content does not fit into a frame, or has too many entries."""
    adopted: int = 0
    """Clones that went on where they were, although they were not known (any more)."""
    disowned: int = 0
    """How often a clone that was not known (any more) was told that it lacks what will never come."""
    refused: int = 0
    """Clones and writers that were not taken, as there are too many; they ask again."""
    unexpected: int = 0
    """Commands that mean nothing to a master, or another one."""


class _Writer:
    """A clone that writes."""

    __slots__ = ("consumer", "kept", "last_heard", "taken")

    consumer: Consumer

    def __init__(self, tick: int) -> None:
        self.last_heard = tick
        self.taken = self.kept = 0
        """The numbers of its last wish that the store has taken, and that is kept."""


class Master:
    """The serving end of one store.

    Args:
        own: Its entity.
        store: What it serves.
        send: Called with the id of a node, nil for all, and a command that goes there under the topic of clones.
        limits: Of what is held.
        counters: Raised here.
        history: What the store knows of numbers; None if it knows none but those that are held here.
    """

    __slots__ = (
        "_content",
        "_counters",
        "_history",
        "_limits",
        "_own",
        "_producer",
        "_send",
        "_store",
        "_tick",
        "_writers",
    )

    def __init__(  # noqa: PLR0913 -- each is another thing
        self,
        own: bytes,
        store: ServedStore,
        send: Callable[[bytes, bytes], None],
        *,
        limits: MasterLimits | None = None,
        counters: MasterCounters | None = None,
        history: History | None = None,
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
            number=FIRST_NUMBER if history is None else history.last,
            recall=self._recall,
            when_kept=store.when_kept,
        )
        self._history = history
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

    def changed(self, change: Change, number: int = 0) -> None:
        """Tell the clones of a change of the store, whoever has made it; under this number, or the next one."""
        self._content = None
        self._produce(change, number)

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
            if self._history is not None:
                self._history.rest()
        self._producer.tick()
        for writer in self._writers.values():
            writer.consumer.tick()

    # Channel A, to all clones.

    def _produce(self, action: Action, number: int = 0) -> None:
        """Tell all clones; under a number, and before it of all that nobody was told of, as it could not be kept."""
        producer = self._producer
        if number and not producer:
            producer.skip(max(producer.number, number))
            return
        while number and producer.number + 1 < number:
            recalled = self._recall(producer.number + 1)
            self._produce_next(nothing(self._own) if recalled is None or recalled is Later.LATER else recalled)
        if not number or number > producer.number:
            self._produce_next(action)

    def _produce_next(self, action: Action) -> None:
        while self._producer.is_full:
            self._producer.remove_slowest()
        self._producer.produce(action)

    def _recall(self, number: int) -> Action | Later | None:
        return None if self._history is None else self._history.recall(number)

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
            self._adopt(clone, numbers[0] - 1 if numbers else -1)
        elif len(self._producer) >= self._limits.clones:
            self._counters.refused += 1
        else:
            self._producer.repeat(clone, numbers)

    def _acknowledge(self, clone: bytes, number: int) -> None:
        if clone in self._producer:
            self._producer.acknowledge(clone, number)
        else:
            self._adopt(clone, number)

    def _adopt(self, clone: bytes, number: int) -> None:
        """Let a clone that is not known go on behind a number, or tell it that what it waits for will never come."""
        last, history = self._producer.number, self._history
        is_known = number == last or (history is not None and history.remembers(number + 1))
        if history is None or number > last or last - number > self._limits.recalled or not is_known:
            if 0 <= number < (1 << 64) - 1:
                self._counters.disowned += 1
                self._producer.fail(clone, number + 1)
        elif len(self._producer) >= self._limits.clones or len(self._store) > self._limits.snapshot_entries:
            self._counters.refused += 1
        else:
            self._counters.adopted += 1
            self._producer.adopt(clone, number)

    # Channels B, from those that write.

    def _attach_writer(self, sender: bytes, offset: int) -> None:
        writer = self._find_writer(sender) or self._add_writer(sender)
        if writer is not None:
            writer.last_heard = self._tick
            self._begin_at(writer, offset)

    def _begin_at(self, writer: _Writer, offset: int) -> None:
        if not writer.consumer.is_attached:
            writer.taken = writer.kept = offset
            writer.consumer.attach(offset)

    def _add_writer(self, sender: bytes) -> _Writer | None:
        if len(self._writers) >= self._limits.writers and not self._forget_silent_writer():
            self._counters.refused += 1
            return None
        writer = self._writers[sender] = _Writer(self._tick)
        writer.consumer = Consumer(
            partial(self._grant, sender, writer),
            lambda _: None,  # it is counted, and the others go on
            partial(self._tell_writer, sender, writer),
            self._limits.channel,
            self._counters.channel,
        )
        return writer

    def _find_writer(self, sender: bytes) -> _Writer | None:
        """Return a writer that is known, if only from before the hub was started; ask it where it is if that is old."""
        writer = self._writers.get(sender)
        if writer is not None:
            if self._tick - writer.last_heard > _LONG_TICKS:  # it may have given up on us
                self._answer(sender, _HANDSHAKE)
            writer.last_heard = self._tick
            return writer
        position = None if self._history is None else self._history.position(sender)
        writer = None if position is None else self._add_writer(sender)
        if writer is None or position is None:
            return None
        self._answer(sender, _HANDSHAKE)
        self._begin_at(writer, position)
        return writer

    def _tell_writer(self, sender: bytes, writer: _Writer, content: CumulativeAck | Nack) -> None:
        """Answer a writer, which forgets what is acknowledged: so that is only what is kept."""
        if writer.kept < writer.taken:
            kept = writer.kept
            content = CumulativeAck(kept) if isinstance(content, CumulativeAck) else Nack((kept + 1, *content.numbers))
        self._answer(sender, content)

    def _forget_silent_writer(self) -> bool:
        """Make room by forgetting the writer that has been silent for longest; return whether that was long enough."""
        sender = min(self._writers, key=lambda each: self._writers[each].last_heard)
        if self._tick - self._writers[sender].last_heard <= SILENT_TICKS:
            return False
        del self._writers[sender]
        return True

    def _hear_writer(self, sender: bytes, content: Keepalive | RetransmitFailed) -> None:
        writer = self._find_writer(sender)
        if writer is None:
            if self._history is not None and isinstance(content, Keepalive):
                self._answer(sender, _HANDSHAKE)
            return
        if isinstance(content, Keepalive):
            writer.consumer.hear_end(content.number)
        else:
            writer.consumer.hear_lost(content.number)

    def _hear_wish(self, sender: bytes, seq: int, wish: Wish, size_bytes: int) -> None:
        writer = self._find_writer(sender)
        if writer is None:
            self._answer(sender, _HANDSHAKE)
            return
        writer.consumer.hear(seq, wish, size_bytes)

    def _answer(self, writer: bytes, content: CumulativeAck | Nack) -> None:
        self._send(node_of(writer), encode_command(Command(0, self._own, writer, content)))

    def _grant(self, sender: bytes, writer: _Writer, wish: Action) -> None:
        match wish:
            case Put() | PutUnique() | Erase() | Add() | Subtract() | Clear():
                writer.taken = writer.consumer.next - 1
                by = By(sender, writer.taken)
                self._store.apply(wish, partial(self._granted, writer, by.number, wish), by)
            case _:  # `hear` lets nothing else pass
                self._counters.unexpected += 1

    def _granted(self, writer: _Writer, taken: int, wish: Wish, inserted: bool, number: int = 0, /) -> None:  # noqa: FBT001 -- see `Granted`
        writer.kept = taken
        if isinstance(wish, PutUnique):
            self._produce(PutUniqueResult(inserted, wish.who, wish.request, self._own), number)


def nothing(own: bytes) -> PutUniqueResult:
    """Return an action that takes a number and means nothing: an answer that nobody waits for."""
    return PutUniqueResult(False, NIL_ENTITY, 0, own)
