"""Labels, names, rules and prefixes together: every message to everybody who wants it, once, with the cache on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.batch import Batch
from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.frame import FLAG_TAGGED, iterate_frames
from hub.handler import Handler
from hub.limits import CoreLimits, HandlerLimits, RouteLimits
from hub.names.claim import Wish
from hub.stretch import Stretch, find_runs
from hub.tags.envelope import Envelope, tagged
from hub.tags.rules import Rule, check_rule
from tests.hub.fakes import Turn

NAMES = ("s.s", "t.t")
TOPICS = ("/", "/a", "/a/b", "/b")
PREFIXES = ("", "/a", "/a/", "/b")
label_sets = st.sets(st.sampled_from("abcd"), max_size=4)
rules = st.builds(
    lambda labels, prefix, sender: Rule(tuple(sorted(labels)), prefix, sender),
    label_sets,
    st.sampled_from(PREFIXES),
    st.sampled_from(("", "", *NAMES)),
).filter(lambda one: one.labels or one.sender)
envelopes = st.builds(
    tagged,
    st.sampled_from(TOPICS),
    label_sets,
    st.sampled_from(("", "", *NAMES)),
    st.sampled_from(("", "", "", *NAMES)),
)


def frame_of(envelope: Envelope, value: Any) -> bytes:
    if envelope == Envelope(envelope.topic):
        return Batch.of(envelope.topic, [value]).frames
    return Batch.under(envelope.encode(), [value], FLAG_TAGGED).frames


def bring(turn: Turn, source: Handler, frames: list[bytes]) -> list[str]:
    data = b"".join(frames)
    routes, refused, position = turn.core.routes, [], 0
    turn.core.write_is_due = True
    while position < len(data):
        runs = find_runs(data, position, routes.table, len(data))
        if len(runs[0]) == 1:
            batch = Batch(data[position : runs[1][-1]], runs[2][0])
            turn.core.publish(source, runs[0][0], batch)
        elif runs[0]:
            turn.core.publish_stretch(source, Stretch(data, position, runs))
        if runs[0]:
            position = runs[1][-1]
            continue
        frame = next(iterate_frames(data[position:]))
        try:
            routes.miss(frame.routing_key)
        except RejectedError as error:
            refused.append(error.text)
            position += 8 + len(frame.key) + len(frame.body)
    turn.core.end_read()
    return refused


class TaggedAgainstNaive(RuleBasedStateMachine):
    @initialize(limit=st.sampled_from((1, 4, 1000)), limit_bytes=st.sampled_from((1, 5_000, 10**8)))
    def start(self, limit: int, limit_bytes: int) -> None:
        self.turn = Turn(CoreLimits(routes=RouteLimits(limit, limit_bytes)))
        roles = (Role.CLIENT, Role.CLIENT, Role.CLIENT, Role.CLIENT, Role.LOCAL)
        self.members = [self.turn.join(role=role) for role in roles]
        self.prefixes: list[list[str]] = [[] for _ in roles]
        self.rules: list[list[Rule]] = [[] for _ in roles]
        self.owners: dict[str, int] = {}
        self.due: list[list[int]] = [[] for _ in roles]
        self.refused = [0] * len(roles)
        self.told = [0] * len(roles)
        self.sent = 0
        for number, (handler, _) in enumerate(self.members):
            self.turn.core.authority.on_refused[handler] = lambda _, messages, number=number: self.count(
                number, messages
            )

    def count(self, number: int, messages: int) -> None:
        self.told[number] += messages

    @rule(number=st.integers(0, 4), prefix=st.sampled_from(PREFIXES))
    def subscribe(self, number: int, prefix: str) -> None:
        self.turn.core.subscribe(self.members[number][0], [prefix])
        self.prefixes[number].append(prefix)

    @rule(number=st.integers(0, 4), data=st.data())
    def unsubscribe(self, number: int, data: st.DataObject) -> None:
        if self.prefixes[number]:
            prefix = data.draw(st.sampled_from(self.prefixes[number]))
            self.prefixes[number].remove(prefix)
            self.turn.core.unsubscribe(self.members[number][0], [prefix])

    @rule(number=st.integers(0, 4), some=st.lists(rules, max_size=4))
    def subscribe_rules(self, number: int, some: list[Rule]) -> None:
        self.turn.core.subscribe_rules(self.members[number][0], some)
        self.rules[number] += some

    @rule(number=st.integers(0, 4), data=st.data())
    def unsubscribe_rules(self, number: int, data: st.DataObject) -> None:
        held = self.rules[number]
        some = data.draw(st.lists(st.sampled_from(held), max_size=3, unique=True)) if held else []
        for one in some:
            held.remove(one)
        self.turn.core.rules.unsubscribe(self.members[number][0], some)

    @rule(number=st.integers(0, 2), name=st.sampled_from(NAMES))
    def claim(self, number: int, name: str) -> None:
        try:
            self.turn.core.names.claim(self.members[number][0], Wish(name), 1)
        except RejectedError:
            assert self.owners[name] != number
        else:
            self.owners[name] = number

    @rule(number=st.integers(0, 2), name=st.sampled_from(NAMES))
    def release(self, number: int, name: str) -> None:
        if self.owners.get(name) == number:
            self.turn.core.names.release(self.members[number][0], name)
            del self.owners[name]

    @rule(number=st.integers(0, 2))
    def leave(self, number: int) -> None:
        self.turn.core.detach(self.members[number][0], "gone")
        self.turn.core.flush()
        self.members[number] = self.turn.join()
        self.turn.core.authority.on_refused[self.members[number][0]] = lambda _, messages: self.count(number, messages)
        self.prefixes[number], self.rules[number], self.due[number] = [], [], []
        self.owners = {name: owner for name, owner in self.owners.items() if owner != number}

    @rule(number=st.integers(0, 3), some=st.lists(envelopes, min_size=1, max_size=8))
    def publish(self, number: int, some: list[Envelope]) -> None:
        frames = []
        refused_early = 0
        for envelope in some:
            self.sent += 1
            frames.append(frame_of(envelope, self.sent))
            if envelope.destination and envelope.destination not in self.owners:
                refused_early += 1
            elif envelope.sender and self.owners.get(envelope.sender) != number:
                self.refused[number] += 1
            else:
                for other in self.receivers(envelope):
                    self.due[other].append(self.sent)
        assert len(bring(self.turn, self.members[number][0], frames)) == refused_early

    def receivers(self, envelope: Envelope) -> list[int]:
        if envelope.destination:
            return [self.owners[envelope.destination]]
        return [
            number
            for number in range(5)
            if any(envelope.topic.startswith(prefix) for prefix in self.prefixes[number])
            or any(
                set(one.labels) <= set(envelope.labels)
                and envelope.topic.startswith(one.prefix)
                and one.sender in {"", envelope.sender}
                for one in self.rules[number]
            )
        ]

    @invariant()
    def everybody_has_what_is_due(self) -> None:
        for (handler, outlet), due in zip(self.members, self.due, strict=True):
            assert [value for value in outlet.values if isinstance(value, int)] == due, handler
        assert self.told == self.refused
        routes = self.turn.core.routes
        assert len(routes.table) <= routes.limit
        assert routes.size_bytes <= routes.limit_bytes or len(routes.table) == 1
        if not routes.table:
            assert routes.size_bytes == 0
        published = sum(handler.published_messages for handler, _ in self.members)
        assert published <= self.sent - sum(self.refused)


TestTaggedAgainstNaive = TaggedAgainstNaive.TestCase


def test_a_change_forgets_what_it_could_match_and_nothing_else() -> None:
    turn = Turn()
    handler, _ = turn.join()
    keys = {
        text: envelope.routing_key
        for text, envelope in {
            "a": tagged("/t", ["a"]),
            "ab": tagged("/t", ["a", "b"]),
            "ab elsewhere": tagged("/u", ["a", "b"]),
            "ab of s": tagged("/t", ["a", "b"], sender="s.s"),
        }.items()
    }

    def forgotten() -> set[str]:
        gone = {text for text, key in keys.items() if key not in turn.core.routes.table}
        for text in gone:
            turn.core.routes.miss(keys[text])
        return gone

    forgotten()
    for changed, due in (
        (check_rule(["a", "b"], "/t"), {"ab", "ab of s"}),
        (check_rule(["b"]), {"ab", "ab elsewhere", "ab of s"}),
        (check_rule(["a", "c"]), set()),
        (check_rule([], sender="s.s"), {"ab of s"}),
        (check_rule(["a"], "/u", "s.s"), set()),
    ):
        turn.core.subscribe_rules(handler, [changed])
        assert forgotten() == due
        turn.core.rules.unsubscribe(handler, [changed])
        assert forgotten() == due
    turn.core.subscribe(handler, ["/u"])
    assert forgotten() == {"ab elsewhere"}
    turn.core.names.claim(handler, Wish("s.s"), 1)
    assert forgotten() == {"ab of s"}
    assert turn.core.routes.clears == 0


def test_very_many_at_once_are_all_forgotten() -> None:
    turn = Turn()
    handler, _ = turn.join()
    for number in range(5_000):
        turn.core.routes.miss(tagged(f"/t/{number}", ["hot"]).routing_key)
    other = tagged("/t", ["cold"]).routing_key
    turn.core.routes.miss(other)
    turn.core.subscribe_rules(handler, [check_rule(["hot"])])
    assert turn.core.routes.clears == 1
    assert turn.core.routes.tagged_keys == turn.core.routes.size_bytes == 0


def test_too_many_rules_are_refused_all_of_them() -> None:
    turn = Turn(CoreLimits(HandlerLimits(rules=3)))
    handler, _ = turn.join()
    some = [check_rule([str(number)]) for number in range(4)]
    turn.core.subscribe_rules(handler, some[:3])
    turn.core.subscribe_rules(handler, some[:3])
    with pytest.raises(RejectedError, match="4 rules, the limit for a client is 3"):
        turn.core.subscribe_rules(handler, some)
    assert len(turn.core.rules) == 3
    turn.core.rules.unsubscribe(handler, some)
    assert len(turn.core.rules) == 3
    turn.core.rules.unsubscribe(handler, some)
    assert len(turn.core.rules) == 0
    assert not turn.core.rules.of(handler)


def test_a_sender_is_who_it_says() -> None:
    turn = Turn()
    owner, _ = turn.join()
    other, _ = turn.join()
    link, _ = turn.join(role=Role.LINK)
    _, outlet = turn.join("/")
    refused: list[tuple[int, str, int]] = []
    turn.core.authority.on_refused[other] = lambda error, messages: refused.append((error.code, error.text, messages))
    turn.core.names.claim(owner, Wish("a.b"), 1)
    envelope = tagged("/t", sender="a.b")
    for value, source in enumerate((owner, other, link)):
        bring(turn, source, [frame_of(envelope, value), frame_of(Envelope("/t"), value)])
    assert outlet.values == [0, 0, 1, 2, 2]
    assert refused == [(CloseCode.NOT_ALLOWED, "sender 'a.b': that name is not yours", 1)]
    assert [handler.published_messages for handler in (owner, other, link)] == [2, 1, 2]
    route = turn.core.routes.table[envelope.routing_key]
    batch = Batch(frame_of(envelope, 0), 1)
    turn.core.authority.check(owner, route, batch)
    with pytest.raises(RejectedError, match="is not yours"):
        turn.core.authority.check(other, route, batch)
