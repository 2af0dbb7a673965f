"""What the tests of names share: hubs of nothing but names, their clients, and links that deliver when told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from hub.delivery import Role
from hub.far_hub import FarHub
from hub.handler import Handler
from hub.limits import NameLimits
from hub.memory import Memory
from hub.names.claim import Announced, Change, Claim, Standing, Wish
from hub.names.names import Names, Register
from hub.overflow import QueueLimits
from hub.turn import Turn
from tests.hub.fakes import FakeOutlet

LIMITS = QueueLimits()


class Client:
    def __init__(self, hub: Hub, number: int) -> None:
        self.hub = hub
        self.handler = Handler(FakeOutlet(), role=Role.CLIENT, limits=LIMITS, name=f"client-{number}")
        self.handler.attach(number, lambda _: None, lambda _: None)
        self.standing: dict[str, Standing] = {}
        self.told: list[Change] = []

    def claim(self, name: str, *labels: str, queue: bool = False, now_us: int = 0) -> Standing:
        standing = self.hub.names.claim(self.handler, Wish(name, labels, queue), now_us, self.tell)
        self.standing[name] = standing
        return standing

    def release(self, name: str) -> None:
        self.hub.names.release(self.handler, name)
        del self.standing[name]

    def leave(self) -> None:
        self.handler.shut()
        self.hub.names.forget(self.handler)
        self.standing.clear()

    def tell(self, change: Change) -> None:
        self.told.append(change)
        if change.standing is Standing.LOST:
            del self.standing[change.name]
        else:
            self.standing[change.name] = change.standing


@dataclass
class Link:
    there: Hub
    handler: FarHub  # The hub that announces, as the far hub has it
    waiting: deque[tuple[str, Announced | None]] = field(default_factory=deque)
    told: list[tuple[str, Announced | None]] = field(default_factory=list)  # The same, with what was heard

    def tell(self, name: str, announced: Announced | None) -> None:
        self.told.append((name, announced))
        self.waiting.append((name, announced))

    def deliver(self, most: int) -> None:
        for _ in range(min(most, len(self.waiting))):
            name, announced = self.waiting.popleft()
            if announced is None:
                self.there.names.hear(self.handler, [], [name])
            else:
                self.there.names.hear(self.handler, [announced], [])


class Hub:
    def __init__(self, number: int, limits: NameLimits | None = None) -> None:
        self.id = bytes([number]) * 16
        self.events: list[tuple[str, str]] = []
        self.known: dict[str, Claim] = {}
        self.owners: dict[str, Handler | None] = {}
        self.wakes = 0
        self.turn = Turn(self._wake)
        memory = Memory()
        self.names = Names(
            self.id,
            Register(memory.account("names")),
            self.turn,
            limits or NameLimits(),
            memory,
            announce=self._announce,
            on_owner=self._changed,
        )
        self.links: dict[Hub, Link] = {}
        self.names.tell(self._tell)
        self.clients: list[Client] = []

    def client(self) -> Client:
        self.clients.append(Client(self, len(self.clients) + 1))
        return self.clients[-1]

    def connect(self, far: Hub) -> None:
        for here, there in ((self, far), (far, self)):
            link = here.links[there] = Link(there, FarHub(here.id))
            for name, contest in here.names.register.contests():
                if contest.announced is not None:
                    link.tell(name, contest.announced)

    def disconnect(self, far: Hub) -> None:
        for here, there in ((self, far), (far, self)):
            here.names.forget(there.links.pop(here).handler)

    def next_turn(self) -> None:
        self.turn.begin()
        self.names.go_on()

    def owner(self, name: str) -> tuple[bytes, int] | None:
        claim = self.names.register.claim_of(name)
        return None if claim is None else (claim.hub, claim.owner)

    def _announce(self, what: str, claim: Claim) -> None:
        self.events.append((what, claim.name))
        if what == "appeared":
            self.known[claim.name] = claim
        else:
            assert self.known.pop(claim.name, None) is not None, "gone without having appeared"

    def _changed(self, name: str) -> None:
        claim = self.names.register.claim_of(name)
        self.owners[name] = None if claim is None else claim.handler

    def _tell(self, name: str, announced: Announced | None) -> None:
        for link in self.links.values():
            link.tell(name, announced)

    def _wake(self) -> None:
        self.wakes += 1


def settle(hubs: Iterable[Hub]) -> None:
    links = [link for hub in hubs for link in hub.links.values()]
    while any(link.waiting for link in links):
        for link in links:
            link.deliver(len(link.waiting))
