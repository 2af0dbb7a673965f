"""Users in a core: what their handlers hold is charged to them, and nobody can take what others are promised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch
from hub.core import Core
from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.memory import Memory
from hub.names.claim import Wish
from hub.overflow import Overflow, QueueLimits
from hub.policy.grants import parse_path
from hub.policy.policy import Action, Policy, RolePermissions
from hub.quotas.quotas import QuotaLimits, Quotas, SetLimits
from hub.quotas.resource import Resource
from hub.request_frame import Reply, Request, Status
from hub.tags.rules import Rule
from tests.hub.fakes import ROOMY, FakeOutlet, at_once, publish

QUEUED = Resource.QUEUED_BYTES


EVERYTHING_GRANTED = RolePermissions({action: [(parse_path("*", action.separator), True)] for action in Action})
EVERYTHING = Policy({"all": EVERYTHING_GRANTED}, {})  # Whoever has the role may do everything


class Poster:
    def __init__(self) -> None:
        self.items: list[Request | Reply] = []

    def post(self, items: list[Request | Reply]) -> None:
        self.items += items


class Hub:
    def __init__(self, totals: dict[Resource, int] | None = None, **users: SetLimits) -> None:
        self.quotas = Quotas(totals, QuotaLimits(users=users))
        self.core = Core(lambda: None, quotas=self.quotas)

    def join(
        self,
        user: str | None,
        *prefixes: str,
        stalled: bool = False,
        role: Role = Role.CLIENT,
        limits: QueueLimits = ROOMY,
    ) -> tuple[Handler, FakeOutlet]:
        outlet = FakeOutlet()
        handler = Handler(outlet, role=role, limits=limits, poster=Poster())
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


@pytest.mark.parametrize("overflow", Overflow)
def test_both_at_the_same_time(overflow: Overflow) -> None:
    hub = Hub({QUEUED: WHOLE})
    for _ in range(50):
        hub.join("mallory", "/a", stalled=True)
    alice, outlet = hub.join("alice", "/a", stalled=True, limits=QueueLimits(overflow=overflow))
    fill(hub, "/a", WHOLE // 6 // SIZE)
    assert not outlet.closed
    assert hub.held("alice") == WHOLE // 6 // SIZE * SIZE == alice.droppable_bytes
    assert hub.held("mallory") <= WHOLE // 2


def test_who_does_not_stall_is_not_touched() -> None:
    hub = Hub({QUEUED: 5 * SIZE}, mallory=SetLimits({QUEUED: 5 * SIZE}))
    hub.join("mallory", "/a", stalled=True)
    _, outlet = hub.join("alice", "/a")
    free, _ = hub.join(None, "/a", stalled=True)
    fill(hub, "/a", 100)
    hub.core.flush()
    assert hub.held("mallory") == 5 * SIZE
    assert len(outlet.values) == 100
    assert free.held_messages == 100
    assert free.share is None


def test_a_full_share_is_a_full_queue() -> None:
    """Its overflow policy decides: the oldest goes, the newest, or the connection; and it is told and counted."""
    hub = Hub(alice=SetLimits({QUEUED: 3 * SIZE}))
    other, _ = hub.join("alice", "/o", stalled=True)
    fill(hub, "/o", 1)
    numbers = [[number, b"." * 990] for number in range(10, 15)]
    size = Batch.of("/a", [numbers[0]]).size_bytes
    assert 2 * SIZE - SIZE // 2 < 2 * size <= 2 * SIZE
    told = {}
    for overflow in Overflow:
        handler, outlet = hub.join("alice", "/a", stalled=True, limits=QueueLimits(overflow=overflow))
        for number in numbers:
            publish(hub.core, "/a", number)
        assert other.droppable_bytes == SIZE
        if overflow is not Overflow.DISCONNECT:
            assert handler.dropped_messages == 3
        handler.resume()
        told[overflow] = list(outlet.told)
        hub.leave(handler)
        if overflow is Overflow.DISCONNECT:
            text = (
                f"queues of alice full ({SIZE + 2 * size} bytes), 3 messages lost: read faster or choose a drop policy"
            )
            assert outlet.closed == [(CloseCode.OVERFLOW, text)]
    assert [type(each) for each in told[Overflow.DROP_OLDEST]] == [int, Batch, Batch]
    assert [type(each) for each in told[Overflow.DROP_NEWEST]] == [Batch, Batch, int]
    assert hub.held("alice") == SIZE


def test_the_text_of_a_close_is_short_enough() -> None:
    user = "u" * 64
    hub = Hub(**{user: SetLimits({QUEUED: SIZE})})
    _, outlet = hub.join(user, "/a", stalled=True, limits=QueueLimits(overflow=Overflow.DISCONNECT))
    fill(hub, "/a", 2)
    ((_, text),) = outlet.closed
    assert user in text
    assert len(text) <= 123


def test_replies_that_wait_are_charged() -> None:
    hub = Hub(alice=SetLimits({QUEUED: 5000}))
    alice, _ = hub.join("alice", stalled=True)
    reply = Reply(7, Status.OK, b"." * 2000)
    assert alice.post(reply)
    assert alice.post(reply)
    taken = hub.held("alice")
    assert 4000 < taken < 5000
    assert not alice.post(reply)
    assert alice.post(reply, keep=True)
    assert hub.held("alice") == taken // 2 * 3
    alice.resume()
    assert hub.held("alice") == 0


def test_who_pays_where_memory_is_short() -> None:
    resident = 0
    memory = Memory(160 * SIZE, lambda: resident)
    quotas = Quotas()
    core = Core(lambda: None, quotas=quotas, memory=memory)
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


actions = st.sampled_from(["publish", "stall", "resume", "close", "join"])


@given(st.lists(st.tuples(actions, st.integers(0, 8)), max_size=60))
def test_what_users_hold_is_what_their_queues_hold(steps: list[tuple[str, int]]) -> None:
    hub = Hub({QUEUED: 40 * SIZE})
    handlers: list[tuple[str, Handler]] = []
    for act, number in steps:
        if act == "publish":
            fill(hub, "/a", 1 + number)
        elif act == "join" or not handlers:
            user, overflow = f"user{number % 3}", list(Overflow)[number // 3]
            limits = QueueLimits(messages=15, overflow=overflow)
            handlers.append((user, hub.join(user, "/a", stalled=True, limits=limits)[0]))
        else:
            user, handler = handlers[number % len(handlers)]
            if act == "stall":
                handler.pause()
            elif act == "resume":
                handler.resume()
            else:
                hub.core.detach(handler, "")
                handlers.remove((user, handler))
        sums: dict[str, int] = {}
        for user, handler in handlers:
            sums[user] = sums.get(user, 0) + handler.statistics().queued_bytes
        assert {user: hub.held(user) for user in sums} == sums
        assert sum(sums.values()) <= 40 * SIZE


# Everything else that is charged.


def test_connections() -> None:
    hub = Hub(alice=SetLimits({Resource.CONNECTIONS: 2}))
    first, outlet = hub.join("alice")
    hub.join("alice")
    third, turned_away = hub.join("alice", "/a")
    assert not turned_away.closed
    hub.core.flush()
    text = "user alice has 2 connections, 1 more are too many: the limit for this user is 2"
    assert turned_away.closed == [(CloseCode.TRY_AGAIN_LATER, text)]
    assert not outlet.closed
    hub.leave(third)
    hub.leave(first)
    fourth, taken = hub.join("alice")
    hub.core.flush()
    assert not taken.closed
    assert fourth.share is not None


def test_another_policy() -> None:
    hub = Hub()
    handler, _ = hub.join("alice", "/a", "/b")
    hub.core.authority.adopt(Policy({}, {}, QuotaLimits(users={"alice": SetLimits({Resource.PREFIXES: 2})})))
    with pytest.raises(RejectedError, match=r"user alice has 2 prefixes, 1 more are too many"):
        hub.core.subscribe(handler, ["/c"])
    hub.core.authority.adopt(None)
    hub.core.subscribe(handler, ["/c"])


def test_prefixes_rules_and_services() -> None:
    hub = Hub(alice=SetLimits({Resource.PREFIXES: 3, Resource.RULES: 2, Resource.SERVICES: 2}))
    first, _ = hub.join("alice", "/a", "/b")
    second, _ = hub.join("alice", "/a")
    with pytest.raises(RejectedError, match=r"user alice has 3 prefixes, 1 more are too many"):
        hub.core.subscribe(second, ["/c"])
    hub.core.subscribe(second, ["/a", "/a"])
    hub.core.subscribe_rules(first, [Rule(("x",)), Rule(("y",))])
    with pytest.raises(RejectedError, match=r"user alice has 2 rules"):
        hub.core.subscribe_rules(second, [Rule(("z",))])
    at_once(hub.core.requests.serving(first, ["/s", "/t"]))
    with pytest.raises(RejectedError, match=r"user alice has 2 prefixes that are served"):
        at_once(hub.core.requests.serving(second, ["/s"]))
    hub.leave(first)
    assert hub.held("alice", Resource.PREFIXES) == 1
    assert hub.held("alice", Resource.RULES) == hub.held("alice", Resource.SERVICES) == 0
    hub.core.unsubscribe(second, ["/a"] * 3)
    assert hub.held("alice", Resource.PREFIXES) == 0


def test_a_client_that_takes_all_it_can() -> None:
    hub = Hub({Resource.PREFIXES: 1000})
    hub.core.prefixes.allowed._limits[Role.CLIENT] = (10_000, "a client")
    site, _ = hub.join("site")
    with pytest.raises(RejectedError, match=r"a fair part of what is left is 500 now, of 1000 in all"):
        hub.core.subscribe(site, [f"/{number}" for number in range(501)])
    hub.core.subscribe(site, [f"/{number}" for number in range(500)])
    alice, _ = hub.join("alice")
    hub.core.subscribe(alice, [f"/{number}" for number in range(166)])
    hub.core.flush()

    hub.core.detach(site, "")
    assert hub.held("site", Resource.PREFIXES) > 200
    turns = 0
    while len(hub.quotas) > 1:
        hub.core.flush()
        turns += 1
    assert turns > 0
    assert hub.quotas.wholes[Resource.PREFIXES].free == 1000 - 166


def test_names() -> None:
    hub = Hub(alice=SetLimits({Resource.NAMES: 2}))
    first, _ = hub.join("alice")
    second, _ = hub.join("alice")
    names = hub.core.names
    names.claim(first, Wish("org.a"), 1)
    names.claim(second, Wish("org.a", queue=True), 2)
    names.claim(second, Wish("org.a", queue=True), 3)
    with pytest.raises(RejectedError, match=r"user alice has 2 names, 1 more are too many"):
        names.claim(first, Wish("org.b"), 4)
    hub.leave(first)
    assert hub.held("alice", Resource.NAMES) == 1
    names.claim(second, Wish("org.b"), 5)
    names.release(second, "org.a")
    names.release(second, "org.b")
    assert hub.held("alice", Resource.NAMES) == 0


def request(first: int) -> Request:
    return Request(b"/s", first, 0, b"\x00")


def test_pending_requests() -> None:
    """What all connections of a user wait for; each way in which a request is settled gives it back."""
    hub = Hub(alice=SetLimits({Resource.PENDING_REQUESTS: 3}))
    service, _ = hub.join("bob")
    requests = hub.core.requests
    at_once(requests.serving(service, ["/s"]))
    askers = [hub.join("alice")[0] for _ in range(3)]
    for asker in askers:
        requests.ask(asker, request(1), 0)
    assert hub.held("alice", Resource.PENDING_REQUESTS) == 3
    requests.ask(askers[0], request(2), 0)
    hub.core.flush()
    refused = askers[0].poster.items[-1]
    assert refused.status == Status.OVERFLOW
    assert b"user alice has 3 pending requests, 1 more are too many" in refused.values

    requests.answer(service, Reply(0, Status.OK, b"\x01"))
    assert hub.held("alice", Resource.PENDING_REQUESTS) == 2
    hub.leave(askers[1])
    assert hub.held("alice", Resource.PENDING_REQUESTS) == 1
    requests.expire(10**9)
    assert hub.held("alice", Resource.PENDING_REQUESTS) == 0
    requests.ask(askers[0], request(3), 0)
    hub.leave(service)
    assert hub.held("alice", Resource.PENDING_REQUESTS) == 0
