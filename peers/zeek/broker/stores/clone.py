"""`Clone`: a copy of a store whose master is at a Broker endpoint; it may write, too.

```
nack [0] ─▶ ack_clone: the whole content ─▶ changes in their order ─▶ ...
                └▶ attach_writer, then wishes, numbered, until the master has them
something will never come, or the master is silent for 50 s ─▶ the copy is stale, and all begins anew
```

A C++ clone that has lost its place goes stale without noticing it, and ignores a master that was restarted. This one
begins anew, as another entity, so that the master does not take it for the one that it knew. What it has written and
the master has not confirmed stays: it goes on under the old entity if the master is the same one, and is sent again to
another one. So a wish is granted at least once by each master, and exactly once where the master stays the same. With
`resends` off, another master gets nothing of it: then a wish is granted once, or not at all.

When is it known what a wish has led to? The master confirms it behind having granted it, or not, and what it says of
the content comes in the order of numbers. So once the copy has everything up to a number that was heard of first behind
the confirmation, it has what came of the wish (`on_settled`).

Owner: the connections of one hub, which call `tick` each 100 ms. Limits: what is not confirmed yet, in wishes and bytes
(`ChannelLimits`); more is refused by a `BusyError`. No I/O, no clock. Not here: the copy itself (`Replica`), topics and
envelopes (its owner).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, cast

from hub.errors import BusyError
from peers.zeek.broker.handshake_messages import NIL_ID
from peers.zeek.broker.stores.channel import HEARTBEAT_TICKS, SILENT_TICKS, ChannelCounters, ChannelLimits
from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    AckClone,
    Action,
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
    decode_command,
    encode_command,
    node_of,
)
from peers.zeek.broker.stores.consumer import Consumer
from peers.zeek.broker.stores.master import Change, Wish
from peers.zeek.broker.stores.producer import Producer

__all__ = ["Clone", "OnResult", "Replica"]

OnResult = Callable[[bool | None], object]
"""Told whether a value was set that was to be set only if there is none; None if nobody knows."""


def _ignore(_: int) -> None:
    """Stand in where nobody wants to know what came of wishes."""


class Replica(Protocol):
    """The copy. Keys and values are bodies in Broker's binary format."""

    def replace(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Hold these entries and no others."""

    def change(self, change: Change) -> None:
        """Do as the master has done."""

    def lose(self, reason: str) -> None:
        """Take note that the copy follows nobody any more, until `replace` is called again."""


class Clone:
    """The copying end of one store.

    Args:
        entities: Makes a new entity of this node at each call.
        replica: The copy.
        send: Called with the id of a node, nil for all, and a command that goes there under the topic of masters.
        limits: Of what waits, in each direction.
        counters: Raised here.
        writes: Whether the master is told that this clone writes, before it does.
        resends: Whether another master gets what the one before has not confirmed.
        on_settled: Called with the number of a wish once the copy has what came of it, and of all before it.
    """

    __slots__ = (
        "_asked",
        "_asker",
        "_confirmed",
        "_consumer",
        "_counters",
        "_entities",
        "_fenced",
        "_fences",
        "_heard",
        "_limits",
        "_master",
        "_on_settled",
        "_producer",
        "_publisher",
        "_reader",
        "_replica",
        "_requests",
        "_resends",
        "_send",
        "_silent_ticks",
        "_ticks",
        "_waiting",
        "_waiting_bytes",
        "_writer",
        "_writes",
        "restarts",
    )

    def __init__(  # noqa: PLR0913 -- each is another thing
        self,
        entities: Callable[[], bytes],
        replica: Replica,
        send: Callable[[bytes, bytes], None],
        *,
        limits: ChannelLimits | None = None,
        counters: ChannelCounters | None = None,
        writes: bool = True,
        resends: bool = True,
        on_settled: Callable[[int], object] = _ignore,
    ) -> None:
        self._entities = entities
        self._replica = replica
        self._send = send
        self._limits = limits or ChannelLimits()
        self._counters = counters or ChannelCounters()
        self._writes = writes
        self._resends = resends
        self._on_settled = on_settled
        self._confirmed = self._fenced = 0
        """Up to which wish the master has confirmed all; and for which of them a number stands in `_fences`."""
        self._fences: deque[tuple[int, int]] = deque()
        """Wishes, and the number of the change with which the copy has what came of them."""
        self._heard = 0
        """The highest number that the master has used, as far as it is known."""
        self._reader = self._publisher = entities()
        """The entity that takes changes; the one that they are published by, which stays."""
        self._asker = entities()
        """The entity that asks for results."""
        self._writer = self._reader
        """The entity that wishes are sent by."""
        self._master = b""
        """The entity that is copied; empty until it is found."""
        self._consumer = self._new_consumer()
        self._producer: Producer | None = None
        """None until there is a master to write to."""
        self._waiting: list[Action] = []
        """Wishes from before that."""
        self._waiting_bytes = 0
        """About how long they are, as commands."""
        self._requests = 0
        """The number of the last request for a result."""
        self._asked: dict[int, OnResult] = {}
        """Who waits for a result, by the number of the request."""
        self._ticks = self._silent_ticks = 0
        self.restarts = 0
        """How often it has begun anew."""

    @property
    def is_attached(self) -> bool:
        """Whether the copy follows a master."""
        return self._consumer.is_attached

    @property
    def master(self) -> bytes:
        """The entity that is copied, empty while there is none."""
        return self._master

    @property
    def unconfirmed(self) -> int:
        """How many wishes the master has not confirmed."""
        return len(self._waiting) + (self._producer.buffered if self._producer is not None else 0)

    @property
    def is_idle(self) -> bool:
        """Whether the copy has everything that it knows of, and the master everything that was wished."""
        return self._consumer.is_idle and not self.unconfirmed and not self._asked

    def begin(self) -> None:
        """Ask for a master."""
        self._consumer.ask()

    def restart(self, reason: str) -> None:
        """Give up on the master, and look for one: the same, or another."""
        self._consumer.stop()
        self.restarts += 1
        self._reader = self._entities()
        self._master = b""
        self._silent_ticks = 0
        self._fences.clear()
        self._fenced = self._confirmed
        self._consumer = self._new_consumer()
        asked, self._asked = self._asked, {}
        self._replica.lose(reason)
        for on_result in asked.values():
            on_result(None)
        self._consumer.ask()

    def hear(self, command: Command, size_bytes: int) -> None:
        """Take a command from under the topic of clones. Its sender must be of the node that has sent it.

        Args:
            command: What came.
            size_bytes: How long it was.
        """
        seq, sender, receiver, content = command
        if isinstance(content, AckClone):
            if receiver == self._reader and not self._consumer.is_attached:
                self._attach(sender, content)
            return
        if sender != self._master:
            return
        self._silent_ticks = 0
        match content:
            case CumulativeAck() | Nack():
                if receiver == self._writer and self._producer is not None:
                    self._hear_of_wishes(self._producer, content)
            case Keepalive():
                self._consumer.hear_end(content.number)
                self._fence(content.number)
            case RetransmitFailed():
                if receiver == self._reader:
                    self._consumer.hear_lost(content.number)
            case Put() | Erase() | Expire() | Clear() | PutUniqueResult():
                self._hear_change(seq, content, size_bytes)
        self._settle()

    def tick(self) -> None:
        """Let a tick pass."""
        self._consumer.tick()
        if self._producer is not None:
            self._producer.tick()
            self._ticks += 1
            if self._ticks % HEARTBEAT_TICKS == 0:
                self._producer.insist()
        elif self._writes and self._master:
            self._attach_writer()
        self._silent_ticks += 1
        if self._master and self._silent_ticks > SILENT_TICKS:
            self.restart("the master was silent for too long")

    # Writing.

    def write(self, wish: Wish) -> int:
        """Send a wish to the master, now or once there is one.

        Returns:
            Its number among the wishes to this master; 0 if there is none.

        Raises:
            BusyError: Too many are not confirmed yet.
        """
        if self._producer is not None:
            if self._producer.is_full:
                raise BusyError(f"the master of the store has not confirmed {self._producer.buffered} changes")
            self._producer.produce(wish)
        elif len(self._waiting) >= self._limits.actions or self._waiting_bytes >= self._limits.bytes:
            raise BusyError(f"{len(self._waiting)} changes wait for a master of the store")
        else:
            self._waiting.append(wish)
            self._waiting_bytes += len(encode_command(Command(0, self._writer, NIL_ENTITY, wish)))
            if self._master:
                self._attach_writer()
        return 0 if self._producer is None else self._producer.number

    def put_unique(
        self,
        key: bytes,
        value: bytes,
        expiry_ns: int | None,
        on_result: OnResult,
        publisher: bytes | None = None,
    ) -> int:
        """Set the value of a key that has none.

        Args:
            key: Which.
            value: The value.
            expiry_ns: How long it is to live.
            on_result: Told whether it was set.
            publisher: The entity that does it, if it is not the one of this clone.

        Returns:
            As `write`.

        Raises:
            BusyError: As for `write`.
        """
        self._requests += 1
        request = self._requests
        self._asked[request] = on_result
        try:
            return self.write(PutUnique(key, value, expiry_ns, self._asker, request, publisher or self._publisher))
        except BusyError:
            del self._asked[request]
            raise

    @property
    def publisher(self) -> bytes:
        """The entity that its changes are published by."""
        return self._publisher

    def _attach_writer(self) -> None:
        self._producer = Producer(
            self._writer,
            self._master,
            lambda _, command: self._send(NIL_ID, command),
            lambda _, has: AttachWriter(has, HEARTBEAT_TICKS),
            limits=self._limits,
            counters=self._counters,
            removes_silent=False,
        )
        self._producer.add(self._master)
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        for wish in waiting:
            self._producer.produce(wish)

    def _hear_of_wishes(self, producer: Producer, content: CumulativeAck | Nack) -> None:
        if isinstance(content, CumulativeAck):
            producer.acknowledge(self._master, content.number)
            confirmed = content.number
        else:
            producer.repeat(self._master, content.numbers)
            confirmed = min(content.numbers, default=0) - 1
        self._confirmed = max(self._confirmed, min(confirmed, producer.number))

    def _hear_change(self, number: int, change: Action, size_bytes: int) -> None:
        self._consumer.hear(number, change, size_bytes)
        if number > self._heard:  # or it was sent again, and says nothing of what was confirmed meanwhile
            self._fence(number)

    def _fence(self, number: int) -> None:
        """The master has used this number, and says so behind all that it has confirmed of wishes."""
        self._heard = max(self._heard, number)
        if self._confirmed > self._fenced:
            self._fences.append((self._confirmed, self._heard))
            self._fenced = self._confirmed

    def _settle(self) -> None:
        while self._fences and self._consumer.next > self._fences[0][1]:
            wish, _ = self._fences.popleft()
            self._on_settled(wish)

    def _write_to_another(self) -> None:
        """Send to the new master what the old one has not confirmed."""
        if self._producer is not None and self._master not in self._producer:
            pending = [cast("Action", decode_command(command).content) for command in self._producer.pending]
            self._waiting = pending if self._resends else []
            self._producer = None
            self._confirmed = self._fenced = 0
            self._writer = self._reader

    # Reading.

    def _new_consumer(self) -> Consumer:
        return Consumer(self._take, self._lose, self._say, self._limits, self._counters)

    def _attach(self, master: bytes, handshake: AckClone) -> None:
        self._master = master
        self._silent_ticks = 0
        self._replica.replace(handshake.entries)
        self._consumer.attach(handshake.offset)
        self._heard = handshake.offset
        self._write_to_another()
        if self._waiting:
            self._attach_writer()

    def _take(self, action: Action) -> None:
        match action:
            case PutUniqueResult():
                if action.who == self._asker:
                    on_result = self._asked.pop(action.request, None)
                    if on_result is not None:
                        on_result(action.inserted)
            case Put() | Erase() | Expire() | Clear():
                self._replica.change(action)

    def _lose(self, number: int) -> None:
        self.restart(f"change {number} is lost for good")

    def _say(self, content: CumulativeAck | Nack) -> None:
        receiver = self._master or NIL_ENTITY
        self._send(node_of(receiver), encode_command(Command(0, self._reader, receiver, content)))
