"""`Master`: a store of this hub, as its clones at Broker endpoints copy it, and write to it.

```
clone ── nack [0] ───────▶ handshake: the whole content, then each change under the next number
clone ── attach_writer ──▶ Consumer ── wishes in their order ─▶ the store's owner
                           the store's owner ── its changes ─▶ log ── kept ─▶ all clones
```

A C++ clone follows one entity for its life, takes no second snapshot, and only the next number. So the last numbered
actions are a log, and where the store is in a file, the log, the master's entity and the last wish of each writer are
notes in the same transactions: after a restart clones go on where they are, and no wish is granted twice. Clones get
only changes that are kept, also in a snapshot. A value without a Broker form is left out, and counted.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from struct import Struct
from struct import error as StructError  # noqa: N812  an exception, named as one
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

from hub.errors import HubError, StoreError
from hub.stores.command import Change, ChangeKind, Command
from hub.stores.store import Store
from peers.values import (
    Count,
    InvalidDataError,
    Set,
    Table,
    Timespan,
    Timestamp,
    Value,
    encode,
    from_msgpack,
    to_msgpack,
)
from peers.values.binary import Tag
from peers.zeek.broker.stores import command as wire
from peers.zeek.broker.stores.channel import (
    FIRST_NUMBER,
    HEARTBEAT_TICKS,
    NACK_NUMBERS,
    SILENT_TICKS,
    ChannelCounters,
    ChannelLimits,
    Consumer,
)

Outcome: TypeAlias = Change | StoreError | None
Then: TypeAlias = Callable[[list[Outcome], HubError | None], object]
Notes: TypeAlias = Mapping[str, bytes | None]
Wish: TypeAlias = wire.Put | wire.PutUnique | wire.Erase | wire.Add | wire.Subtract | wire.Clear
REPEATED: Final = 2 * NACK_NUMBERS  # most actions that are sent again to one clone in one tick
_SNAPSHOT_OVERHEAD_BYTES = 256 + 1024  # more than envelope, command and topic take beside the entries
# After so much silence a writer is asked for its handshake: C++ clones drop their writes to a master that was silent
# for `SILENT_TICKS`, and write nothing more until they are asked.
_LONG_TICKS = SILENT_TICKS // 2

_HANDSHAKE = wire.Nack((0,))
_STATE = Struct(">QQQ")  # numbers of the master's entity, of the last action, and of the store's last change
_POSITION = Struct(">QQ")  # numbers of a writer's last wish, and of the last action then
_NUMBER = Struct(">Q")
_LENGTH = Struct(">I")
_ZEEK = "zeek "  # a publisher that is an entity at a Zeek begins so

_ZEROS: dict[Tag, Value] = {
    Tag.BOOLEAN: False,
    Tag.COUNT: Count(0),
    Tag.INTEGER: 0,
    Tag.REAL: 0.0,
    Tag.STRING: "",
    Tag.TIMESTAMP: Timestamp(0),
    Tag.TIMESPAN: Timespan(0),
    Tag.SET: Set(),
    Tag.TABLE: Table(),
    Tag.VECTOR: (),
}
_EMPTIES = {tag: to_msgpack(encode(zero)) for tag, zero in _ZEROS.items()}
"""Start of an addition to a missing key; other types cannot be added to."""


class StoreOwner(Protocol):
    """`peers.stores.master.Master`, a room above this one."""

    store: Store
    listeners: list[Callable[[Sequence[Change]], object]]
    noters: list[Callable[[Sequence[Change]], Notes]]

    @property
    def notes(self) -> dict[str, bytes] | None: ...
    @property
    def is_certain(self) -> bool: ...
    def apply(
        self,
        commands: Iterable[Command | StoreError],
        then: Then,
        publisher: object = None,
        user: str | None = None,
        note: Callable[[list[Outcome]], Notes] | None = None,
    ) -> None: ...
    def when_kept(self, then: Callable[[HubError | None], object]) -> None: ...


class MasterLimits(NamedTuple):
    """Limits of one master."""

    clones: int = 1_000
    writers: int = 1_000
    snapshot_entries: int = 100_000  # A snapshot is made in one go, 2.5 µs an entry
    snapshot_bytes: int = 16 * 1024 * 1024  # Largest frame with a snapshot
    # Most bytes of snapshots that are not acknowledged yet; a clone without room asks again 200 ms later.
    open_snapshot_bytes: int = 64 * 1024 * 1024
    log_actions: int = 65_536
    log_bytes: int = 32 * 1024 * 1024
    channel: ChannelLimits = ChannelLimits()  # Of each writer's early wishes


@dataclass(slots=True)
class MasterCounters:
    """Irregularities since the start; masters may share one."""

    channel: ChannelCounters = field(default_factory=ChannelCounters)
    snapshots_too_large: int = 0  # Requests of clones for a snapshot over the limits
    adopted: int = 0  # Clones that went on where they were, although they were not known (any more)
    disowned: int = 0  # Answers to unknown clones that their next action is lost for good
    refused: int = 0  # Clones and writers over the limits; they ask again
    unexpected: int = 0  # Commands for another master, or that are none for a master


@dataclass(slots=True, eq=False)
class _Clone:
    offset: int  # its handshake stands for all up to this number
    last_seen: int
    acked: int = 0
    handshake: bytes = b""  # sent again until the first acknowledgement
    is_held: bool = False  # whether its handshake holds changes that are not kept yet, and is not sent
    lagged: bool = False  # it lacked something at the last keepalive
    repeated: int = 0  # actions that were sent again in one tick
    repeated_tick: int = 0


@dataclass(slots=True, eq=False)
class _Writer:
    last_heard: int
    consumer: Consumer = field(init=False)
    taken: int = 0  # number of the last wish that the store has taken
    kept: int = 0  # and of the last one that is kept


def publisher_of(of: bytes) -> str:
    return f"{_ZEEK}{uuid.UUID(bytes=wire.node_of(of))}#{wire.object_of(of)}"


def entity_of(publisher: object, other: bytes) -> bytes:
    """Return a publisher as an entity; `other` if it is none."""
    if isinstance(publisher, str) and publisher.startswith(_ZEEK):
        node, _, number = publisher.removeprefix(_ZEEK).partition("#")
        with suppress(ValueError, StructError):  # a client may call itself anything
            return wire.entity(uuid.UUID(node).bytes, int(number))
    return other


class Master:
    """The master of one store.

    Args:
        known: Name of the store at clones.
        node_id: Node of its entity.
        new_object: Number of its entity, unless an earlier one goes on.
        owner: Changes the store.
        send: Called with the id of a node, nil for all, and a command for the topic of clones.
        now_ns: Returns the time by which entries expire, since 1970.
        counters: Updated.
        user_of: Returns the user who is charged for the entries of a clone, by its entity.
        on_refused: Called with that user and the reason where a wish was not granted; clones are not informed.
    """

    def __init__(  # noqa: PLR0913 -- each is another thing
        self,
        known: str,
        node_id: bytes,
        new_object: int,
        owner: StoreOwner,
        send: Callable[[bytes, bytes], None],
        *,
        now_ns: Callable[[], int],
        limits: MasterLimits | None = None,
        counters: MasterCounters | None = None,
        user_of: Callable[[bytes], str | None] = lambda _: None,
        on_refused: Callable[[str | None, str], object] = lambda _, __: None,
    ) -> None:
        self._owner, self._store, self._send, self._now_ns = owner, owner.store, send, now_ns
        self._limits = limits or MasterLimits()
        self._counters = counters or MasterCounters()
        self._user_of, self._on_refused = user_of, on_refused
        self._prefix = f"zeek master {known} "
        self._is_durable = owner.notes is not None
        self.number = self._kept = FIRST_NUMBER  # of the last action, and of the last one that clones may know
        self._log: dict[int, bytes] = {}  # The last actions as commands for all, by number, without a gap
        self.log_bytes = 0  # Bytes of actions that are held
        self._records: deque[tuple[int, str]] = deque()  # The notes that hold them: last number and name of each
        # Numbers of the store's changes that are not kept yet, with those of their actions.
        self._noted: deque[tuple[int, int]] = deque()
        self._positions: dict[bytes, int] = {}  # Last wish of each writer, as noted, in the order of writing
        self._may_be_known = False  # Whether a clone may have a number from before, so that a gap must show
        self._clones: dict[bytes, _Clone] = {}
        self._writers: dict[bytes, _Writer] = {}
        self._tick = self._last_broadcast = 0
        # The whole content, for clones that come together; None once it has changed.
        self._content: tuple[tuple[bytes, bytes], ...] | None = None
        self.refused = 0  # Wishes that were not granted: a clash of types, a full store, an invalid value
        self.unwritable = 0  # Entries and changes that were left out, as they have no Broker form
        self.own = wire.entity(node_id, new_object)
        if self._is_durable:
            notes = self._restore(owner.notes or {}, node_id)
            owner.apply([], lambda _, __: None, note=lambda _: notes)
        owner.noters.append(self._note)
        owner.listeners.append(self._publish)

    def close(self) -> None:
        self._owner.noters.remove(self._note)
        self._owner.listeners.remove(self._publish)

    @property
    def clones(self) -> int:
        return len(self._clones)

    @property
    def writers(self) -> int:
        return len(self._writers)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of actions that some clone has not acknowledged."""
        floor = min((max(clone.acked, clone.offset) for clone in self._clones.values()), default=self._kept)
        return sum(len(self._log.get(number, b"")) for number in range(floor + 1, self._kept + 1))

    @property
    def is_idle(self) -> bool:
        """Whether all clones have everything, and no wish is known to be missing."""
        has_all = all(clone.acked >= self._kept for clone in self._clones.values())
        return has_all and all(writer.consumer.is_idle for writer in self._writers.values())

    def entries(self) -> Iterable[tuple[bytes, bytes]]:
        """Return the whole content, as far as it has a Broker form."""
        for key, (value, _, _) in self._store.entries.items():
            try:
                yield from_msgpack(key), from_msgpack(value)
            except InvalidDataError:
                self.unwritable += 1

    def hear(self, command: wire.Command, size_bytes: int) -> None:
        """Take a command from the topic of masters; the caller has checked that its sender is of the node."""
        seq, sender, receiver, content = command
        if receiver not in (self.own, wire.NIL_ENTITY):
            self._counters.unexpected += 1
            return
        match content:
            case wire.Nack():
                self._hear_nack(sender, content.numbers)
            case wire.CumulativeAck():
                self._hear_ack(sender, content.number)
            case wire.AttachWriter():
                writer = self._find_writer(sender) or self._add_writer(sender)
                if writer is not None:
                    self._begin_at(writer, content.offset)
            case wire.AckClone() | wire.PutUniqueResult() | wire.Expire():
                self._counters.unexpected += 1
            case _:
                self._hear_writer(sender, seq, content, size_bytes)

    def tick(self) -> None:
        """Let a tick (100 ms) pass: send keepalives, remove silent clones."""
        self._tick += 1
        if self._last_broadcast + HEARTBEAT_TICKS == self._tick:
            self._last_broadcast = self._tick
            self._say(wire.NIL_ENTITY, wire.Keepalive(self._kept))
            # C++ clones take no keepalive that does not name them: one that lacks the last action gets its own.
            for entity, clone in self._clones.items():
                if clone.lagged and clone.acked < self._kept:
                    self._say(entity, wire.Keepalive(self._kept))
                clone.lagged = clone.acked < self._kept
        if self._tick % HEARTBEAT_TICKS == 0:
            self._content = None
            for each in [each for each, clone in self._clones.items() if self._tick - clone.last_seen > SILENT_TICKS]:
                self._counters.channel.silent += 1
                del self._clones[each]
        for writer in self._writers.values():
            writer.consumer.tick()

    def _say(self, to: bytes, content: wire.Content, seq: int = 0) -> None:
        self._send(wire.node_of(to), wire.encode_command(wire.Command(seq, self.own, to, content)))

    # The log, and its notes.

    def _restore(self, notes: dict[str, bytes], node_id: bytes) -> Notes:
        """Go on with the notes, if that can be; return the notes to be kept before a clone hears anything."""
        state = notes.get(self._prefix + "state")
        known, last, change = (0, 0, 0) if state is None else _STATE.unpack(state)
        if state is None or not self._owner.is_certain:
            return {**dict.fromkeys(name for name in notes if name.startswith(self._prefix)), **self._state()}
        self.own = wire.entity(node_id, known)
        self.number = self._kept = last
        self._may_be_known = True
        gone: Notes = {}
        if change == self._store.number:
            gone = self._restore_log(notes)
        else:  # the store was changed while its changes were not noted
            self.number = self._kept = last + 1
        written = self._prefix + "writer "
        positions = {name: _POSITION.unpack(notes[name]) for name in notes if name.startswith(written)}
        for name in sorted(positions, key=lambda each: positions[each][1]):
            self._positions[bytes.fromhex(name.removeprefix(written))] = positions[name][0]
        return {**gone, **self._state()}

    def _restore_log(self, notes: dict[str, bytes]) -> Notes:
        """Take the last noted actions without a gap; return the notes to be removed."""
        records = {}
        for name in [each for each in notes if each.startswith(self._prefix + "told ")]:
            commands = _cut(notes.pop(name))
            if commands and commands[0][wire.SENDER_OFFSET : wire.RECEIVER_OFFSET] == self.own:
                (first,) = _NUMBER.unpack_from(commands[0])
                records[first + len(commands) - 1] = first, commands, name
        number = self.number
        log: list[bytes] = []
        while number in records:
            first, commands, name = records.pop(number)
            self._records.appendleft((number, name))
            log += reversed(commands)
            number = first - 1
        self._log = dict(enumerate(reversed(log), number + 1))
        self.log_bytes = sum(map(len, log))
        return dict.fromkeys(name for _, _, name in records.values())

    def _state(self) -> Notes:
        return {self._prefix + "state": _STATE.pack(wire.object_of(self.own), self.number, self._store.number)}

    def _add(self, action: wire.Action) -> None:
        if not self._is_durable and not self._clones:
            # A store in memory changes without a clone: one that comes back must find a gap.
            if self._may_be_known:
                self._may_be_known = False
                self._log.clear()
                self.log_bytes = 0
                self.number = self._kept = self.number + 1
            return
        self.number += 1
        command = wire.encode_command(wire.Command(self.number, self.own, wire.NIL_ENTITY, action))
        self._log[self.number] = command
        self.log_bytes += len(command)
        while len(self._log) > self._limits.log_actions or self.log_bytes > self._limits.log_bytes:
            self.log_bytes -= len(self._log.pop(next(iter(self._log))))

    def _record(self, before: int) -> Notes:
        """Return the note of the actions behind a number, under the name of an old one."""
        if not self._is_durable:
            return {}
        notes: dict[str, bytes | None] = {}
        oldest = next(iter(self._log), self.number + 1)
        while self._records and self._records[0][0] < oldest:
            notes[self._records.popleft()[1]] = None
        if self.number > before:
            first = max(before + 1, oldest)
            name = f"{self._prefix}told {first % (2 * self._limits.log_actions):06}"
            commands = [self._log[number] for number in range(first, self.number + 1)]
            notes[name] = b"".join(_LENGTH.pack(len(command)) + command for command in commands)
            self._records.append((self.number, name))
        return {**notes, **self._state()}

    def _note(self, changes: Sequence[Change]) -> Notes:
        """Number changes, and return the notes to be kept beside them."""
        self._content = None
        before = self.number
        for change in changes:
            try:
                self._add(self._action_of(change))
            except InvalidDataError:
                self.unwritable += 1
        if changes:
            self._noted.append((changes[-1].number, self.number))
        return self._record(before)

    def _publish(self, changes: Sequence[Change]) -> None:
        """Send clones changes that are kept, and all before them."""
        while self._noted and self._noted[0][0] <= changes[-1].number:
            self._publish_up_to(self._noted.popleft()[1])

    def _publish_up_to(self, number: int) -> None:
        for each in range(self._kept + 1, number + 1):
            command = self._log.get(each)
            if command is not None and self._clones:
                self._last_broadcast = self._tick
                self._send(wire.node_of(wire.NIL_ENTITY), command)
        self._kept = max(self._kept, number)

    def _action_of(self, change: Change) -> wire.Action:
        """Return a change as an action; raises `InvalidDataError` if its key has no Broker form."""
        publisher = entity_of(change.publisher, self.own)
        if change.kind == ChangeKind.CLEAR:
            return wire.Clear(publisher)
        key = from_msgpack(change.key)
        if change.kind == ChangeKind.ERASE:
            return wire.Erase(key, publisher)
        if change.kind == ChangeKind.EXPIRE or change.value is None:
            return wire.Expire(key, self.own)
        expiry_ns = None if change.expires_ns is None else max(1, change.expires_ns - self._now_ns())
        try:
            return wire.Put(key, from_msgpack(change.value), expiry_ns, publisher)
        except InvalidDataError:
            self.unwritable += 1
            return wire.Erase(key, publisher)  # or clones would keep the value before

    # Clones that read.

    def _hear_nack(self, sender: bytes, numbers: tuple[int, ...]) -> None:
        clone = self._clones.get(sender)
        if numbers == _HANDSHAKE.numbers:
            if clone is None:
                self._attach(sender)
            elif clone.handshake:
                clone.last_seen = self._tick
                if not clone.is_held:
                    self._send(wire.node_of(sender), clone.handshake)
            else:  # it has lost its state
                del self._clones[sender]
                self._attach(sender)
            return
        if clone is None:
            clone = self._adopt(sender, numbers[0] - 1 if numbers else -1)
            if clone is None:
                return
        numbers = numbers[:NACK_NUMBERS]
        if not numbers or numbers[0] == 0 or any(one >= other for one, other in pairwise(numbers)):
            self._counters.channel.wrong += 1
            del self._clones[sender]
            return
        self._acknowledge(clone, numbers[0] - 1)
        for number in numbers:
            self._repeat(sender, clone, number)

    def _hear_ack(self, sender: bytes, number: int) -> None:
        clone = self._clones.get(sender)
        if clone is not None:
            self._acknowledge(clone, number)
            return
        clone = self._adopt(sender, number)
        if clone is not None:
            for each in range(number + 1, min(number + NACK_NUMBERS, self._kept) + 1):
                self._repeat(sender, clone, each)

    def _acknowledge(self, clone: _Clone, number: int) -> None:
        clone.last_seen = self._tick
        if clone.acked <= number <= self._kept:
            clone.handshake = b""
            clone.acked = number

    def _repeat(self, sender: bytes, clone: _Clone, number: int) -> None:
        if number > self._kept:
            return
        if clone.repeated_tick != self._tick:
            clone.repeated_tick, clone.repeated = self._tick, 0
        clone.repeated += 1
        if clone.repeated > REPEATED:
            return
        command = self._log.get(number)
        if command is None:
            self._fail(sender, number)
        else:
            self._counters.channel.repeated += 1
            self._send(wire.node_of(sender), command)

    def _fail(self, sender: bytes, number: int) -> None:
        self._counters.channel.failed += 1
        self._say(sender, wire.RetransmitFailed(number))

    def _adopt(self, sender: bytes, number: int) -> _Clone | None:
        """Let an unknown clone go on behind a number, or answer that its next action is lost for good."""
        first = next(iter(self._log), self.number + 1)
        if not first - 1 <= number <= self._kept:
            if 0 <= number < (1 << 64) - 1:
                self._counters.disowned += 1
                self._fail(sender, number + 1)
            return None
        if len(self._clones) >= self._limits.clones:
            self._counters.refused += 1
            return None
        self._counters.adopted += 1
        clone = self._clones[sender] = _Clone(number, self._tick)
        clone.acked = number
        return clone

    def _attach(self, sender: bytes) -> None:
        """Give a clone the whole content, once that is kept; actions that come meanwhile go ahead of it."""
        if len(self._clones) >= self._limits.clones:
            self._counters.refused += 1
            return
        entries = self._snapshot()
        if entries is not None:
            clone = self._clones[sender] = _Clone(self._kept, self._tick)
            self._may_be_known = True
            content = wire.AckClone(self._kept, HEARTBEAT_TICKS, entries)
            clone.handshake = wire.encode_command(wire.Command(self._kept, self.own, sender, content))
            self._hold(sender, clone, clone.handshake)

    def _snapshot(self) -> tuple[tuple[bytes, bytes], ...] | None:
        if len(self._store.entries) > self._limits.snapshot_entries:
            self._counters.snapshots_too_large += 1
            return None
        if self._content is None:
            self._content = tuple(self.entries())
        size_bytes = sum(len(key) + len(value) for key, value in self._content) + _SNAPSHOT_OVERHEAD_BYTES
        if size_bytes > self._limits.snapshot_bytes:
            self._counters.snapshots_too_large += 1
            return None
        open_bytes = sum(len(clone.handshake) for clone in self._clones.values())
        if open_bytes + size_bytes > self._limits.open_snapshot_bytes:
            self._counters.refused += 1
            return None
        return self._content

    def _hold(self, sender: bytes, clone: _Clone, handshake: bytes) -> None:
        """Send a handshake once its content is kept, if it is still wanted then."""

        def then(error: HubError | None) -> None:
            if self._clones.get(sender) is not clone or clone.handshake is not handshake:
                return
            if error is not None:
                self._hold(sender, clone, handshake)
                return
            clone.is_held = False
            self._send(wire.node_of(sender), handshake)

        clone.is_held = True
        self._owner.when_kept(then)

    # Clones that write.

    def _hear_writer(self, sender: bytes, seq: int, content: wire.Content, size_bytes: int) -> None:
        writer = self._find_writer(sender)
        is_wish = not isinstance(content, wire.Keepalive | wire.RetransmitFailed)
        if writer is None:
            if is_wish or (self._is_durable and isinstance(content, wire.Keepalive)):
                self._say(sender, _HANDSHAKE)
        elif isinstance(content, wire.Keepalive):
            writer.consumer.hear_end(content.number)
        elif isinstance(content, wire.RetransmitFailed):
            writer.consumer.hear(content.number, None)
        else:
            writer.consumer.hear(seq, cast("wire.Action", content), size_bytes)

    def _begin_at(self, writer: _Writer, offset: int) -> None:
        if not writer.consumer.is_attached:
            writer.taken = writer.kept = offset
            writer.consumer.attach(offset)

    def _add_writer(self, sender: bytes) -> _Writer | None:
        if len(self._writers) >= self._limits.writers:  # the one with the longest silence goes, if that is long enough
            longest = min(self._writers, key=lambda each: self._writers[each].last_heard)
            if self._tick - self._writers[longest].last_heard <= SILENT_TICKS:
                self._counters.refused += 1
                return None
            del self._writers[longest]
        writer = self._writers[sender] = _Writer(self._tick)
        writer.consumer = Consumer(
            partial(self._grant, sender, writer),
            lambda _: None,  # it is counted, and the others go on
            partial(self._answer_writer, sender, writer),
            self._limits.channel,
            self._counters.channel,
        )
        return writer

    def _find_writer(self, sender: bytes) -> _Writer | None:
        """Return a known writer, also of before a restart; after a long silence it is asked for its handshake."""
        writer = self._writers.get(sender)
        if writer is not None:
            if self._tick - writer.last_heard > _LONG_TICKS:  # it may have given up on this master
                self._say(sender, _HANDSHAKE)
            writer.last_heard = self._tick
            return writer
        position = self._positions.get(sender)
        writer = None if position is None else self._add_writer(sender)
        if writer is not None and position is not None:
            self._say(sender, _HANDSHAKE)
            self._begin_at(writer, position)
        return writer

    def _answer_writer(self, sender: bytes, writer: _Writer, content: wire.CumulativeAck | wire.Nack) -> None:
        """Answer a writer; only wishes that are kept are acknowledged, as it forgets them."""
        if writer.kept < writer.taken:
            kept = writer.kept
            numbers = content.numbers if isinstance(content, wire.Nack) else ()
            content = wire.Nack((kept + 1, *numbers)) if isinstance(content, wire.Nack) else wire.CumulativeAck(kept)
        self._say(sender, content)

    def _grant(self, sender: bytes, writer: _Writer, wish: wire.Action) -> None:
        command: Command | StoreError
        try:
            command = _command_of(wish)
        except (InvalidDataError, StoreError) as error:
            command = StoreError(str(error))
        taken = writer.taken = writer.consumer.next - 1
        user = self._user_of(sender)
        answer = 0

        def note(outcomes: list[Outcome]) -> Notes:
            nonlocal answer
            before = self.number
            if isinstance(wish, wire.PutUnique):
                is_new = isinstance(outcomes[0], Change)
                self._add(wire.PutUniqueResult(is_new, wish.who, wish.request, self.own))
                answer = self.number
            return {**self._note_position(sender, taken), **self._record(before)}

        def done(outcomes: list[Outcome], error: HubError | None) -> None:
            refusal = outcomes[0] if error is None else error
            if isinstance(refusal, HubError):
                self.refused += 1
                self._on_refused(user, str(refusal))
            if error is None:  # or it is published as soon as anything is kept behind it
                writer.kept = taken
                self._publish_up_to(answer)

        self._owner.apply([command], done, publisher_of(wish.publisher), user, note)

    def _note_position(self, writer: bytes, number: int) -> Notes:
        if not self._is_durable:
            return {}
        notes: dict[str, bytes | None] = {}
        self._positions.pop(writer, None)
        if len(self._positions) >= self._limits.writers:
            oldest = next(iter(self._positions))
            del self._positions[oldest]
            notes[f"{self._prefix}writer {oldest.hex()}"] = None
        self._positions[writer] = number
        notes[f"{self._prefix}writer {writer.hex()}"] = _POSITION.pack(number, self.number)
        return notes


