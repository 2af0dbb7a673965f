"""Any policy, any users and topics, reloads in between: exactly what the naive rules allow is delivered, and told."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import RejectedError
from hub.handlers.delivery import Role
from hub.labels.envelope import Envelope
from hub.labels.rules import Rule
from hub.policy.grants import User, parse_path
from hub.policy.policy import Action, Policy, RolePermissions
from hub.topics import RESERVED
from tests.hub.policy.tricks import NaiveGrant, naive_allows, naive_covers
from tests.hub.rights.hall import Guest, Hall

ROLES = ("a", "b", "c")
USERS = ("ann", "bob")
WORDS = ("x", "y", "ann", "bob", "")
ACTIONS = (Action.PUBLISH, Action.SUBSCRIBE, Action.BRING, Action.TAKE)

paths = st.one_of(
    st.just("*"),
    st.lists(st.sampled_from(("x", "y", "ann", "{user}")), min_size=1, max_size=3).map(
        lambda parts: "/" + "/".join(parts)
    ),
)
grants = st.lists(st.builds(NaiveGrant, st.sampled_from(ROLES), paths, st.booleans()), max_size=6)
policies = st.tuples(grants, grants, grants, grants)
topics = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
prefixes = st.one_of(topics, st.sampled_from(("", "/", "/x", "/x/y/a", "/an", "$hub/")))
role_sets = st.dictionaries(st.sampled_from(USERS), st.frozensets(st.sampled_from(ROLES)))


class Told(NamedTuple):
    grants: dict[Action, list[NaiveGrant]]
    users: dict[str, frozenset[str]]

    def allows(self, action: Action, topic: str, user: str) -> bool:
        return naive_allows(self.grants[action], topic, User(user, self.users.get(user, frozenset())))

    def covers(self, prefix: str, user: str) -> bool:
        who = User(user, self.users.get(user, frozenset()))
        return naive_covers(self.grants[Action.SUBSCRIBE], prefix, who, [*WORDS, "?"])

    def compiled(self) -> Policy:
        roles = {
            name: RolePermissions(
                {
                    action: [(parse_path(grant.path), grant.allowed) for grant in some if grant.role == name]
                    for action, some in self.grants.items()
                }
            )
            for name in ROLES
        }
        return Policy(roles, self.users)


told_policies = st.builds(lambda lists, users: Told(dict(zip(ACTIONS, lists, strict=True)), users), policies, role_sets)


class Seat(NamedTuple):
    guest: Guest
    user: str | None
    prefixes: list[str]
    rule: Rule | None

    def may(self, told: Told, action: Action, topic: str) -> bool:
        if self.user is None:
            return True
        if self.guest.handler.is_peer:
            action = {Action.PUBLISH: Action.BRING, Action.SUBSCRIBE: Action.TAKE}[action]
        return told.allows(action, topic, self.user)

    def wants(self, topic: str, labels: tuple[str, ...]) -> bool:
        by_prefix = any(topic.startswith(prefix) for prefix in self.prefixes)
        return by_prefix or (self.rule is not None and topic.startswith(self.rule.prefix) and "red" in labels)

    def hears(self, source: Seat) -> bool:
        here = self.guest.handler.role
        return not (here in {Role.LINK, Role.LEAF} and self is source)


seats = st.lists(
    st.tuples(
        st.sampled_from((None, *USERS)),
        st.sampled_from((Role.CLIENT, Role.CLIENT, Role.LINK, Role.LEAF)),
        st.lists(prefixes, max_size=3),
        st.one_of(st.none(), prefixes.filter(lambda prefix: not prefix.startswith(RESERVED))),
    ),
    min_size=1,
    max_size=5,
)
reads = st.tuples(st.integers(0, 4), st.lists(st.tuples(topics, st.booleans()), min_size=1, max_size=6))
steps = st.lists(st.one_of(reads, told_policies), max_size=8)


def take_seat(hall: Hall, user: str | None, role: Role, wanted: list[str], rule_prefix: str | None) -> Seat:
    wanted = [prefix for prefix in wanted if role is Role.CLIENT or not prefix.startswith(RESERVED)]
    rule = None if rule_prefix is None or role is Role.LEAF else Rule(("red",), rule_prefix)
    guest = hall.join(user, *wanted, role=role, narrows=True, interests=() if rule is None else (rule,))
    if rule is not None and role is not Role.LINK:
        hall.core.subscribe_rules(guest.handler, [rule])
    return Seat(guest, user, wanted, rule)


def bring(told: Told, seated: list[Seat], source: Seat, messages: list[tuple[Envelope, int]]) -> None:
    before = source.guest.handler.published_messages
    source.guest.refused.clear()
    source.guest.send(*((_bare(envelope), number) for envelope, number in messages))
    granted = [(envelope, number) for envelope, number in messages if source.may(told, Action.PUBLISH, envelope.topic)]
    assert source.guest.refused_messages == len(messages) - len(granted)
    assert source.guest.handler.published_messages - before == len(granted)
    for seat in seated:
        expected = [
            number
            for envelope, number in granted
            if seat.hears(source)
            and seat.wants(envelope.topic, envelope.labels)
            and seat.may(told, Action.SUBSCRIBE, envelope.topic)
        ]
        assert seat.guest.take() == expected


def _bare(envelope: Envelope) -> str | Envelope:
    return envelope if envelope.labels else envelope.topic


@given(told_policies, seats, steps)
@settings(max_examples=40)
def test_exactly_what_is_allowed_is_delivered(told: Told, seating: list[Any], sequence: list[Any]) -> None:
    hall = Hall(told.compiled())
    seated = [take_seat(hall, *one) for one in seating]
    number = 0
    for step in sequence:
        if isinstance(step, Told):
            told = step
            hall.reload(told.compiled(), {seat.guest.handler: seat.user for seat in seated})
            continue
        place, parts = step
        messages = []
        for topic, is_red in parts:
            number += 1
            messages.append((Envelope(topic, ("red",) if is_red else ()), number))
        bring(told, seated, seated[place % len(seated)], messages)


@given(told_policies, told_policies, st.lists(prefixes, min_size=1, max_size=5, unique=True), st.sampled_from(USERS))
@settings(max_examples=40)
def test_exactly_what_is_covered_is_held(before: Told, after: Told, wanted: list[str], user: str) -> None:
    hall = Hall(before.compiled())
    guest = hall.join(user)
    for prefix in wanted:
        with contextlib.suppress(RejectedError):
            hall.core.subscribe(guest.handler, [prefix])
    taken = [prefix for prefix in wanted if before.covers(prefix, user)]
    assert list(guest.handler.prefixes) == taken
    hall.reload(after.compiled(), {guest.handler: user})
    assert list(guest.handler.prefixes) == [prefix for prefix in taken if after.covers(prefix, user)]
