"""`HubStore`: a store of this hub, as a master for Zeeks' clones serves it.

```
clone ── wish: bodies in Broker's format ─▶ Command: msgpack ─▶ apply of the store's owner
clones ◀─ put, erase, expire, clear ─────── Change ◀─────────── told by that owner, whoever has made it
```

Keys and values of the hub are msgpack, those of Zeeks are in Broker's binary format; both say the same, but a value of
another client may have no Broker form, as it nests too deep or has too many elements. Such an entry is left out for
Zeeks, and counted; a clone that has had another value under its key is told that there is none.

Who has made a change is told to others as text, `zeek UUID#7` for an entity. What Broker knows as an expiry goes from
when it is told; a clone keeps none, and is told when an entry expires. What a clone writes is charged to the user whom
its Zeek's connection is charged to, as a client's is.

Where the store is kept over restarts, or is in memory and its clones know the hub again, a `Ledger` knows under which
numbers clones are told of what, and this is the `History` that their master asks. What a change has made void that is
not kept yet is not void yet: it is found among the last changes of the store, or cannot be said before that change is
kept.

Owner: the connections of one hub. Cost: 2 to 5 µs an entry in a snapshot, or a change. No I/O; the time is asked for.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from struct import error as StructError  # noqa: N812  an exception, named as one
from typing import Protocol

from hub.errors import HubError, StoreError
from hub.stores.change import Change, ChangeKind
from hub.stores.command import Command
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
from peers.values.layout import Tag
from peers.zeek.broker.stores.channel import Later
from peers.zeek.broker.stores.command import (
    Action,
    Add,
    Clear,
    Erase,
    Expire,
    Put,
    PutUnique,
    PutUniqueResult,
    Subtract,
    entity,
    node_of,
    object_of,
)
from peers.zeek.broker.stores.ledger import By, Ledger
from peers.zeek.broker.stores.master import Change as Told
from peers.zeek.broker.stores.master import Granted, Wish, nothing

__all__ = ["HubStore", "StoreOwner", "entity_of", "publisher_of"]

_ZEEK = "zeek "
"""What the name of a publisher begins with that is an entity at a Zeek."""

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
"""What an addition to a missing key begins with; other types can be added to nothing."""

_EMPTIES = {tag: to_msgpack(encode(zero)) for tag, zero in _ZEROS.items()}


def _nobody(_: bytes) -> None:
    """Stand in where nobody is charged."""


def _ignore(_: str | None, __: str) -> None:
    """Stand in where nobody is told of refusals."""


class StoreOwner(Protocol):
    """Who alone changes a store of the hub, as `peers.stores.master.Master`."""

    def apply(
        self,
        commands: Iterable[Command | StoreError],
        then: Callable[[list[Change | StoreError | None], HubError | None], object],
        publisher: object = None,
        user: str | None = None,
        note: Callable[[list[Change | StoreError | None]], Mapping[str, bytes | None]] | None = None,
    ) -> None:
        """Carry commands out, and call `then` with what came of each, or why it could not be kept.

        What `note` makes of what came of them is kept beside the changes.
        """

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        """Call `then` once all that the store has now is kept, or with why that has failed once."""


def publisher_of(of: bytes) -> str:
    """Return how an entity is named to those who read changes."""
    return f"{_ZEEK}{uuid.UUID(bytes=node_of(of))}#{object_of(of)}"


def entity_of(publisher: object, other: bytes) -> bytes:
    """Return the entity that a publisher is; `other` for whoever is none."""
    if isinstance(publisher, str) and publisher.startswith(_ZEEK):
        node, _, number = publisher.removeprefix(_ZEEK).partition("#")
        with suppress(ValueError, StructError):  # a client may call itself whatever it likes
            return entity(uuid.UUID(node).bytes, int(number))
    return other


class HubStore:
    """See `peers.zeek.broker.stores.master.ServedStore`.

    Args:
        own: The entity of the master, which stands for everybody who is at no Zeek.
        owner: Changes the store.
        store: The store itself, to be looked at.
        now_ns: The time, ns since 1970, by which entries expire.
        ledger: What is known of how clones were told; None where nobody could go on behind a restart.
        user_of: Returns who is charged for what a clone writes, by its entity; None for nobody but the store.
        on_refused: Called with that user and the reason where a wish was not granted: no clone is told.
    """

    __slots__ = (
        "_are_kept",
        "_keys",
        "_ledger",
        "_now_ns",
        "_on_refused",
        "_own",
        "_owner",
        "_store",
        "_user_of",
        "refused",
        "unwritable",
    )

    def __init__(  # noqa: PLR0913 -- each is another thing
        self,
        own: bytes,
        owner: StoreOwner,
        store: Store,
        now_ns: Callable[[], int],
        ledger: Ledger | None = None,
        *,
        user_of: Callable[[bytes], str | None] = _nobody,
        on_refused: Callable[[str | None, str], object] = _ignore,
    ) -> None:
        self._own = own
        self._owner = owner
        self._store = store
        self._now_ns = now_ns
        self._ledger = ledger
        self._user_of = user_of
        self._on_refused = on_refused
        self._keys: dict[int, bytes] | None = None
        """The keys of entries by their versions, while somebody goes through them."""
        self._are_kept = False
        """Whether all of the store is kept that was there when these were gathered."""
        self.refused = 0
        """Wishes that were not granted: a clash of types, a full store, a value that is none."""
        self.unwritable = 0
        """Times that an entry or a change was left out, as it has no Broker form."""

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self._store.entries)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Return the whole content, as far as it has a Broker form."""
        for key, (value, _, _) in self._store.entries.items():
            try:
                yield from_msgpack(key), from_msgpack(value)
            except InvalidDataError:
                self.unwritable += 1

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        """Call `then` once all of the content of now is kept; later with an error if that has failed once."""
        self._owner.when_kept(then)

    def apply(self, wish: Wish, then: Granted, by: By | None = None) -> None:
        """Grant a wish, if it can be."""
        command: Command | StoreError
        try:
            command = _command_of(wish)
        except (InvalidDataError, StoreError) as error:
            command = StoreError(str(error))
        publisher = publisher_of(wish.publisher)
        user = None if by is None else self._user_of(by.writer)
        ledger = self._ledger
        if ledger is None:
            self._owner.apply([command], partial(self._answer, then, user, 0), publisher, user)
            return
        number = 0

        def note(outcomes: list[Change | StoreError | None]) -> Mapping[str, bytes | None]:
            nonlocal number
            answer = None
            if isinstance(wish, PutUnique):
                answer = PutUniqueResult(isinstance(outcomes[0], Change), wish.who, wish.request, self._own)
            notes, number = ledger.note(by, answer)
            return notes

        def done(outcomes: list[Change | StoreError | None], error: HubError | None) -> None:
            if error is None:
                self._answer(then, user, number, outcomes, None)
            else:  # it is told as soon as anything is kept behind it
                self.refused += 1

        self._owner.apply([command], done, publisher, user, note)

    def _answer(
        self,
        then: Granted,
        user: str | None,
        number: int,
        outcomes: list[Change | StoreError | None],
        error: HubError | None,
    ) -> None:
        refusal = outcomes[0] if error is None else error
        if isinstance(refusal, HubError):
            self.refused += 1
            self._on_refused(user, str(refusal))
        inserted = error is None and isinstance(outcomes[0], Change)
        if number:
            then(inserted, number)
        else:
            then(inserted)

    # What is known of numbers.

    @property
    def last(self) -> int:
        """See `History`."""
        return self._known.last

    @property
    def _known(self) -> Ledger:
        if self._ledger is None:
            raise AssertionError("there is no history without a ledger")
        return self._ledger

    def remembers(self, number: int) -> bool:
        """See `History`."""
        return self._known.remembers(number)

    def position(self, writer: bytes) -> int | None:
        """See `History`."""
        return self._known.position(writer)

    def recall(self, number: int) -> Action | Later | None:
        """See `History`."""
        ledger = self._known
        if not ledger.remembers(number):
            return None
        if number <= ledger.first:  # from before the store was empty
            return Clear(self._own) if number == ledger.first else nothing(self._own)
        record = ledger.record(number)
        if record is not None:
            return record
        version = ledger.version_of(number)
        key = self._gathered().get(version)
        if key is None and self._are_kept:
            return nothing(self._own)  # a later change of this key has made it void
        entry = None if key is None else self._store.entries.get(key)
        if key is None or entry is None or entry[1] != version:
            return self._overwritten(version)
        return self._put_or_nothing(key, entry[0])

    def _gathered(self) -> dict[int, bytes]:
        """Return the keys of entries by their versions, as they were a moment ago."""
        if self._keys is None:
            keys = self._keys = {version: key for key, (_, version, _) in self._store.entries.items()}
            self._are_kept = False

            def then(error: HubError | None) -> None:
                if self._keys is keys:
                    self._are_kept = error is None

            self.when_kept(then)
        return self._keys

    def _overwritten(self, version: int) -> Action | Later:
        """Return what a change has put that a later one, which may not be kept yet, has made void."""
        found = self._store.since(version - 1, 1, 1)
        if not found:
            return Later.LATER
        (change,) = found
        return nothing(self._own) if change.value is None else self._put_or_nothing(change.key, change.value)

    def _put_or_nothing(self, key: bytes, value: bytes) -> Put | Erase | PutUniqueResult:
        try:
            return self._put_of(key, value, None, self._own)
        except InvalidDataError:
            return nothing(self._own)

    def rest(self) -> None:
        """See `History`."""
        self._keys = None

    def note(self, changes: Sequence[Change]) -> Mapping[str, bytes | None]:
        """Return what is to be kept beside changes, whoever has made them."""
        contents: dict[int, Erase | Expire | Clear | None] = {}
        for change in changes:
            content = None
            if change.kind != ChangeKind.PUT:
                with suppress(InvalidDataError):
                    content = self._content_of(change)
            contents[change.number] = None if isinstance(content, Put) else content
        return self._known.note_changes(contents)

    def told(self, changes: Sequence[Change]) -> Iterator[Told]:
        """Return what clones are to be told of changes, as far as they have a Broker form."""
        for change in changes:
            try:
                yield self._content_of(change)
            except InvalidDataError:
                self.unwritable += 1

    def _content_of(self, change: Change) -> Told:
        publisher = entity_of(change.publisher, self._own)
        if change.kind == ChangeKind.CLEAR:
            return Clear(publisher)
        key = from_msgpack(change.key)
        if change.kind == ChangeKind.ERASE:
            return Erase(key, publisher)
        if change.kind == ChangeKind.EXPIRE or change.value is None:
            return Expire(key, self._own)
        expiry_ns = None if change.expires_ns is None else max(1, change.expires_ns - self._now_ns())
        return self._put_of(change.key, change.value, expiry_ns, publisher)

    def _put_of(self, key: bytes, value: bytes, expiry_ns: int | None, publisher: bytes) -> Put | Erase:
        body = from_msgpack(key)
        try:
            return Put(body, from_msgpack(value), expiry_ns, publisher)
        except InvalidDataError:
            self.unwritable += 1
            return Erase(body, publisher)  # or clones would keep the value before


def _command_of(wish: Wish) -> Command:
    """Return what a store is asked for.

    Raises:
        InvalidDataError: The key or the value is none.
        StoreError: The type that is to be added to is none that can be.
    """
    match wish:
        case Clear():
            return Command("clear")
        case Erase():
            return Command("erase", to_msgpack(wish.key))
        case Put():
            return Command("put", to_msgpack(wish.key), to_msgpack(wish.value), wish.expiry_ns)
        case PutUnique():
            return Command("put_unique", to_msgpack(wish.key), to_msgpack(wish.value), wish.expiry_ns)
        case Subtract():
            return Command("subtract", to_msgpack(wish.key), to_msgpack(wish.value), wish.expiry_ns)
        case Add():
            empty = _EMPTIES.get(wish.initial)
            if empty is None:
                raise StoreError(f"nothing can be added to a value of type {wish.initial.name.lower()}")
            key, value = to_msgpack(wish.key), to_msgpack(wish.value)
            return Command("add", key, value, wish.expiry_ns, empty=empty)
