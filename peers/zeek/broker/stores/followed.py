"""`FollowedStore`: a store of this hub as the copy of a store whose master is at a Zeek.

```
master at a Zeek ── the whole content, then each change ─▶ clone ─▶ FollowedStore ─▶ commands ─▶ the store's owner
                                                                        └─ what clients have asked for is answered
```

A content that comes anew is compared with what is there, so that readers of the store's changes are told of what
differs only. What the store cannot hold (its limits) is missing in it, and counted. Expiries are the master's: the
store keeps none, and is told what has expired.

Owner: the connections of one hub. Cost: 3 to 5 µs an entry or a change. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from hub.errors import HubError, StoreError
from hub.stores.change import Change
from hub.stores.command import Command
from hub.stores.store import Entry
from peers.values import InvalidDataError, to_msgpack
from peers.zeek.broker.stores.command import Clear, Put
from peers.zeek.broker.stores.master import Change as Told
from peers.zeek.broker.stores.served import StoreOwner, publisher_of
from peers.zeek.broker.stores.writes import Written

__all__ = ["FollowedStore"]


def _nobodys(_: bytes) -> None:
    """Stand in where no client of the hub writes."""


class FollowedStore:
    """See `peers.zeek.broker.stores.clone.Replica`.

    Args:
        owner: Changes the store.
        entries: Of the store, by key.
        on_state: Called with why it follows nobody any more, and with nothing once it does.
        take: Returns which command of a client has led to a change, by the publisher of that; None for none.
    """

    __slots__ = ("_entries", "_on_state", "_owner", "_take", "refused")

    def __init__(
        self,
        owner: StoreOwner,
        entries: Callable[[], Mapping[bytes, Entry]],
        on_state: Callable[[str], object],
        take: Callable[[bytes], Written | None] = _nobodys,
    ) -> None:
        self._owner = owner
        self._take = take
        self._entries = entries
        self._on_state = on_state
        self.refused = 0
        """Changes that the store could not make: it is full, or a value is too large for it."""

    def replace(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Hold these entries and no others."""
        wanted: dict[bytes, bytes] = {}
        for key, value in entries:
            try:
                wanted[to_msgpack(key)] = to_msgpack(value)
            except InvalidDataError:
                self.refused += 1
        held = self._entries()
        commands = [Command("erase", key) for key in held if key not in wanted]
        commands += [
            Command("put", key, value) for key, value in wanted.items() if key not in held or held[key][0] != value
        ]
        if commands:
            self._owner.apply(commands, self._done)
        self._on_state("")

    def change(self, change: Told) -> None:
        """Do as the master has done."""
        written = self._take(change.publisher)
        try:
            command = _command_of(change)
        except InvalidDataError as error:
            self.refused += 1
            if written is not None:
                written.done(StoreError(f"the master has done it, and this hub cannot hold what came of it: {error}"))
            return
        if written is None:
            self._owner.apply([command], self._done, publisher_of(change.publisher))
        elif written.user is None:
            self._owner.apply([command], partial(self._answer, written), written.publisher)
        else:
            then = partial(self._answer_user, command, written)
            self._owner.apply([command], then, written.publisher, written.user)

    def lose(self, reason: str) -> None:
        """Take note that the master is lost: what is there stays, and grows old."""
        self._on_state(reason)

    def _answer_user(
        self, command: Command, written: Written, outcomes: list[Change | StoreError | None], error: HubError | None
    ) -> None:
        """Tell him; what he may not have (he has got something else meanwhile) is in the copy nevertheless."""
        if error is None and isinstance(outcomes[0], StoreError):
            self._owner.apply([command], partial(self._answer, written), written.publisher)
        else:
            self._answer(written, outcomes, error)

    def _answer(self, written: Written, outcomes: list[Change | StoreError | None], error: HubError | None) -> None:
        """Tell a client what has become of its command, once it is in the copy."""
        self._done(outcomes, error)
        outcome = outcomes[0] if error is None else StoreError(str(error))
        if isinstance(outcome, StoreError):
            outcome = StoreError(f"the master has done it, and this hub cannot hold what came of it: {outcome.text}")
        written.done(outcome)

    def _done(self, outcomes: list[Change | StoreError | None], error: HubError | None) -> None:
        if error is not None:
            self.refused += len(outcomes)
        else:
            self.refused += sum(isinstance(outcome, StoreError) for outcome in outcomes)


def _command_of(change: Told) -> Command:
    """Return what the store is asked for.

    Raises:
        InvalidDataError: The key or the value has no form here.
    """
    if isinstance(change, Clear):
        return Command("clear")
    if isinstance(change, Put):
        return Command("put", to_msgpack(change.key), to_msgpack(change.value))
    return Command("erase", to_msgpack(change.key))
