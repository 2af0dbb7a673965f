"""`Writes`: what clients of the hub want changed in a store that follows one at a Zeek.

```
commands ─▶ wishes, each under a publisher of its own ─▶ clone ─▶ master at a Zeek
answers ◀─ change of the copy ◀─ told by that publisher ◀──────── has granted it
        ◀─ none, or refused ◀─── the copy has all that the master has told since it confirmed the wish
```

A master says only what has changed. So a wish is known to be granted once a change comes back that bears its publisher,
and known to have changed nothing once the master has confirmed it and the copy has everything from before that. What is
asked of an entry that the copy has is tried there first, so that a clash of types is told as by the hub's own stores:
a master at a Zeek would log it, or do something else that goes with the type. Broker has no versions, and no condition
but that there is no entry.

What a user asks for is charged to him while it is on its way (`charges`), and in the copy as in any other store.

Owner: the connections of one hub. Invariants: each command is answered once; what has no answer when the master is lost
is answered with that. A wish is not sent to another master. Bounds: those of the clone. Cost: 10 µs a command.
No I/O, no clock. Not here: who may write (`peers.stores.master`), the channel (`peers.zeek.broker.stores.clone`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from hub.errors import BusyError, CloseCode, HubError, StoreError
from hub.stores.change import Change
from hub.stores.command import Command
from hub.stores.store import Store
from peers.values import InvalidDataError, encode, from_msgpack
from peers.values.layout import Tag
from peers.zeek.broker.stores.charges import Charges
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import Add, Clear, Erase, Put, Subtract
from peers.zeek.broker.stores.master import Wish

__all__ = ["Writes", "Written"]

Outcome = Change | StoreError | None
Then = Callable[[list[Outcome], HubError | None], object]

_PLAIN: Final = frozenset({"put", "put_unique", "erase", "clear"})
_ADDING: Final = {"append": Tag.STRING, "insert": Tag.SET, "insert_entry": Tag.TABLE, "push": Tag.VECTOR}
"""What a missing entry begins as; that of a number is of the type of what is added."""
_SUBTRACTING: Final = frozenset({"decrement", "remove", "pop", "subtract"})
_NONE: Final = encode(None)
"""Stands for the value where there is none: a pop."""


class Written:
    """One command on its way.

    Args:
        command: Which, with its canonical key.
        publisher: Who has asked for it, as those are told who read changes.
        done: Called once with what has become of it.
        user: Who is charged.
    """

    __slots__ = ("command", "done", "number", "publisher", "user")

    def __init__(
        self, command: Command, publisher: object, done: Callable[[Outcome], object], user: str | None = None
    ) -> None:
        self.command = command
        self.publisher = publisher
        self.done = done
        self.user = user
        self.number = 0
        """Its number among the wishes to the master; 0 until it has one."""


class _Answers:
    """The outcomes of commands that were asked for together."""

    __slots__ = ("_left", "_outcomes", "_then")

    def __init__(self, count: int, then: Then) -> None:
        self._outcomes: list[Outcome] = [None] * count
        self._left = count
        self._then = then

    def give(self, place: int, outcome: Outcome) -> None:
        """One is known."""
        self._outcomes[place] = outcome
        self._left -= 1
        if not self._left:
            self._then(self._outcomes, None)


class Writes:
    """Of one store.

    Args:
        known: The name of the store at the Zeek.
        store: The copy, to be looked at.
        entities: Makes a new entity of this node at each call.
        is_announced: Whether a Zeek that is peered has the master. Where none has, the copy may follow it still.
    """

    __slots__ = ("_charges", "_entities", "_is_announced", "_keys", "_known", "_store", "_written", "clone")

    clone: Clone
    """Where wishes go; set by whoever makes both."""

    def __init__(
        self, known: str, store: Store, entities: Callable[[], bytes], is_announced: Callable[[], bool] = lambda: True
    ) -> None:
        self._known = known
        self._store = store
        self._entities = entities
        self._is_announced = is_announced
        # By publisher, in the order of their numbers; and how many of them there are of each key.
        self._written: OrderedDict[bytes, Written] = OrderedDict()
        self._keys: Counter[bytes] = Counter()
        self._charges = Charges(store)

    def __len__(self) -> int:
        """Return how many wait for their answers."""
        return len(self._written)

    def apply(
        self,
        commands: Iterable[Command | StoreError],
        then: Then,
        publisher: object = None,
        user: str | None = None,
    ) -> None:
        """Have commands carried out; see `peers.stores.master.Master.apply`."""
        asked = list(commands)
        if not asked:
            then([], None)
        answers = _Answers(len(asked), then)
        for place, command in enumerate(asked):
            done = partial(answers.give, place)
            try:
                if isinstance(command, StoreError):
                    raise command
                self._ask(command, publisher, done, user)
            except StoreError as error:
                done(error)

    def _ask(self, command: Command, publisher: object, done: Callable[[Outcome], object], user: str | None) -> None:
        if command.if_version is not None:
            text = f"the store follows {self._known!r} of a Zeek, which knows no versions: put_unique does"
            raise StoreError(text)
        if not self.clone.is_attached or not self._is_announced():
            text = f"the store follows {self._known!r} of a Zeek, and no Zeek has its master now"
            raise StoreError(text, CloseCode.TRY_AGAIN_LATER)
        command, size = self._checked(command)
        if user is not None and size:
            self._charges.add(user, command.key, size)
        else:
            user = None
        who = self._entities()
        written = self._written[who] = Written(command, publisher, done, user)
        self._keys[command.key] += 1
        try:
            if command.kind == "put_unique":
                key, value = _bodies(command)
                told = partial(self._unique, who)
                written.number = self.clone.put_unique(key, value, command.expiry_ns, told, who)
            else:
                written.number = self.clone.write(_wish_of(command, who))
        except (BusyError, StoreError) as error:
            self._pop(who)
            if isinstance(error, StoreError):
                raise
            raise StoreError(str(error), CloseCode.TRY_AGAIN_LATER) from error

    def _checked(self, command: Command) -> tuple[Command, int]:
        """Return a command with its canonical key, and how large the entry may become by it (0: there will be none).

        Raises:
            StoreError: The copy could not do that.
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
            size += len(entry[0])  # at most: what it becomes is for the master to say
            if not self._keys[key]:
                size = len(key) + len(operations.apply(command.kind, entry[0], command.value, command.empty))
        return Command(command.kind, key, command.value, command.expiry_ns, None, command.empty), size

    # What becomes of them.

    def take(self, publisher: bytes) -> Written | None:
        """Return the command whose wish was granted, by the publisher of a change; None for those of others.

        It is answered by whoever takes it.
        """
        return self._pop(publisher) if publisher in self._written else None

    def settled(self, number: int) -> None:
        """All changes have come that wishes up to this number have led to: the others have changed nothing."""
        while self._written:
            who, written = next(iter(self._written.items()))
            if not 0 < written.number <= number:
                break
            self._pop(who)
            written.done(None if written.command.kind == "erase" else self._not_done(written.command.kind))

    def tick(self) -> None:
        """Let a tick pass: whoever waits for a master whose Zeek has gone is told so."""
        if self._written and not self._is_announced():
            self.lose("the Zeek that has the master has gone")

    def lose(self, reason: str) -> None:
        """The master is lost: nobody will say what has become of what was not answered."""
        for who in list(self._written):
            text = f"{reason}: nobody knows whether it was carried out"
            self._pop(who).done(StoreError(text, CloseCode.INTERNAL_ERROR))

    def _unique(self, who: bytes, is_new: bool | None) -> None:  # noqa: FBT001 -- called with what it is
        """The master has said whether there was no entry."""
        if who in self._written:  # or the change was told, and has answered it
            written = self._pop(who)
            written.done(self._not_done("put_unique") if is_new is not False else None)

    def _not_done(self, kind: str) -> StoreError:
        why = "there is no entry with this key, or its type does not go with that"
        return StoreError(f"{kind}: the master of {self._known!r} has not done it, as {why}")

    def _pop(self, who: bytes) -> Written:
        written = self._written.pop(who)
        key = written.command.key
        if written.user is not None:
            self._charges.remove(written.user, key)
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]
        return written


def _bodies(command: Command) -> tuple[bytes, bytes]:
    """Return key and value in Broker's binary format.

    Raises:
        StoreError: They have no such form.
    """
    try:
        return from_msgpack(command.key), _NONE if command.value is None else from_msgpack(command.value)
    except InvalidDataError as error:
        raise StoreError(f"a Zeek cannot have it: {error}") from error


def _wish_of(command: Command, who: bytes) -> Wish:
    """Return what the master is asked for.

    Raises:
        StoreError: It cannot be asked for that.
    """
    kind, expiry_ns = command.kind, command.expiry_ns
    if kind == "clear":
        return Clear(who)
    key, value = _bodies(command)
    if kind == "erase":
        return Erase(key, who)
    if command.value is None and kind != "pop":
        raise StoreError(f"{kind} needs a value")
    if kind == "put":
        return Put(key, value, expiry_ns, who)
    if kind in _SUBTRACTING:
        return Subtract(key, value, expiry_ns, who)
    if kind == "increment":
        return Add(key, value, Tag(value[0]), expiry_ns, who)
    if kind in _ADDING:
        return Add(key, value, _ADDING[kind], expiry_ns, who)
    raise StoreError(f"a store of a Zeek cannot be asked for {kind!r}")
