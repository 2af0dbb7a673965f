"""A store that is kept, its master, and clones as C++ Broker has them, where the hub is killed and starts again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from hub.errors import HubError, StoreError
from hub.stores.command import Change, Command
from hub.stores.store import Kept, Store
from peers.stores.operations import TypedOperations
from peers.zeek.broker.messages import NIL_ID
from peers.zeek.broker.stores.command import decode_command, entity, node_of
from peers.zeek.broker.stores.master import Master, MasterCounters, MasterLimits
from tests.zeek.broker.stores.network import CALM, Network
from tests.zeek.broker.stores.simulated import node_id
from tests.zeek.broker.stores.strict import StrictClone

__all__ = ["KeptHub"]

HUB = node_id(0xFF)

Outcomes = list[Change | StoreError | None]
Notes = Mapping[str, bytes | None]


class KeptHub:
    """What a hub does with a store in a file, and what is left of it when it is killed."""

    def __init__(self, seed: int = 0, master_limits: MasterLimits | None = None) -> None:
        self.network = Network(seed)
        self.clones: list[StrictClone] = []
        self.objects = count(100)
        self.master_limits = master_limits
        self.now_ns = 10**18
        self.counters = MasterCounters()
        self.is_certain = True
        self.is_noting = True
        # The file.
        self.rows: dict[bytes, Kept] = {}
        self.number = 0
        self.kept: dict[str, bytes] = {}
        # What a kill loses.
        self.waiting: list[tuple[list[Change], Callable[[HubError | None], object], Notes]] = []
        self.start()

    # The hub.

    def start(self) -> None:
        """Begin with what is in the file."""
        self.waiting = []
        self.notes = dict(self.kept)
        self.store = Store("db", TypedOperations(), number=self.number)
        self.store.restore(list(self.rows.values()), self.number)
        self.listeners: list[Callable[[Sequence[Change]], object]] = []
        self.noters: list[Callable[[Sequence[Change]], Notes]] = []
        self.master = Master(
            "db",
            HUB,
            next(self.objects),
            self,
            self._send,
            now_ns=lambda: self.now_ns,
            limits=self.master_limits,
            counters=self.counters,
        )
        self.network.join("hub", lambda _, data: self.master.hear(decode_command(data), len(data)))
        self.network.cut.discard("hub")

    def kill(self) -> None:
        """Lose what is not in the file."""
        self.network.cut.add("hub")
        self.waiting = []

    def apply(
        self,
        commands: Iterable[Command | StoreError],
        then: Callable[[Outcomes, HubError | None], object] = lambda *_: None,
        publisher: object = None,
        user: str | None = None,
        note: Callable[[Outcomes], Notes] | None = None,
    ) -> None:
        """As the owner of a store."""
        outcomes: Outcomes = []
        for command in commands:
            try:
                outcomes.append(
                    command
                    if isinstance(command, StoreError)
                    else self.store.apply(command, self.now_ns, publisher, user)
                )
            except StoreError as error:
                outcomes.append(error)
        changes = [outcome for outcome in outcomes if isinstance(outcome, Change)]
        notes = {**self._noted(changes), **(note(outcomes) if note is not None else {})}
        if changes or notes:
            self._keep(changes, lambda error: then(outcomes, error), notes)
        else:
            then(outcomes, None)

    def _noted(self, changes: list[Change]) -> Notes:
        return (
            {name: each for noter in self.noters for name, each in noter(changes).items()}
            if changes and self.is_noting
            else {}
        )

    def _keep(self, changes: list[Change], then: Callable[[HubError | None], object], notes: Notes) -> None:
        self.waiting.append((changes, then, notes))

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        """As the owner of a store."""
        if self.waiting:
            self._keep([], then, {})
        else:
            then(None)

    def commit(self) -> None:
        """Write what waits into the file, and tell it."""
        waiting, self.waiting = self.waiting, []
        for changes, _, notes in waiting:
            for change in changes:
                self.number = change.number
                if change.kind == 3:
                    self.rows.clear()
                elif change.value is None:
                    del self.rows[change.key]
                else:
                    self.rows[change.key] = Kept(change.key, change.value, change.number, change.expires_ns)
            for name, value in notes.items():
                if value is None:
                    self.kept.pop(name, None)
                else:
                    self.kept[name] = value
        for changes, then, _ in waiting:
            for listener in self.listeners if changes else ():
                listener(changes)
            then(None)

    # Clones.

    def attach(self) -> StrictClone:
        """One more clone, at a node of its own."""
        number = len(self.clones) + 1
        name = f"clone {number}"
        clone = StrictClone(entity(node_id(number), 7), lambda _, command: self.network.send(name, "hub", command))
        self.network.join(name, lambda _, data: clone.hear(decode_command(data), len(data)))
        self.clones.append(clone)
        clone.begin()
        return clone

    def _send(self, to: bytes, command: bytes) -> None:
        for number, clone in enumerate(self.clones, 1):
            if to in (NIL_ID, node_of(clone.own)):
                self.network.send("hub", f"clone {number}", command)

    # Time.

    def tick(self, ticks: int = 1, *, commits: bool = True) -> None:
        """Let time pass for everybody."""
        for _ in range(ticks):
            self.now_ns += 100_000_000
            if "hub" not in self.network.cut:
                expired = self.store.expire(self.now_ns)
                if expired:
                    self._keep(expired, lambda _: None, self._noted(expired))
                if commits:
                    self.commit()
                self.master.tick()
            for clone in self.clones:
                clone.tick()
            self.network.deliver()

    def settle(self, ticks: int = 100) -> None:
        """Let nothing be lost any more."""
        self.network.faults = CALM
        self.tick(ticks)

    @property
    def content(self) -> dict[bytes, bytes]:
        """What clones should have."""
        return dict(self.master.entries())

    def is_equal(self) -> bool:
        """Whether all copies are as the store, and nobody has given up."""
        return all(clone.content == self.content and not clone.is_broken for clone in self.clones)
