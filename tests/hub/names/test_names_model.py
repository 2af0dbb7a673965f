"""Names against naive ones: one hub against lists, and hubs that come to the same owner whatever they hear first."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hub.errors import RejectedError
from hub.limits import NameLimits
from hub.names.claim import Announced, Standing
from tests.hub.names.hubs import Client, Hub, settle

names = st.sampled_from(("a.a", "a.b", "b.a"))
labels = st.lists(st.sampled_from("xyz"), max_size=2)
times = st.integers(0, 3)
LIMITS = NameLimits(per_client=2, queue=2, total=2)


class HubAgainstLists(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.hub = Hub(1, LIMITS)
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
        is_full = sum(client in others for others in self.model.values()) >= LIMITS.per_client
        if is_full or (len(claimants) > LIMITS.queue if claimants else len(self.model) >= LIMITS.total):
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
