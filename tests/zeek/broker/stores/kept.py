"""A store that is kept, its master, and clones as C++ Broker has them, where the hub is killed and starts again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from hub.errors import HubError
from hub.stores.command import Change
from hub.stores.store import Kept, Store
from peers.stores.operations import TypedOperations
from peers.zeek.broker.messages import NIL_ID
from peers.zeek.broker.stores.command import decode_command, entity, node_of
from peers.zeek.broker.stores.master import Master, MasterCounters, MasterLimits
from tests.zeek.broker.stores.memory import MemoryOwner, Notes
from tests.zeek.broker.stores.network import CALM, Network
from tests.zeek.broker.stores.simulated import node_id
from tests.zeek.broker.stores.strict import StrictClone

HUB = node_id(0xFF)


class KeptHub(MemoryOwner):
    def __init__(self, seed: int = 0, master_limits: MasterLimits | None = None) -> None:
        super().__init__()
        self.network = Network(seed)
        self.clones: list[StrictClone] = []
        self.objects = count(100)
        self.master_limits = master_limits
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
        self.waiting = []
        self.notes = dict(self.kept)
        self.store = Store("db", TypedOperations(), number=self.number)
        self.store.restore(list(self.rows.values()), self.number)
        self.listeners, self.noters = [], []
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
        self.network.cut.add("hub")
        self.waiting = []

    def _noted(self, changes: list[Change]) -> Notes:
        return super()._noted(changes) if changes and self.is_noting else {}

    def _keep(self, changes: list[Change], then: Callable[[HubError | None], object], _notes: Notes) -> None:
        if changes or _notes:
            self.waiting.append((changes, then, _notes))
        else:
            then(None)

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        if self.waiting:
            self.waiting.append(([], then, {}))
        else:
            then(None)

    def commit(self) -> None:
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
        self.network.faults = CALM
        self.tick(ticks)

    @property
    def content(self) -> dict[bytes, bytes]:
        return dict(self.master.entries())

    def is_equal(self) -> bool:
        return all(clone.content == self.content and not clone.is_broken for clone in self.clones)
