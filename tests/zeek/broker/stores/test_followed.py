"""A store of the hub as the copy of one at a Zeek."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hub.errors import HubError, StoreError
from hub.stores.change import Change, ChangeKind
from hub.stores.command import Command
from hub.stores.limits import StoreLimits
from hub.stores.store import Store
from peers.stores.operations import TypedOperations
from peers.values import Count, encode, to_msgpack
from peers.zeek.broker.stores.command import Clear, Erase, Expire, Put, entity
from peers.zeek.broker.stores.followed import FollowedStore
from peers.zeek.broker.stores.served import publisher_of
from tests.zeek.broker.recorded import HIGH

MASTER = entity(HIGH, 8)
A, B, ONE, TWO = encode("a"), encode("b"), encode(Count(1)), encode(Count(2))


class Copy:
    """A store of the hub that follows, and what has changed in it."""

    def __init__(self, limits: StoreLimits | None = None) -> None:
        self.store = Store("copy", TypedOperations(), limits or StoreLimits())
        self.changes: list[Change] = []
        self.states: list[str] = []
        self.error: HubError | None = None
        self.followed = FollowedStore(self, lambda: self.store.entries, self.states.append)

    def apply(
        self,
        commands: Iterable[Command | StoreError],
        then: Callable[[list[Change | StoreError | None], HubError | None], object],
        publisher: object = None,
        user: str | None = None,
        _: object = None,
    ) -> None:
        """As `StoreOwner`."""
        outcomes: list[Change | StoreError | None] = []
        for command in commands:
            assert isinstance(command, Command)
            try:
                outcomes.append(self.store.apply(command, 0, publisher, user))
            except StoreError as error:
                outcomes.append(error)
        self.changes += [outcome for outcome in outcomes if isinstance(outcome, Change)]
        then(outcomes, self.error)

    def content(self) -> dict[bytes, bytes]:
        """What it holds."""
        return {key: entry[0] for key, entry in self.store.entries.items()}

    def told(self) -> list[tuple[int, bytes]]:
        """Kinds and keys of the changes since the last call."""
        told = [(change.kind, change.key) for change in self.changes]
        self.changes.clear()
        return told


def packed(*entries: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    """As the store has them."""
    return {to_msgpack(key): to_msgpack(value) for key, value in entries}


def test_a_content_that_comes_anew() -> None:
    """What is the same is not touched, so that watchers hear only of what differs."""
    copy = Copy()
    copy.followed.replace([(A, ONE), (B, ONE)])
    assert copy.content() == packed((A, ONE), (B, ONE))
    copy.told()
    copy.followed.lose("the master was silent")
    assert copy.content() == packed((A, ONE), (B, ONE))
    copy.followed.replace([(B, TWO)])
    assert copy.content() == packed((B, TWO))
    assert copy.told() == [(ChangeKind.ERASE, to_msgpack(A)), (ChangeKind.PUT, to_msgpack(B))]
    copy.followed.replace([(B, TWO)])
    assert copy.told() == []
    assert copy.states == ["", "the master was silent", "", ""]


def test_changes() -> None:
    """Each is told with who has made it; what has expired at the master is gone, and nothing expires by itself."""
    copy = Copy()
    for change in (Put(A, ONE, 5, MASTER), Put(B, TWO, None, MASTER), Expire(A, MASTER), Erase(B, MASTER)):
        copy.followed.change(change)
    assert copy.content() == {}
    assert {change.publisher for change in copy.changes} == {publisher_of(MASTER)}
    assert copy.changes[0].expires_ns is None
    copy.followed.change(Put(A, ONE, None, MASTER))
    copy.followed.change(Clear(MASTER))
    assert copy.content() == {}
    assert copy.followed.refused == 0


def test_what_cannot_be_held() -> None:
    """It is counted, and the rest is there."""
    copy = Copy(StoreLimits(entries=1))
    copy.followed.replace([(A, ONE), (B, ONE), (ONE, b"\x0f"), (b"", ONE)])
    assert copy.content() == packed((A, ONE))
    assert copy.followed.refused == 3
    copy.followed.change(Put(b"\x0f", ONE, None, MASTER))
    copy.error = StoreError("the disk is full")
    copy.followed.change(Put(A, TWO, None, MASTER))
    assert copy.followed.refused == 5
