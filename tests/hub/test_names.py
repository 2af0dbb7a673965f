"""Names: claims, queues and announcements, against lists and from hub to hub."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hub.errors import CloseCode, ClosedError, RejectedError
from hub.handlers.delivery import RemoteHub, Role
from hub.handlers.handler import Handler
from hub.limits import NameLimits, QueueLimits
from hub.names.claim import Announced, Change, Claim, Owner, Standing, Wish
from hub.names.names import Names, NamesStatistics, Register
from hub.scheduling.memory import Memory
from hub.scheduling.scheduler import STEPS_PER_TURN, Scheduler
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
        self.hub.forget(self.handler)
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
    handler: RemoteHub  # The hub that announces, as the far hub has it
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
        self.scheduler = Scheduler(self._wake)
        memory = Memory()
        self.names = Names(
            self.id,
            Register(memory.account("names")),
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
            link = here.links[there] = Link(there, RemoteHub(here.id))
            for name, contest in here.names.register.contests():
                if contest.announced is not None:
                    link.tell(name, contest.announced)

    def disconnect(self, far: Hub) -> None:
        for here, there in ((self, far), (far, self)):
            here.forget(there.links.pop(here).handler)

    def forget(self, owner: Owner) -> None:
        self.scheduler.add("names", self.names.forgetting(owner))

    def next_turn(self) -> None:
        self.scheduler.begin()
        self.scheduler.run()

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


@pytest.fixture
def hub() -> Hub:
    return Hub(1)


def test_lists_in_pieces(hub: Hub) -> None:
    one = hub.client()
    for name in ("b.b", "a.c", "a.b", "a.ba", "a.a"):
        one.claim(name)

    for prefix, after, most, names in (
        ("", "", 1000, ["a.a", "a.b", "a.ba", "a.c", "b.b"]),
        ("", "", 2, ["a.a", "a.b"]),
        ("", "a.b", 2, ["a.ba", "a.c"]),
        ("a.b", "", 1000, ["a.b", "a.ba"]),
        ("a.b", "a.b", 1000, ["a.ba"]),
        ("a.b", "a.a", 1000, ["a.b", "a.ba"]),
        *(("a", "a.c", 1000, []), ("c", "", 1000, [])),
    ):
        assert [each["name"] for each in hub.names.register.list(prefix, after, most)] == names


def linked(*numbers: int, limits: NameLimits | None = None) -> list[Hub]:
    hubs = [Hub(number, limits) for number in numbers]
    for index, hub in enumerate(hubs):
        for far in hubs[:index]:
            hub.connect(far)
    return hubs


def test_a_link_with_many_names_goes_in_portions() -> None:
    here, there = linked(1, 2)
    link = there.links[here].handler
    here.names.hear(link, [Announced(f"a.n{number}", (), 1, 1) for number in range(2500)], [])
    assert here.names.statistics().far == 2500
    here.disconnect(there)
    share = STEPS_PER_TURN // 2
    assert (here.names.statistics().far, here.wakes, here.scheduler.is_busy) == (2500 - share, 1, True)
    for _ in range(2500 // share - 1):
        assert here.scheduler.is_busy
        here.next_turn()
    assert here.names.statistics() == NamesStatistics(0, 0, 0, 2500, 0, 0, 0)


def test_bad_announcements_and_too_many() -> None:
    bad = [Announced("bad", (), 1, 1), Announced("a.b", ("ok",), 1, 1), Announced("a.c", ("",), 1, 1)]
    many = [Announced(f"b.{n}", (), 1, 1) for n in "ab"]
    two, one = NameLimits(total=2), NameLimits(per_peer=1)
    for some, limits, code, text, known in (
        (
            bad,
            two,
            CloseCode.BAD_DATA,
            "^2 announced names are rejected: name 'bad' is not a valid name",
            ["a.a", "a.b"],
        ),
        (many, two, CloseCode.TRY_AGAIN_LATER, "1 announced names are rejected: 2 names are known", ["a.a", "b.a"]),
        (many, one, CloseCode.NOT_ALLOWED, "1 announced names are rejected: 1 names of this peer", ["a.a", "b.a"]),
    ):
        hub, far = linked(1, 2, limits=limits)
        hub.client().claim("a.a")
        with pytest.raises(RejectedError, match=text) as caught:
            hub.names.hear(far.links[hub].handler, some, ["never.announced"])
        assert caught.value.code == code
        assert list(hub.known) == known
        assert hub.names.statistics().ignored_total == len(some) - 1


def test_names_of_who_has_left_and_is_not_forgotten_yet() -> None:
    hub = Hub(1, NameLimits(per_client=2 * STEPS_PER_TURN))
    owner, left, next_in_line, other = (hub.client() for _ in range(4))
    for number in range(2 * STEPS_PER_TURN):
        owner.claim(f"a.n{number}")
    left.claim("a.n0", queue=True)
    next_in_line.claim("a.n0", queue=True)
    left.handler.shut()
    owner.leave()
    with pytest.raises(ClosedError, match="not attached"):
        owner.claim("a.n0")
    assert other.claim("a.n0", queue=True) is Standing.QUEUED
    assert (left.told, next_in_line.standing) == ([], {"a.n0": Standing.OWNED})
    assert other.claim("a.n1") is Standing.OWNED
    hub.forget(left.handler)
    while hub.scheduler.is_busy:
        hub.next_turn()
    assert (hub.names.statistics().names, hub.names.statistics().waiting) == (2, 1)


def test_whoever_is_told_of_names_from_now_on_is_told_of_those_of_clients_here() -> None:
    here, there = linked(1, 2)
    here.names.hear(there.links[here].handler, [Announced("a.far", (), 1, 1)], [])
    here.client().claim("a.near", "x", now_us=7)
    told: list[tuple[str, Announced | None]] = []
    here.names.tell(lambda name, announced: told.append((name, announced)))
    assert told == [("a.near", Announced("a.near", ("x",), 7, 1))]


names = st.sampled_from(("a.a", "a.b", "b.a"))
labels = st.lists(st.sampled_from("xyz"), max_size=2)
times = st.integers(0, 3)
FEW = NameLimits(per_client=2, queue=2, total=2)


class HubAgainstLists(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.hub = Hub(1, FEW)
        self.model: dict[str, list[Client]] = {}
        self.labels: dict[tuple[str, Client], list[str]] = {}
        self.clients = [self.hub.client() for _ in range(4)]

    @rule(index=st.integers(0, 3), name=names, wanted=labels, queue=st.booleans(), now_us=times)
    def claim(self, index: int, name: str, wanted: list[str], queue: bool, now_us: int) -> None:  # noqa: FBT001
        client = self.clients[index]
        claimants = self.model.get(name, [])
        outcome = self.expected(client, claimants, queue)
        try:
            assert client.claim(name, *wanted, queue=queue, now_us=now_us) is outcome
        except RejectedError:
            assert outcome is None
            if not queue and client in claimants:
                claimants.remove(client)
                del client.standing[name]
            return
        if client not in claimants:
            self.model.setdefault(name, []).append(client)
        self.labels[name, client] = sorted(set(wanted))

    def expected(self, client: Client, claimants: list[Client], queue: bool) -> Standing | None:  # noqa: FBT001
        if claimants and claimants[0] is client:
            return Standing.OWNED
        if claimants and (client in claimants or not queue):
            return Standing.QUEUED if queue else None
        is_full = sum(client in others for others in self.model.values()) >= FEW.per_client
        if is_full or (len(claimants) > FEW.queue if claimants else len(self.model) >= FEW.total):
            return None
        return Standing.QUEUED if claimants else Standing.OWNED

    @rule(index=st.integers(0, 3), name=names)
    def release(self, index: int, name: str) -> None:
        client = self.clients[index]
        claimants = self.model.get(name, [])
        if client not in claimants:
            with suppress(RejectedError):
                client.release(name)
                raise AssertionError("released what was not claimed")
            return
        client.release(name)
        self.drop(name, client)

    @rule(index=st.integers(0, 3))
    def leave(self, index: int) -> None:
        client = self.clients[index]
        client.leave()
        for name in list(self.model):
            if client in self.model[name]:
                self.drop(name, client)
        self.clients[index] = self.hub.client()

    def drop(self, name: str, client: Client) -> None:
        self.model[name].remove(client)
        if not self.model[name]:
            del self.model[name]

    @invariant()
    def all_is_as_in_the_lists(self) -> None:
        for name in ("a.a", "a.b", "b.a"):
            claimants = self.model.get(name, [])
            assert self.hub.names.register.owner(name) is (claimants[0].handler if claimants else None)
            for client in self.clients:
                standing = None
                if client in claimants:
                    standing = Standing.QUEUED if claimants.index(client) else Standing.OWNED
                assert client.standing.get(name) is standing
        listed = [(each["name"], each["labels"], each["owner"]) for each in self.hub.names.register.list()]
        owners = [(name, self.model[name][0]) for name in sorted(self.model)]
        assert listed == [(name, self.labels[name, owner], owner.handler.id) for name, owner in owners]
        assert {name: list(claim.labels) for name, claim in self.hub.known.items()} == {
            name: wanted for name, wanted, _ in listed
        }
        assert self.hub.names.statistics().waiting == sum(len(those) - 1 for those in self.model.values())


class HubsAgree(RuleBasedStateMachine):
    @initialize(count=st.integers(2, 3))
    def start(self, count: int) -> None:
        self.hubs = [Hub(number) for number in range(1, count + 1)]
        for hub in self.hubs:
            for _ in range(2):
                hub.client()

    def hub(self, index: int) -> Hub:
        return self.hubs[index % len(self.hubs)]

    @rule(index=st.integers(0, 5), name=names, wanted=labels, queue=st.booleans(), now_us=times)
    def claim(self, index: int, name: str, wanted: list[str], queue: bool, now_us: int) -> None:  # noqa: FBT001
        client = self.hub(index).clients[index // 3]
        try:
            client.claim(name, *wanted, queue=queue, now_us=now_us)
        except RejectedError:
            client.standing.pop(name, None)

    @rule(index=st.integers(0, 5), name=names)
    def release(self, index: int, name: str) -> None:
        with suppress(RejectedError):
            self.hub(index).clients[index // 3].release(name)

    @rule(index=st.integers(0, 5))
    def leave(self, index: int) -> None:
        hub = self.hub(index)
        hub.clients[index // 3].leave()
        hub.clients[index // 3] = Client(hub, 10 + hub.wakes + len(hub.events) + index)

    @rule(one=st.integers(0, 2), two=st.integers(0, 2))
    def connect_or_lose(self, one: int, two: int) -> None:
        here, there = self.hub(one), self.hub(two)
        if here is there:
            return
        if there in here.links:
            here.disconnect(there)
        else:
            here.connect(there)

    @precondition(lambda self: any(hub.links for hub in self.hubs))
    @rule(index=st.integers(0, 5), most=st.integers(1, 4))
    def deliver(self, index: int, most: int) -> None:
        links = [link for hub in self.hubs for link in hub.links.values()]
        links[index % len(links)].deliver(most)

    @rule()
    def all_hear_all(self) -> None:
        settle(self.hubs)
        for index, hub in enumerate(self.hubs):
            for far in self.hubs[:index]:
                if far not in hub.links:
                    hub.connect(far)
        held = self.held()
        claimed = {name for hub in self.hubs for client in hub.clients for name in client.standing}
        settle(self.hubs)
        for name in ("a.a", "a.b", "b.a"):
            owners = {hub.owner(name) for hub in self.hubs}
            assert len(owners) == 1
            assert (owners != {None}) or name not in claimed
            ranks = [claim.rank for hub in self.hubs if (claim := hub.names.register.claim_of(name)) is not None]
            assert not ranks or ranks[0] <= min(held.get(name, [ranks[0]]))
            owned = [
                client for hub in self.hubs for client in hub.clients if client.standing.get(name) is Standing.OWNED
            ]
            assert len(owned) == len(ranks[:1])

    def held(self) -> dict[str, list[tuple[int, bytes]]]:
        found: dict[str, list[tuple[int, bytes]]] = {}
        for hub in self.hubs:
            for each in hub.names.register.list():
                claim = hub.names.register.claim_of(each["name"])
                if claim is not None and not claim.handler.is_link:
                    found.setdefault(claim.name, []).append(claim.rank)
        return found

    @invariant()
    def everybody_knows(self) -> None:
        for hub in getattr(self, "hubs", []):
            listed = [each["name"] for each in hub.names.register.list()]
            assert sorted(hub.known) == listed
            for name, claim in hub.known.items():
                assert claim.is_same_to_others(hub.names.register.claim_of(name))
            for name, handler in hub.owners.items():
                assert hub.names.register.owner(name) is handler
            held = {name for name in listed if not hub.names.register.owner(name).is_link}
            for link in hub.links.values():
                assert replayed(link.told) == {name: hub.names.register.claim_of(name).announced for name in held}
            for client in hub.clients:
                owned = {name for name, standing in client.standing.items() if standing is Standing.OWNED}
                assert owned == {name for name in held if hub.names.register.owner(name) is client.handler}


def replayed(told: list[tuple[str, Announced | None]]) -> dict[str, Announced]:
    held: dict[str, Announced] = {}
    for name, announced in told:
        if announced is None:
            del held[name]
        else:
            held[name] = announced
    return held


TestHubAgainstLists = HubAgainstLists.TestCase
TestHubsAgree = HubsAgree.TestCase
