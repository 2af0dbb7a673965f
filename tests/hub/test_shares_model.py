"""What users hold against what their handlers hold, whatever happens: accounting is where such code goes wrong."""

from __future__ import annotations

import contextlib
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hub.errors import RejectedError
from hub.handler import Handler
from hub.names.claim import Wish
from hub.quotas.resource import Resource
from hub.request_frame import Reply, Request, Status
from hub.tags.rules import Rule
from tests.hub.fakes import at_once
from tests.hub.test_shares import EVERYTHING, Hub, fill

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

    @rule(target=handlers, user=st.sampled_from(USERS))
    def join(self, user: str) -> Handler:
        handler, _ = self.hub.join(user)
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
        if handler not in self.users:
            return
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

    @rule(handler=handlers, prefixes=st.lists(st.sampled_from(PREFIXES), max_size=4), kind=st.sampled_from("prs"))
    def give_back(self, handler: Handler, prefixes: list[str], kind: str) -> None:
        if handler not in self.users:
            return
        if kind == "p":
            self.core.unsubscribe(handler, prefixes)
        elif kind == "r":
            self.core.rules.unsubscribe(handler, [Rule(("x",), prefix) for prefix in prefixes])
        else:
            at_once(self.core.requests.unserving(handler, prefixes))

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
