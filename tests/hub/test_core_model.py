"""The core against a naive hub that asks every handler about every message."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hub.delivery import Role
from hub.filter import Change
from hub.handler import Handler
from hub.limits import CoreLimits, RouteLimits
from tests.hub.fakes import FakeOutlet, Turn, handler_of

prefixes = st.lists(st.sampled_from(("/", "a", "/a", "/ab", "é", "//")), max_size=3).map("".join)
topics = prefixes.filter(bool)


@dataclass(eq=False)
class Member:
    handler: Handler
    outlet: FakeOutlet
    wanted: Counter[str] = field(default_factory=Counter)
    due: list[tuple[str, int]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def on_filter(self, change: Change) -> None:
        self.known |= set(change.added)
        self.known -= set(change.removed)

    @property
    def got(self) -> list[tuple[str, int]]:
        return [message for message in self.outlet.messages if not message[0].startswith("$hub/")]


def _cover(members: list[Member]) -> set[str]:
    wanted = {prefix for member in members for prefix in member.wanted}
    return {one for one in wanted if not any(one != other and one.startswith(other) for other in wanted)}


class CoreAgainstNaive(RuleBasedStateMachine):
    members = Bundle[Member]("members")

    @initialize(target=members, routes_limit=st.sampled_from((1, 4, 1000)))
    def start(self, routes_limit: int) -> Member:
        self.turn = Turn(CoreLimits(routes=RouteLimits(routes_limit)))
        self.present: list[Member] = []
        self.number = 0
        return self.new(Role.CLIENT)

    @rule(target=members, role=st.sampled_from((Role.CLIENT, Role.LEAF, Role.LOCAL)))
    def join(self, role: Role) -> Member:
        return self.new(role)

    def new(self, role: Role) -> Member:
        outlet = FakeOutlet()
        member = Member(handler_of(outlet, role=role), outlet)
        self.turn.core.attach(member.handler, member.on_filter if role is Role.LEAF else None)
        self.present.append(member)
        return member

    @rule(member=members, wanted=st.lists(prefixes, min_size=1, max_size=5))
    def subscribe(self, member: Member, wanted: list[str]) -> None:
        self.turn.core.subscribe(member.handler, wanted)
        member.wanted.update(wanted)

    @rule(member=members, data=st.data())
    def unsubscribe(self, member: Member, data: st.DataObject) -> None:
        held = sorted(member.wanted)
        unwanted = data.draw(st.lists(st.sampled_from(held) if held else prefixes, max_size=5))
        self.turn.core.unsubscribe(member.handler, unwanted)
        member.wanted -= Counter(unwanted)

    @rule(member=members, sent=st.lists(topics, min_size=1, max_size=8))
    def publish(self, member: Member, sent: list[str]) -> None:
        for topic in sent:
            self.number += 1
            self.turn.publish(member.handler, topic, self.number)
            self.expect(topic, member)

    @rule(member=members, sent=st.lists(topics, min_size=1, max_size=12))
    def read(self, member: Member, sent: list[str]) -> None:
        messages = []
        for topic in sent:
            self.number += 1
            messages.append((topic, self.number))
            self.expect(topic, member)
        self.turn.read(member.handler, messages)
        for each in self.present:
            assert each.got == each.due

    def expect(self, topic: str, source: Member) -> None:
        for member in self.present:
            if any(topic.startswith(prefix) for prefix in member.wanted) and not self.is_kept_from(member, source):
                member.due.append((topic, self.number))

    @staticmethod
    def is_kept_from(member: Member, source: Member) -> bool:
        delivery = source.handler.delivery
        return (member is source and not delivery.hears_itself) or (
            member.handler.role is Role.LEAF and not delivery.reaches_leaves
        )

    @rule(member=members, itself=st.booleans(), leaves=st.booleans())
    def restrict(self, member: Member, *, itself: bool, leaves: bool) -> None:
        member.handler.restrict(itself=itself, leaves=leaves)

    @rule(member=consumes(members))
    def leave(self, member: Member) -> None:
        before = member.got
        self.turn.core.detach(member.handler, "done")
        self.present.remove(member)
        self.turn.core.flush()
        assert member.got == before == member.due[: len(before)]

    @rule()
    def flush(self) -> None:
        self.turn.core.flush()
        for member in self.present:
            assert member.got == member.due

    @invariant()
    def peers_know_the_filter(self) -> None:
        assert set(self.turn.core.prefixes.asked_of_links.minimal) == _cover(self.present)
        near = _cover([member for member in self.present if member.handler.role is not Role.LEAF])
        for member in self.present:
            if member.handler.role is Role.LEAF:
                assert member.known == near

    @invariant()
    def counts(self) -> None:
        seen = self.turn.core.statistics()
        assert seen.routing.subscriptions == sum(len(member.wanted) for member in self.present)
        assert all(member.handler.prefixes == member.wanted for member in self.present)
        assert seen.published_messages_total == self.number

    def teardown(self) -> None:
        self.flush()
        for member in list(self.present):
            self.leave(member)
        assert len(self.turn.core.prefixes) == 0
        assert not self.turn.core.prefixes._multimap._trie
        assert not any(route.handlers for route in self.turn.core.routes.table.values())


TestCoreAgainstNaive = CoreAgainstNaive.TestCase
