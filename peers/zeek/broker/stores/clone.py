"""`Clone`: a store of this hub as the copy of a store whose master is at a Broker endpoint.

```
nack [0] ─▶ ack_clone: the whole content ─▶ changes in their order ─▶ the store's owner
commands of clients ─▶ attach_writer, then wishes, each with a publisher of its own ─▶ master
answers ◀─ a change by that publisher ◀──────────────────────────────────────────── has granted it
        ◀─ none, or refused ◀─ the copy has all changes that the master had made when it confirmed the wish
```

A master sends only changes. So a wish is granted once a change comes back with its publisher, and has changed nothing
once the master has confirmed it and the copy has all changes up to a number that came behind the confirmation. A clone
that has lost its place starts again, as another entity, and its wishes are not sent to another master.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hub.errors import CloseCode, HubError, StoreError
from hub.stores.command import Command
from peers.values import InvalidDataError, encode, from_msgpack, to_msgpack
from peers.values.binary import Tag
from peers.zeek.broker.messages import NIL_ID
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
from peers.zeek.broker.stores.master import Outcome, StoreOwner, Then, Wish, publisher_of

_PLAIN: Final = frozenset({"put", "put_unique", "erase", "clear"})
_ADDING: Final = {"append": Tag.STRING, "insert": Tag.SET, "insert_entry": Tag.TABLE, "push": Tag.VECTOR}
"""Type of a missing entry; that of a number is the type of the number that is added."""
_SUBTRACTING: Final = frozenset({"decrement", "remove", "pop", "subtract"})
_NONE: Final = encode(None)  # the value of a pop


@dataclass(slots=True)
class _Written:
    """One command on its way, with its canonical key; `number` is that of the wish."""

    command: Command
    publisher: object
    done: Callable[[Outcome], object]
    user: str | None
    number: int = 0


class Clone:
    """The copy of one store.

    Each command is answered once, also when the master is lost. Expiries are the master's. A value that the store
    cannot hold is missing in it, and counted. A user is charged for commands on their way.

    Args:
        known: Name of the store at the Zeek.
        owner: Changes the copy.
        entities: Makes a new entity of this node at each call.
        send: Called with the id of a node, nil for all, and a command for the topic of masters.
        on_state: Called with the reason why the copy follows no master any more, and with "" once it does.
        is_announced: Whether a Zeek that is peered has the master. Where none has, the copy may follow it still.
        limits: Of each direction.
        counters: Updated.
    """

    def __init__(  # noqa: PLR0913 -- each is another thing
        self,
        known: str,
        owner: StoreOwner,
        entities: Callable[[], bytes],
        send: Callable[[bytes, bytes], None],
        on_state: Callable[[str], object],
        *,
        is_announced: Callable[[], bool] = lambda: True,
        limits: ChannelLimits | None = None,
        counters: ChannelCounters | None = None,
    ) -> None:
        self._known, self._owner, self._store, self._entities = known, owner, owner.store, entities
        self._send, self._on_state, self._is_announced = send, on_state, is_announced
        self._limits = limits or ChannelLimits()
        self._counters = counters or ChannelCounters()
        self.refused = 0  # Changes that the store could not make: it is full, or a value is too large for it
        self._asker = entities()  # of results of `put_unique`
        self._written: OrderedDict[bytes, _Written] = OrderedDict()
        """Commands that wait for their answers, by publisher, in the order of their numbers."""
        self._keys: Counter[bytes] = Counter()  # of these commands
        self._charges: dict[str, dict[bytes, list[int]]] = {}
        """By user and key: commands on their way, and how many entries and bytes more these may be charged."""
        self._charged: Counter[tuple[str, int]] = Counter()  # Sums of entries (1) and bytes (2) of each user
        self._requests = 0
        self._unique: dict[int, bytes] = {}  # publishers of `put_unique`, by request
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._own = self._entities()
        self._master = b""  # until it is found
        self._consumer = Consumer(
            self._take,
            lambda number: self.restart(f"change {number} is lost for good"),
            self._say,
            self._limits,
            self._counters,
        )
        self._heard = 0  # the highest number that the master is known to have used
        self._silent_ticks = self._ticks = 0
        # The channel to the master.
        self._is_writer = self._is_known_writer = False
        self._number = self._acked = FIRST_NUMBER
        self._sent: dict[int, bytes] = {}  # Unconfirmed wishes, by number
        self._sent_bytes = 0
        self._last_write_tick = 0
        self._confirmed = self._fenced = 0  # the last wish that is confirmed, and that has a fence
        self._fences: deque[tuple[int, int]] = deque()
        """Wishes, and the number of the change with which the copy has everything that came of them."""

    @property
    def is_attached(self) -> bool:
        return self._consumer.is_attached

    @property
    def is_idle(self) -> bool:
        """Whether the copy has all known changes, and the master every wish."""
        return self._consumer.is_idle and not self._sent and not self._written

    def __len__(self) -> int:
        return len(self._written)  # commands that wait for their answers

    def begin(self) -> None:
        self._consumer.ask()

    def restart(self, reason: str) -> None:
        self._consumer.stop()
        self._begin_anew()
        self._answer_all(reason)
        self._on_state(reason)
        self._consumer.ask()

    def hear(self, command: wire.Command, size_bytes: int) -> None:
        """Take a command from the topic of clones; the caller has checked that its sender is of the node."""
        seq, sender, receiver, content = command
        if isinstance(content, wire.AckClone):
            if receiver == self._own and not self._consumer.is_attached:
                self._master = sender
                self._silent_ticks = 0
                self._replace(content.entries)
                self._heard = content.offset
                self._consumer.attach(content.offset)
        elif sender == self._master:
            self._silent_ticks = 0
            self._hear_master(seq, receiver, content, size_bytes)
            while self._fences and self._consumer.next > self._fences[0][1]:
                self._settle(self._fences.popleft()[0])

    def _hear_master(self, seq: int, receiver: bytes, content: wire.Content, size_bytes: int) -> None:
        match content:
            case wire.CumulativeAck() | wire.Nack():
                if receiver == self._own and self._is_writer:
                    self._hear_of_wishes(content)
            case wire.Keepalive():
                self._consumer.hear_end(content.number)
                self._fence(content.number)
            case wire.RetransmitFailed():
                if receiver == self._own:
                    self._consumer.hear(content.number, None)
            case wire.Put() | wire.Erase() | wire.Expire() | wire.Clear() | wire.PutUniqueResult():
                self._consumer.hear(seq, content, size_bytes)
                if seq > self._heard:  # or it was sent again, and is no sign of later confirmations
                    self._fence(seq)

    def tick(self) -> None:
        """Let a tick (100 ms) pass."""
        self._consumer.tick()
        if self._is_writer:
            self._ticks += 1
            if self._last_write_tick + HEARTBEAT_TICKS == self._ticks:
                self._last_write_tick = self._ticks
                self._control(wire.NIL_ENTITY, wire.Keepalive(self._number))
            if self._ticks % HEARTBEAT_TICKS == 0 and not self._is_known_writer:
                self._shake_hands()
        self._silent_ticks += 1
        if self._master and self._silent_ticks > SILENT_TICKS:
            self.restart("the master was silent for too long")
        if self._written and not self._is_announced():
            self._answer_all("the Zeek that has the master has gone")

    def _say(self, content: wire.CumulativeAck | wire.Nack) -> None:
        receiver = self._master or wire.NIL_ENTITY
        self._send(wire.node_of(receiver), wire.encode_command(wire.Command(0, self._own, receiver, content)))

    # The copy.

    def _replace(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Hold these entries and no others; only differences are changes of the store."""
        wanted: dict[bytes, bytes] = {}
        for key, value in entries:
            try:
                wanted[to_msgpack(key)] = to_msgpack(value)
            except InvalidDataError:
                self.refused += 1
        held = self._store.entries
        commands = [Command("erase", key) for key in held if key not in wanted]
        commands += [
            Command("put", key, value) for key, value in wanted.items() if key not in held or held[key][0] != value
        ]
        if commands:
            self._owner.apply(commands, self._count)
        self._on_state("")

    def _take(self, action: wire.Action) -> None:
        match action:
            case wire.PutUniqueResult():
                publisher = self._unique.pop(action.request, None) if action.who == self._asker else None
                if publisher is not None and publisher in self._written:  # or its change has answered it
                    self._pop(publisher).done(self._not_done("put_unique") if action.inserted else None)
            case wire.Put() | wire.Erase() | wire.Expire() | wire.Clear():
                self._change(action)

    def _change(self, change: wire.Put | wire.Erase | wire.Expire | wire.Clear) -> None:
        written = self._pop(change.publisher) if change.publisher in self._written else None
        try:
            if isinstance(change, wire.Clear):
                command = Command("clear")
            elif isinstance(change, wire.Put):
                command = Command("put", to_msgpack(change.key), to_msgpack(change.value))
            else:
                command = Command("erase", to_msgpack(change.key))
        except InvalidDataError as error:
            self.refused += 1
            if written is not None:
                written.done(_cannot_hold(str(error)))
            return
        if written is None:
            self._owner.apply([command], self._count, publisher_of(change.publisher))
        else:
            then = partial(self._answer, command, written)
            self._owner.apply([command], then, written.publisher, written.user)

    def _answer(self, command: Command, written: _Written, outcomes: list[Outcome], error: HubError | None) -> None:
        """Answer a client once the change is in the copy; an entry over the user's limits is there nevertheless."""
        if written.user is not None and error is None and isinstance(outcomes[0], StoreError):
            written.user = None
            self._owner.apply([command], partial(self._answer, command, written), written.publisher)
            return
        self._count(outcomes, error)
        outcome = outcomes[0] if error is None else StoreError(str(error))
        written.done(_cannot_hold(outcome.text) if isinstance(outcome, StoreError) else outcome)

    def _count(self, outcomes: list[Outcome], error: HubError | None) -> None:
        self.refused += sum(error is not None or isinstance(outcome, StoreError) for outcome in outcomes)

    # Commands of clients.

    def apply(
        self, commands: Iterable[Command | StoreError], then: Then, publisher: object = None, user: str | None = None
    ) -> None:
        """Carry out commands at the master; see `peers.stores.master.Master.apply`."""
        asked = list(commands)
        outcomes: list[Outcome] = [None] * len(asked)
        left = len(asked)

        def done(place: int, outcome: Outcome) -> None:
            nonlocal left
            outcomes[place] = outcome
            left -= 1
            if not left:
                then(outcomes, None)

        if not asked:
            then([], None)
        for place, command in enumerate(asked):
            try:
                if isinstance(command, StoreError):
                    raise command
                self._ask(command, publisher, partial(done, place), user)
            except StoreError as error:
                done(place, error)

    def _ask(self, command: Command, publisher: object, done: Callable[[Outcome], object], user: str | None) -> None:
        if command.if_version is not None:
            text = f"the store follows {self._known!r} of a Zeek, which knows no versions: put_unique does"
            raise StoreError(text)
        if not self.is_attached or not self._is_announced():
            text = f"the store follows {self._known!r} of a Zeek, and no Zeek has its master now"
            raise StoreError(text, CloseCode.TRY_AGAIN_LATER)
        if len(self._sent) >= self._limits.actions or self._sent_bytes >= self._limits.bytes:
            text = f"the master of the store has not confirmed {len(self._sent)} changes"
            raise StoreError(text, CloseCode.TRY_AGAIN_LATER)
        command, size = self._checked(command)
        self._requests += 1
        who = self._entities()
        wish = self._wish_of(command, who)
        if user is not None and size:
            self._charge(user, command.key, size)
        else:
            user = None
        if isinstance(wish, wire.PutUnique):
            self._unique[wish.request] = who
        written = self._written[who] = _Written(command, publisher, done, user)
        self._keys[command.key] += 1
        written.number = self._write(wish)

    def _checked(self, command: Command) -> tuple[Command, int]:
        """Return a command with its canonical key, and the largest size of the entry afterwards (0: there is none).

        It is tried at the copy, as a master at a Zeek would log a clash of types, or do something else.
        """
        if command.kind == "clear":
            return command, 0
        operations, limits = self._store.operations, self._store.limits
        key = operations.canonical(command.key)
        size = len(key) + len(command.value or b"")
        if size > limits.entry_bytes:
            raise StoreError(f"an entry of {size} bytes, the limit is {limits.entry_bytes}", CloseCode.TOO_BIG)
        entry = self._store.entries.get(key)
        if command.kind == "erase":
            size = 0
        elif command.kind not in _PLAIN and entry is not None:
            size += len(entry[0])  # at most: the master decides
            if not self._keys[key]:
                size = len(key) + len(operations.apply(command.kind, entry[0], command.value, command.empty))
        return Command(command.kind, key, command.value, command.expiry_ns, None, command.empty), size

    def _wish_of(self, command: Command, who: bytes) -> Wish:  # noqa: PLR0911 -- a table of kinds
        kind, expiry_ns = command.kind, command.expiry_ns
        if kind == "clear":
            return wire.Clear(who)
        try:
            key = from_msgpack(command.key)
            value = _NONE if command.value is None else from_msgpack(command.value)
        except InvalidDataError as error:
            raise StoreError(f"a Zeek cannot have it: {error}") from error
        if kind == "erase":
            return wire.Erase(key, who)
        if command.value is None and kind != "pop":
            raise StoreError(f"{kind} needs a value")
        if kind == "put":
            return wire.Put(key, value, expiry_ns, who)
        if kind == "put_unique":
            return wire.PutUnique(key, value, expiry_ns, self._asker, self._requests, who)
        if kind in _SUBTRACTING:
            return wire.Subtract(key, value, expiry_ns, who)
        if kind == "increment":
            return wire.Add(key, value, Tag(value[0]), expiry_ns, who)
        if kind in _ADDING:
            return wire.Add(key, value, _ADDING[kind], expiry_ns, who)
        raise StoreError(f"a store of a Zeek cannot be asked for {kind!r}")

    def _charge(self, user: str, key: bytes, size: int) -> None:
        """Charge a user for an entry that is on its way; each key counts once."""
        keys = self._charges.get(user, {})
        commands, entries, size_bytes = keys.get(key, (0, 0, 0))
        others = self._charged[user, 1] - entries, self._charged[user, 2] - size_bytes
        more_entries, more_bytes = self._store.check_user(user, key, size, *others)
        entries, size_bytes = max(entries, more_entries), max(size_bytes, more_bytes)
        self._charged[user, 1], self._charged[user, 2] = others[0] + entries, others[1] + size_bytes
        keys[key] = [commands + 1, entries, size_bytes]
        self._charges[user] = keys

    def _discharge(self, user: str, key: bytes) -> None:
        keys = self._charges[user]
        keys[key][0] -= 1
        if not keys[key][0]:
            _, entries, size_bytes = keys.pop(key)
            self._charged[user, 1] -= entries
            self._charged[user, 2] -= size_bytes
        if not keys:
            del self._charges[user], self._charged[user, 1], self._charged[user, 2]

    # Answers.

    def _settle(self, number: int) -> None:
        """All changes of wishes up to this number have come: the others have changed nothing."""
        while self._written:
            who, written = next(iter(self._written.items()))
            if not 0 < written.number <= number:
                break
            self._pop(who)
            written.done(None if written.command.kind == "erase" else self._not_done(written.command.kind))

    def _answer_all(self, reason: str) -> None:
        for publisher in list(self._written):
            text = f"{reason}: it may have been carried out or not"
            self._pop(publisher).done(StoreError(text, CloseCode.INTERNAL_ERROR))
        self._unique.clear()

    def _not_done(self, kind: str) -> StoreError:
        why = "there is no entry with this key, or its type does not go with that"
        return StoreError(f"{kind}: the master of {self._known!r} has not done it, as {why}")

    def _pop(self, who: bytes) -> _Written:
        written = self._written.pop(who)
        key = written.command.key
        if written.user is not None:
            self._discharge(written.user, key)
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]
        return written

    # The channel to the master.

    def _write(self, wish: Wish) -> int:
        if not self._is_writer:
            self.attach_writer()
        self._number += 1
        command = wire.encode_command(wire.Command(self._number, self._own, self._master, wish))
        self._sent[self._number] = command
        self._sent_bytes += len(command)
        self._last_write_tick = self._ticks
        self._send(NIL_ID, command)
        return self._number

    def attach_writer(self) -> None:
        self._is_writer = True
        self._shake_hands()

    def _shake_hands(self) -> None:
        self._control(self._master, wire.AttachWriter(self._acked, HEARTBEAT_TICKS))

    def _control(self, receiver: bytes, content: wire.Content) -> None:
        self._send(NIL_ID, wire.encode_command(wire.Command(0, self._own, receiver, content)))

    def _hear_of_wishes(self, content: wire.CumulativeAck | wire.Nack) -> None:
        if isinstance(content, wire.CumulativeAck):
            self._confirm(content.number)
        elif content.numbers == (0,):
            self._shake_hands()
        elif content.numbers:
            self._confirm(content.numbers[0] - 1)
            for number in content.numbers[:NACK_NUMBERS]:
                if number in self._sent:
                    self._counters.repeated += 1
                    self._send(NIL_ID, self._sent[number])
                elif number <= self._number:
                    self._counters.failed += 1
                    self._control(self._master, wire.RetransmitFailed(number))

    def _confirm(self, number: int) -> None:
        if self._acked <= number <= self._number:
            self._is_known_writer = True
            for each in range(self._acked + 1, number + 1):
                self._sent_bytes -= len(self._sent.pop(each))
            self._acked = self._confirmed = number

    def _fence(self, number: int) -> None:
        """The master has used this number, behind all that it has confirmed."""
        self._heard = max(self._heard, number)
        if self._confirmed > self._fenced:
            self._fences.append((self._confirmed, self._heard))
            self._fenced = self._confirmed


def _cannot_hold(reason: str) -> StoreError:
    return StoreError(f"the master has done it, but this hub cannot store the result: {reason}")
