"""A store in memory and its owner, for masters and clones of tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hub.errors import HubError, StoreError
from hub.stores.command import Change, Command, StoreLimits
from hub.stores.store import Store
from peers.stores.operations import TypedOperations
from peers.values import from_msgpack, to_msgpack

Outcomes = list[Change | StoreError | None]
Notes = Mapping[str, bytes | None]


class MemoryOwner:
    notes: dict[str, bytes] | None = None
    is_certain = False

    def __init__(self, limits: StoreLimits | None = None) -> None:
        self.store = Store("db", TypedOperations(), limits or StoreLimits())
        self.listeners: list[Callable[[Sequence[Change]], object]] = []
        self.noters: list[Callable[[Sequence[Change]], Notes]] = []
        self.changes: list[Change] = []
        self.now_ns = 10**18
        self.error: HubError | None = None
        """Why nothing can be kept."""

    def apply(
        self,
        commands: Iterable[Command | StoreError],
        then: Callable[[Outcomes, HubError | None], object] = lambda _, __: None,
        publisher: object = None,
        user: str | None = None,
        note: Callable[[Outcomes], Notes] | None = None,
    ) -> None:
        outcomes: Outcomes = []
        for command in commands:
            try:
                if isinstance(command, StoreError):
                    raise command
                outcomes.append(self.store.apply(command, self.now_ns, publisher, user))
            except StoreError as error:
                outcomes.append(error)
        changes = [outcome for outcome in outcomes if isinstance(outcome, Change)]
        notes = {**self._noted(changes), **(note(outcomes) if note is not None else {})}
        self._keep(changes, lambda error: then(outcomes, error), notes)

    def _keep(self, changes: list[Change], then: Callable[[HubError | None], object], _notes: Notes) -> None:
        if self.error is None:
            self._tell(changes)
        then(self.error)

    def _noted(self, changes: list[Change]) -> Notes:
        return {name: each for noter in self.noters for name, each in noter(changes).items()}

    def _tell(self, changes: list[Change]) -> None:
        self.changes += changes
        for listener in self.listeners if changes else ():
            listener(changes)

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        then(self.error)

    def expire(self, key: bytes) -> None:
        self.now_ns += 10**12
        changes = self.store.expire(self.now_ns)
        assert [change.key for change in changes] == [to_msgpack(key)]
        self._noted(changes)
        self._tell(changes)

    @property
    def content(self) -> dict[bytes, bytes]:
        return {from_msgpack(key): from_msgpack(value) for key, (value, _, _) in self.store.entries.items()}
