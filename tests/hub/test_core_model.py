"""The core, its filter, its prefixes and the leaves of a mesh against naive ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from hub.core import Core
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import CoreLimits, RouteLimits
from hub.links import Leaves
from hub.mesh.announcement import Interests, Leaf
from hub.names.claim import LATEST_US
from hub.prefixes import PrefixMultimap
from hub.routing.subscriptions import Filter
from tests.hub.fakes import FakeOutlet, Replies, Turn, handler_of, nasty_texts

prefixes = st.lists(st.sampled_from(("/", "a", "/a", "/ab", "é", "//")), max_size=3).map("".join)
topics = prefixes.filter(bool)


@dataclass(eq=False)
class Member:
    handler: Handler
    outlet: FakeOutlet
    wanted: Counter[str] = field(default_factory=Counter)
    due: list[tuple[str, int]] = field(default_factory=list)
    told: Replies = field(default_factory=Replies)

    @property
    def got(self) -> list[tuple[str, int]]:
        return [message for message in self.outlet.messages if not message[0].startswith("$hub/")]


def minimal_cover(wanted: Iterable[str]) -> set[str]:
    wanted = set(wanted)
    return {one for one in wanted if not any(one != other and one.startswith(other) for other in wanted)}


def _cover(members: list[Member]) -> set[str]:
    return minimal_cover(prefix for member in members for prefix in member.wanted)


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
        self.turn.core.attach(member.handler, member.told if role is Role.LEAF else None)
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
                assert member.told.known == near

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
texts_that_begin_alike = st.one_of(nasty_texts, st.text(alphabet="/ab", max_size=4))


class FilterAgainstNaive(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.filter = Filter()
        self.wanted: Counter[str] = Counter()
        self.told = Replies()

    @rule(prefix=texts_that_begin_alike)
    def add(self, prefix: str) -> None:
        self.wanted[prefix] += 1
        self.told(self.filter.add(prefix))

    @precondition(lambda self: self.wanted)
    @rule(choice=st.randoms(use_true_random=False))
    def discard(self, choice: st.random.Random) -> None:  # type: ignore[name-defined]
        prefix = choice.choice(sorted(self.wanted))
        self.wanted -= Counter([prefix])
        self.told(self.filter.discard(prefix))

    @invariant()
    def minimal(self) -> None:
        cover = minimal_cover(self.wanted)
        assert list(self.filter.minimal) == sorted(cover)
        assert self.told.known == cover

    def teardown(self) -> None:
        for prefix in list(self.wanted.elements()):
            self.told(self.filter.discard(prefix))
        assert not self.filter.minimal
        assert not self.filter._counts
        assert not self.told.known


TestFilterAgainstNaive = FilterAgainstNaive.TestCase
TestFilterAgainstNaive.settings = settings(max_examples=settings().max_examples // 2)


texts = st.one_of(nasty_texts, st.text(alphabet="/ab\u00e9\U0001f600", max_size=8), st.text(max_size=6))
numbers = st.integers(0, 4)  # 0 too: a value may be false


class MultimapAgainstNaive(RuleBasedStateMachine):
    used = Bundle[str]("used")

    def __init__(self) -> None:
        super().__init__()
        self.real: PrefixMultimap[int] = PrefixMultimap()
        self.pairs: dict[tuple[str, int], None] = {}

    def naive(self, topic: str) -> set[int]:
        return {value for prefix, value in self.pairs if topic.startswith(prefix)}

    @rule(target=used, prefix=texts, value=numbers)
    def add(self, prefix: str, value: int) -> str:
        assert self.real.add(prefix, value) is ((prefix, value) not in self.pairs)
        self.pairs[prefix, value] = None
        return prefix

    @rule(prefix=used, value=numbers)
    def add_to_the_same_prefix(self, prefix: str, value: int) -> None:
        self.add(prefix, value)

    @rule(prefix=st.one_of(used, texts), value=numbers)
    def discard(self, prefix: str, value: int) -> None:
        assert self.real.discard(prefix, value) is ((prefix, value) in self.pairs)
        self.pairs.pop((prefix, value), None)

    @rule(prefix=st.one_of(used, texts), rest=st.just("") | texts)
    def find(self, prefix: str, rest: str) -> None:
        assert set(self.real.find(prefix + rest)) == self.naive(prefix + rest)

    @invariant()
    def size(self) -> None:
        assert len(self.real) == len(self.pairs)

    def teardown(self) -> None:
        for prefix, value in self.pairs:
            assert self.real.discard(prefix, value)
        assert len(self.real) == 0
        assert not self.real._trie
        assert list(self.real._trie.items()) == []
        assert not self.real._root.values
        assert not self.real._root.lengths


TestMultimapAgainstNaive = MultimapAgainstNaive.TestCase
TestMultimapAgainstNaive.settings = settings(max_examples=settings().max_examples // 2)


@pytest.mark.parametrize("prefix", ["", "a", "/zeek/dns/"])
def test_values_keep_their_order(prefix: str) -> None:
    multimap: PrefixMultimap[int] = PrefixMultimap()
    for value in (3, 1, 2):
        multimap.add(prefix, value)
    assert list(multimap.find(prefix + "x")) == [3, 1, 2]
    multimap.discard(prefix, 3)
    multimap.add(prefix, 3)
    assert list(multimap.find(prefix + "x")) == [1, 2, 3]


_HUBS = 4
_LEAVES = [b"leaf" * 4, b"else" * 4]
_QUIET_S = 3.0
_hubs = st.integers(0, _HUBS - 1)
_leaves = st.sampled_from(_LEAVES)


class Site:
    def __init__(self, number: int) -> None:
        self.id = bytes([number + 1]) * 16
        self.core = Core(hub_id=self.id)
        self.links: dict[int, Handler] = {}
        self.gateways: dict[bytes, bytes] = {}

    def claim(self, leaf: bytes, now_us: int) -> None:
        self.gateways[leaf] = self.core.leaves.claim(leaf, now_us, lambda hub: self.gateways.update({leaf: hub}))

    def release(self, leaf: bytes) -> None:
        del self.gateways[leaf]
        self.core.leaves.release(leaf)


class LeavesModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.parties = [Site(number) for number in range(_HUBS)]

    @rule(one=_hubs, other=_hubs)
    def link(self, one: int, other: int) -> None:
        ends = (one, other), (other, one)
        if one == other:
            return
        for near, far in ends:
            party = self.parties[near]
            if far in party.links:
                party.core.detach(party.links.pop(far), "cut")
            else:
                handler = party.links[far] = handler_of(role=Role.LINK)
                party.core.attach(handler)
                party.core.link(handler, self.parties[far].id, lambda: None)

    @rule(hub=_hubs, leaf=_leaves, now_us=st.integers(0, 3))
    def leaf(self, hub: int, leaf: bytes, now_us: int) -> None:
        party = self.parties[hub]
        if leaf in party.gateways:
            party.release(leaf)
        else:
            party.claim(leaf, now_us)

    @rule()
    def tell(self) -> None:
        self._carry()

    @rule()
    def settle(self) -> None:
        for _ in range(2):
            self.now_s += _QUIET_S
            while self._carry():
                pass
        for part in self._parts():
            for leaf in _LEAVES:
                having = {self.parties[number].id for number in part if leaf in self.parties[number].gateways}
                known = {self.parties[number].core.leaves.gateway_of(leaf) for number in part}
                assert len(known) == 1
                assert known <= (having or {b""})

    @invariant()
    def told(self) -> None:
        for party in self.parties:
            leaves = party.core.leaves
            assert party.gateways == {leaf: leaves.gateway_of(leaf) for leaf in party.gateways}
            assert leaves.left == sum(gateway != party.id for gateway in party.gateways.values())

    def teardown(self) -> None:
        self.settle()

    def _carry(self) -> bool:
        is_busy = False
        for party in self.parties:
            party.core.mesh.check(self.now_s)
        for one, other in combinations(range(_HUBS), 2):
            for near, far in ((one, other), (other, one)):
                if far not in self.parties[near].links:
                    continue
                for told in self.parties[near].core.mesh.take(self.parties[near].links[far]):
                    is_busy = True
                    self.parties[far].core.mesh.hear(self.parties[far].links[near], told)
        for party in self.parties:
            party.core.flush()
        return is_busy

    def _parts(self) -> list[set[int]]:
        parts: list[set[int]] = []
        left = set(range(_HUBS))
        while left:
            part, ahead = set(), {left.pop()}
            while ahead:
                part |= ahead
                ahead = {far for number in ahead for far in self.parties[number].links} - part
            parts.append(part)
            left -= part
        return parts


TestLeavesModel = LeavesModel.TestCase
TestLeavesModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
_LEAF = _LEAVES[0]
_A, _B = b"a" * 16, b"b" * 16


def test_the_latest_time() -> None:
    leaves, announced = Leaves(_B), list[Interests]()
    leaves.tell(announced.append)
    leaves.hear(b"c" * 16, [(_LEAF, LATEST_US)], [])
    assert leaves.claim(_LEAF, 10, lambda _: None) == _B
    assert announced[1:] == [Interests((Leaf(_LEAF, LATEST_US),))]


def test_what_is_not_taken_is_counted() -> None:
    leaves, leaf = Leaves(_B), handler_of(role=Role.LEAF)
    leaves.claim(_LEAF, 10, lambda _: None)
    leaf.published_messages = 5
    leaves.join(_LEAF, leaf)
    steps: list[tuple[int, Callable[[], object], bool, int]] = [
        (5, lambda: None, False, 0),
        (5, lambda: leaves.hear(_A, [(_LEAF, 8)], []), True, 0),
        (7, lambda: leaves.hear(_A, [], [_LEAF]), False, 2),
        (9, lambda: leaves.skip(3), False, 5),
        (9, lambda: leaves.hear(_A, [(_LEAF, 8)], []), True, 5),
        (10, lambda: None, True, 6),
        (10, lambda: leaves.release(_LEAF), False, 6),
    ]
    for published, act, is_left, skipped in steps:
        leaf.published_messages = published
        act()
        assert (leaf.delivery.is_left, leaves.skipped_messages) == (is_left, skipped)
