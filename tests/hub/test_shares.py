"""Users in a core: what their handlers hold is charged to them, and nobody can take what others are promised."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hub.core import Core
from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.handlers.holdings import Allowance
from hub.labels.rules import Rule
from hub.limits import Overflow, QueueLimits
from hub.mesh.announcement import Announcement, Interest, Served
from hub.messages.batch import Batch
from hub.messages.request_frame import Reply, Request, Status
from hub.names.claim import Announced, Wish
from hub.policy.grants import parse_path
from hub.policy.policy import Action, Policy, RolePermissions
from hub.quotas import QuotaLimits, Quotas, Resource, SetLimits, Usage
from hub.scheduling.memory import Memory
from tests.hub.fakes import ROOMY, FakeOutlet, at_once, handler_of, publish
from tests.hub.requests.party import answers

QUEUED = Resource.QUEUED_BYTES
EVERYTHING_GRANTED = RolePermissions({action: [(parse_path("*", action.separator), True)] for action in Action})
EVERYTHING = Policy({"all": EVERYTHING_GRANTED}, {})  # Whoever has the role may do everything


class Hub:
    def __init__(self, totals: dict[Resource, int] | None = None, **users: SetLimits) -> None:
        self.quotas = Quotas(totals, QuotaLimits(users=users))
        self.core = Core(quotas=self.quotas)

    def join(
        self,
        user: str | None,
        *prefixes: str,
        stalled: bool = False,
        role: Role = Role.CLIENT,
        limits: QueueLimits = ROOMY,
    ) -> tuple[Handler, FakeOutlet]:
        outlet = FakeOutlet()
        handler = Handler(outlet, role=role, limits=limits, poster=outlet)
        if user is not None:
            handler.rights = EVERYTHING.rights(user, ("all",))
        self.core.attach(handler)
        self.core.subscribe(handler, prefixes)
        if stalled:
            handler.pause()
        return handler, outlet

    def held(self, user: str, resource: Resource = QUEUED) -> int:
        return next(each.held.get(resource.value, 0) for each in self.quotas.largest(10**6) if each.user == user)

    def leave(self, handler: Handler) -> None:
        self.core.detach(handler, "")
        for _ in range(1000):
            self.core.flush()


# The issue: many stalled connections of one user.


WHOLE = 12_000_000
PAYLOAD = b"." * 1000
SIZE = Batch.of("/a", [PAYLOAD]).size_bytes  # What each message takes in a queue


def fill(hub: Hub, topic: str, messages: int) -> None:
    for _ in range(messages):
        publish(hub.core, topic, PAYLOAD)


def test_a_thousand_stalled_connections_leave_others_their_part() -> None:
    """Whoever comes when another user has taken all that he could gets a third of what is left: W / 6 at least."""
    hub = Hub({QUEUED: WHOLE})
    crowd = [hub.join("mallory", "/a", stalled=True)[0] for _ in range(1000)]
    fill(hub, "/a", 20)
    half = WHOLE // 2 // SIZE
    assert hub.held("mallory") == half * SIZE

    alice, outlet = hub.join("alice", "/b", stalled=True)
    fill(hub, "/b", half)
    third = (WHOLE - half * SIZE) // 3 // SIZE
    assert third * SIZE > WHOLE // 6 - SIZE
    assert hub.held("alice") == third * SIZE

    fill(hub, "/a", 20)
    assert hub.held("mallory") == half * SIZE
    assert hub.held("alice") == third * SIZE
    alice.resume()
    assert outlet.gaps == [half - third]
    assert len(outlet.values) == third

    for handler in crowd:
        hub.leave(handler)
    assert len(hub.quotas) == 1
    alice.pause()
    fill(hub, "/b", 2 * half)
    assert hub.held("alice") == half * SIZE


def test_who_pays_where_memory_is_short() -> None:
    resident = 0
    memory = Memory(160 * SIZE, lambda: resident)
    quotas = Quotas()
    core = Core(quotas=quotas, memory=memory)
    hub = Hub()
    hub.core, hub.quotas = core, quotas
    crowd = [hub.join("mallory", "/a", stalled=True)[0] for _ in range(100)]
    larger, _ = hub.join("mallory", "/a", "/m", stalled=True)
    alice, _ = hub.join("alice", "/b", stalled=True)
    nobody, _ = hub.join(None, "/c", stalled=True)
    fill(hub, "/a", 10)
    fill(hub, "/m", 40)
    fill(hub, "/b", 300)
    fill(hub, "/c", 300)
    resident = memory.limit_bytes + 590 * SIZE  # relief frees a sixteenth of the budget more
    memory.look()
    assert 350 * SIZE < hub.held("mallory") <= 450 * SIZE
    assert [handler.droppable_bytes for handler in crowd[:3]] == [larger.droppable_bytes] * 3
    assert alice.droppable_bytes == nobody.droppable_bytes == 300 * SIZE


# Everything else that is charged.


USERS = ("alice", "bob", "carol")
PREFIXES = ("/a", "/b", "/a/long/" + "x" * 300)
NAMES = ("org.a", "org.b")

TOTALS = {
    Resource.CONNECTIONS: 12,
    Resource.PREFIXES: 14,
    Resource.RULES: 9,
    Resource.SERVICES: 9,
    Resource.NAMES: 8,
    Resource.PENDING_REQUESTS: 12,
    Resource.QUEUED_BYTES: 20_000,
}


class SharesAgainstHandlers(RuleBasedStateMachine):
    handlers = Bundle("handlers")

    @initialize()
    def start(self) -> None:
        self.hub = Hub(dict(TOTALS))
        self.core = self.hub.core
        self.users: dict[Handler, str] = {}
        self.now_us = 0
        self.transaction = 0
        self.service, _ = self.hub.join("dave")
        at_once(self.core.requests.serving(self.service, ["/a"]))
        self.users[self.service] = "dave"

    @rule(target=handlers, user=st.sampled_from(USERS), overflow=st.sampled_from(Overflow))
    def join(self, user: str, overflow: Overflow) -> Handler:
        handler, outlet = self.hub.join(user, limits=QueueLimits(messages=15, overflow=overflow))
        outlet.on_close = lambda: self.core.detach(handler, "overflow")
        self.core.flush()
        if handler.closed:
            self.core.detach(handler, "")
            assert handler.share is None
        else:
            self.users[handler] = user
        return handler

    @rule(handler=consumes(handlers))
    def leave(self, handler: Handler) -> None:
        self.core.detach(handler, "")
        self.users.pop(handler, None)

    @rule(handler=handlers, prefixes=st.lists(st.sampled_from(PREFIXES), max_size=4), kind=st.sampled_from("prs"))
    def take(self, handler: Handler, prefixes: list[str], kind: str) -> None:
        if handler in self.users:
            before = self.seen()
            try:
                if kind == "p":
                    self.core.subscribe(handler, prefixes)
                elif kind == "r":
                    self.core.subscribe_rules(handler, [Rule(("x",), prefix) for prefix in prefixes])
                else:
                    at_once(self.core.requests.serving(handler, prefixes))
            except RejectedError:
                assert self.seen() == before

    @rule(handler=handlers, prefixes=st.lists(st.sampled_from(PREFIXES), max_size=4))
    def give_back(self, handler: Handler, prefixes: list[str]) -> None:
        if handler in self.users:
            self.core.unsubscribe(handler, prefixes[:1])
            self.core.rules.unsubscribe(handler, [Rule(("x",), prefix) for prefix in prefixes[1:2]])
            at_once(self.core.requests.unserving(handler, prefixes[2:]))

    @rule(handler=handlers, name=st.sampled_from(NAMES), queue=st.booleans(), give_up=st.booleans())
    def name(self, handler: Handler, name: str, *, queue: bool, give_up: bool) -> None:
        if handler not in self.users:
            return
        self.now_us += 1
        names = self.core.names
        with contextlib.suppress(RejectedError):
            if give_up:
                names.release(handler, name)
            else:
                names.claim(handler, Wish(name, queue=queue), self.now_us)

    @rule(handler=handlers, prefix=st.sampled_from(("/a", "/a", "/b")))
    def ask(self, handler: Handler, prefix: str) -> None:
        if handler in self.users:
            self.transaction += 1
            self.core.requests.ask(handler, Request(prefix.encode(), self.transaction, 1000, b"\x00"), 0)

    @rule(handler=handlers, number=st.integers(0, 5), always=st.booleans())
    def answer(self, handler: Handler, number: int, *, always: bool) -> None:
        if always or handler in self.users:
            self.core.requests.answer(self.service if always else handler, Reply(number, Status.OK, b"\x00"))

    @rule()
    def expire(self) -> None:
        self.core.requests.expire(10**9)

    @rule(handler=handlers, stalls=st.booleans(), messages=st.integers(0, 8))
    def stall(self, handler: Handler, messages: int, *, stalls: bool) -> None:
        if handler in self.users:
            (handler.pause if stalls else handler.resume)()
        fill(self.hub, "/a", messages)

    @rule(handler=handlers, may=st.booleans())
    def rights(self, handler: Handler, *, may: bool) -> None:
        if handler in self.users:
            self.core.authority.give_rights(handler, EVERYTHING.rights(self.users[handler], ("all",) if may else ()))

    def seen(self) -> dict[tuple[str, str], int]:
        core, sums = self.core, Counter[tuple[str, str]]()
        participants = core.requests._participants
        for handler, user in self.users.items():
            for resource, amount in (
                (Resource.CONNECTIONS, 1),
                (Resource.PREFIXES, sum(1 + len(prefix) // 256 for prefix in handler.prefixes)),
                (Resource.RULES, sum(1 + (len(one.prefix) + 1) // 256 for one in core.rules.of(handler))),
                (Resource.SERVICES, sum(1 + len(prefix) // 256 for prefix in core.requests.served_by(handler))),
                (Resource.NAMES, len(core.names._names.get(handler, ()))),
                (Resource.PENDING_REQUESTS, participants[handler].asked_requests if handler in participants else 0),
                (Resource.QUEUED_BYTES, handler.statistics().queued_bytes),
            ):
                sums[user, resource.value] += amount
        return {key: amount for key, amount in sums.items() if amount}

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "hub"):
            return
        for _ in range(40):
            self.core.flush()
        shares = self.hub.quotas.largest(100)
        charged = {(one.user, resource): amount for one in shares for resource, amount in one.held.items()}
        assert charged == self.seen()
        for resource, whole in self.hub.quotas.wholes.items():
            together = sum(amount for (_, what), amount in charged.items() if what == resource.value)
            assert whole.free == whole.total - together
            assert whole.sharers == sum(1 for _, what in charged if what == resource.value)
            assert resource is Resource.QUEUED_BYTES or whole.free >= 0


TestSharesAgainstHandlers = SharesAgainstHandlers.TestCase
TestSharesAgainstHandlers.settings = settings(stateful_step_count=40, deadline=None)
WEST, BEYOND = b"west" * 4, b"ends" * 4


def link(hub: Hub, user: str | None, *wanted: Interest) -> tuple[Handler, FakeOutlet]:
    handler, outlet = hub.join(user, role=Role.LINK)
    core = hub.core
    core.link(handler, WEST, lambda: None)
    near, far = ((core.mesh.hub, 1), (BEYOND, 1)), ((WEST, 1),)
    for one, neighbours, interests in ((WEST, near, wanted), (BEYOND, far, tuple(map(_beyond, wanted)))):
        core.mesh.hear(handler, Announcement(one, 0, 1, "", neighbours, tuple(interests)))
    core.mesh.check(0.0)
    while core.scheduler.is_busy:
        core.flush()
    return handler, outlet


def _beyond(interest: Interest) -> Interest:
    return "/beyond" + interest if isinstance(interest, str) else interest


def test_what_other_hubs_want_is_charged_to_nobody() -> None:
    resources = (Resource.PREFIXES, Resource.RULES, Resource.SERVICES, Resource.NAMES)
    hub = Hub(dict.fromkeys(resources, 10), west=SetLimits(dict.fromkeys(resources, 1)))
    prefixes = [f"/{number}" for number in range(50)]
    rules = [Rule((f"x{number}",)) for number in range(50)]
    served = [Served(prefix) for prefix in prefixes]
    names = [Announced(f"org.n{number}", (), 1, 1) for number in range(50)]
    link(hub, "west", *prefixes, *rules, *served, *names)
    assert len(hub.core.remote_hubs.wanted_by(WEST)) == len(hub.core.remote_hubs.wanted_by(BEYOND)) == 50
    assert len(hub.core.rules) == 100
    assert len(hub.core.remote_hubs.served_by(WEST)) == len(hub.core.remote_hubs.served_by(BEYOND)) == 50
    assert hub.core.names.statistics().names == 50
    for resource in resources:
        assert hub.held("west", resource) == 0
    alice, _ = hub.join("alice")
    hub.core.subscribe(alice, [f"/alice/{number}" for number in range(5)])
    hub.core.names.claim(alice, Wish("org.alice"), 1)
    assert hub.held("alice", Resource.PREFIXES) == 5


def test_a_request_from_another_hub_is_the_links() -> None:
    hub = Hub(west=SetLimits({Resource.PENDING_REQUESTS: 2}))
    handler, outlet = link(hub, "west")
    service, _ = hub.join("bob")
    requests = hub.core.requests
    at_once(requests.serving(service, ["/s"]))
    for number in (1, 2, 3):
        requests.ask(handler, Request(b"/s", number, 0, b"\x00"), 0)
    assert hub.held("west", Resource.PENDING_REQUESTS) == 2
    assert hub.held("bob", Resource.PENDING_REQUESTS) == 0
    hub.core.flush()
    assert [status for _, status, _ in answers(outlet.take())] == [Status.OVERFLOW]
    requests.answer(service, Reply(0, Status.OK, b"\x01"))
    assert hub.held("west", Resource.PENDING_REQUESTS) == 1


def allowance(memory: Memory | None = None) -> Allowance[str]:
    return Allowance("prefixes", Resource.PREFIXES, 2, 3, memory or Memory(), len)


def take(one: Allowance[str], handler: Handler, held: dict[str, int], *wanted: str) -> list[str]:
    return list(one.taking(handler, held, wanted))


def shared(most: int) -> tuple[Allowance[str], list[Handler], Usage]:
    handlers = [handler_of(), handler_of()]
    share = Quotas(limits=QuotaLimits(users={"alice": SetLimits({Resource.PREFIXES: most})})).join("alice", frozenset())
    for handler in handlers:
        handler.share = share
    return Allowance("prefixes", Resource.PREFIXES, 10, 10, Memory(), len), handlers, share[Resource.PREFIXES]


def test_what_is_wanted_is_charged_before_the_first_step() -> None:
    one, (first, second), usage = shared(3)
    held: dict[str, int] = {}
    steps = one.taking(first, held, ["a", "b", "c"])
    assert next(steps) == "a"
    assert usage.held == 3
    with pytest.raises(RejectedError):
        take(one, second, {}, "x")
    del steps
    assert (held, usage.held) == ({"a": 1}, 1)
    assert take(one, second, {}, "x") == ["x"]


def test_what_is_given_back_between_the_steps() -> None:
    one, (first, _), usage = shared(3)
    held = dict.fromkeys(take(one, first, {}, "b"), 1)
    steps = one.taking(first, held, ["a", "b"])
    assert next(steps) == "a"
    assert one.give_back(first, held, "b")
    assert usage.held == 1
    assert list(steps) == ["b"]
    assert (held, usage.held) == ({"a": 1, "b": 1}, 2)


@pytest.mark.parametrize(("role", "most"), [(Role.CLIENT, 2), (Role.LEAF, 3), (Role.LOCAL, None)])
def test_limits(role: Role, most: int | None) -> None:
    one, handler = allowance(), handler_of(role=role)
    assert take(one, handler, {"0": 7}, "0", "0", "1") == ["1"]
    assert one.refused_total == 0
    wanted = [str(number) for number in range(1, 5)]
    if most is None:
        assert take(one, handler, {"0": 7}, *wanted) == wanted
        return
    assert take(one, handler, {"0": 7}, *wanted[: most - 1]) == wanted[: most - 1]
    with pytest.raises(RejectedError, match=f"{most + 1} prefixes, the limit for a .* is {most}") as caught:
        take(one, handler, {"0": 7}, *wanted[:most])
    assert caught.value.code == CloseCode.NOT_ALLOWED
    assert one.refused_total == most