def _cut(record: bytes) -> list[bytes]:
    commands = []
    position = 0
    while position < len(record):
        end = position + _LENGTH.size + _LENGTH.unpack_from(record, position)[0]
        commands.append(record[position + _LENGTH.size : end])
        position = end
    return commands


def _command_of(wish: wire.Action) -> Command:
    """Return a wish as a command of the store; raises `InvalidDataError` and `StoreError`."""
    if isinstance(wish, wire.Clear):
        return Command("clear")
    if isinstance(wish, wire.Erase):
        return Command("erase", to_msgpack(wish.key))
    if not isinstance(wish, wire.Put | wire.PutUnique | wire.Subtract | wire.Add):
        raise StoreError("invalid command")  # `hear` lets nothing else pass
    empty = _EMPTIES.get(wish.initial) if isinstance(wish, wire.Add) else None
    if isinstance(wish, wire.Add) and empty is None:
        raise StoreError(f"nothing can be added to a value of type {wish.initial.name.lower()}")
    key, value = to_msgpack(wish.key), to_msgpack(wish.value)
    return Command(_KINDS[type(wish)], key, value, wish.expiry_ns, empty=empty)


_KINDS: dict[type, str] = {wire.Put: "put", wire.PutUnique: "put_unique", wire.Subtract: "subtract", wire.Add: "add"}
