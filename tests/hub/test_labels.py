"""Labels, names and rules: the routing key, the index of rules, and every message to everybody who wants it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.handlers.delivery import Role
from hub.labels.envelope import ENVELOPE_LIMIT_BYTES, Envelope, tagged
from hub.labels.rules import Rule, RuleIndex, check_rule
from hub.limits import CoreLimits, RouteLimits
from hub.messages.frame import FLAG_BATCH, FLAG_TAGGED, KEY_LIMIT_BYTES, KIND_MESSAGES, Frame, topic_of
from hub.names.claim import Wish
from tests.hub.fakes import Turn, bring, frame_of

labels = st.sets(st.text("aé漢😀 -\u2028\u200b", min_size=1, max_size=6), max_size=32)
names = st.sampled_from(("", "", "org.example.Player", "a.b"))
topics = st.sampled_from(("/a", "/a/b", "é", "x" * 1024))
envelopes = st.builds(tagged, topics, labels, names, names)


@given(envelopes)
def test_out_and_back(envelope: Envelope) -> None:
    key = envelope.encode()
    assert Envelope.decode(key) == envelope
    assert topic_of(FLAG_TAGGED, key) == envelope.topic.encode()
    assert Frame(KIND_MESSAGES, FLAG_TAGGED | FLAG_BATCH, key, b"").topic == envelope.topic.encode()
    assert envelope.routing_key[4:] == key


@given(envelopes, st.data())
def test_what_was_damaged_is_refused_or_is_another_envelope(envelope: Envelope, data: st.DataObject) -> None:
    key = bytearray(envelope.encode())
    place = data.draw(st.integers(0, len(key) - 1))
    key[place] = data.draw(st.integers(0, 255))
    cut = bytes(key[: data.draw(st.integers(0, len(key)))])
    with suppress(RejectedError):
        assert Envelope.decode(cut).encode() == cut


START = b"\0\x02/a\0\0"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"", "the key ends at byte 0, too soon"),
        (b"\0\x05/a", "the key ends at byte 4, too soon"),
        (b"\0\x02/a", "the key ends at byte 4, too soon"),
        (b"\0\x02/a\0", "the key ends at byte 5, too soon"),
        (b"\0\x02/a\x09\0", "too soon"),
        (b"\0\x02/a\0\x09", "within a field that ends at 15"),
        (START + b"\x05abc", "the key ends at byte 10, within a field that ends at 12"),
        (b"\0\0\0\0", "topic is empty"),
        (START + b"\0", "a label is empty"),
        (START + b"\x01b\x01a", "labels must be sorted"),
        (START + b"\x01a\x01a", "each once"),
        (START + b"\x01\n", "control character U\\+000A"),
        (START + b"\x01\xff", "labels are not UTF-8"),
        (START + b"\x01\xc3\x01\xa9", "sorted|not UTF-8"),
        (START + b"\x81" + b"x" * 129, "129 bytes long, the limit is 128"),
        (START + b"".join(b"\x02%02d" % number for number in range(33)), "33 labels, the limit is 32"),
        (b"\0\x02/a\x03a/b\0", "name 'a/b' is not a valid name"),
        (b"\0\x02/a\0\x03a.1", "name 'a.1' is not a valid name"),
    ],
)
def test_bad_keys(key: bytes, text: str) -> None:
    with pytest.raises(RejectedError, match=text) as refused:
        Envelope.decode(key)
    assert refused.value.code == CloseCode.BAD_DATA


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: tagged("$hub/x", ["a"]), InvalidTopicError, "is the hub's own"),
        (lambda: tagged("/a", [""]), InvalidNameError, "label is empty"),
        (lambda: tagged("/a", sender="me"), InvalidNameError, "name 'me'"),
        (lambda: tagged("/a", destination="you"), InvalidNameError, "name 'you'"),
        (lambda: check_rule([], "/x"), InvalidNameError, "subscribe to the prefix '/x' itself"),
        (lambda: check_rule(["a"], "/\n"), InvalidTopicError, "control character"),
        (lambda: check_rule([""]), InvalidNameError, "a label is empty"),
        (lambda: check_rule(["a"], sender="x"), InvalidNameError, "name 'x' is not a valid name"),
        (lambda: check_rule(map(str, range(33))), InvalidNameError, "33 labels"),
    ],
)
def test_what_may_not_be_said(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_the_longest_fits_into_a_key() -> None:
    name = "a." + "b" * 253
    longest = tagged("t" * 1024, [f"{number:02}" + "x" * 126 for number in range(32)], name, name)
    assert len(longest.encode()) == ENVELOPE_LIMIT_BYTES <= KEY_LIMIT_BYTES
    assert Envelope.decode(longest.encode()) == longest


LABELS = "abcdef"
label_sets = st.sets(st.sampled_from(LABELS), max_size=5).map(lambda some: tuple(sorted(some)))
prefixes = st.sampled_from(("", "", "", "/", "/a", "/a/", "/b"))
senders = st.sampled_from(("", "", "s.s", "t.t"))
rules = st.builds(Rule, label_sets, prefixes, senders).filter(lambda rule: rule.labels or rule.sender)
values = st.integers(1, 40)


def matches(one: Rule, topic: str, labels: tuple[str, ...], sender: str) -> bool:
    return set(one.labels) <= set(labels) and topic.startswith(one.prefix) and one.sender in {"", sender}


class RulesAgainstAll(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index: RuleIndex[int] = RuleIndex()
        self.held: set[tuple[Rule, int]] = set()

    @rule(some=st.lists(st.tuples(rules, values), min_size=1, max_size=30))
    def add(self, some: list[tuple[Rule, int]]) -> None:
        for one, value in some:
            assert self.index.add(one, value) is ((one, value) not in self.held)
            self.held.add((one, value))

    @rule(labels=label_sets.filter(bool), count=st.integers(1, 40))
    def add_crowd(self, labels: tuple[str, ...], count: int) -> None:
        for value in range(count):
            one = Rule(labels, "/a" * (value % 3))
            self.index.add(one, value)
            self.held.add((one, value))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        for one in data.draw(st.lists(st.sampled_from(sorted(self.held)), max_size=20)):
            assert self.index.discard(*one) is (one in self.held)
            self.held.discard(one)

    @rule(one=rules, value=values)
    def discard_any(self, one: Rule, value: int) -> None:
        assert self.index.discard(one, value) is ((one, value) in self.held)
        self.held.discard((one, value))

    @rule(topic=st.sampled_from(("/", "/a", "/a/b", "/b", "c")), labels=label_sets, sender=senders)
    def find(self, topic: str, labels: tuple[str, ...], sender: str) -> None:
        naive = {value for one, value in self.held if matches(one, topic, labels, sender)}
        assert set(self.index.find(topic, labels, sender)) == naive

    @invariant()
    def counted(self) -> None:
        assert len(self.index) == len(self.held)

    def teardown(self) -> None:
        for one in list(self.held):
            assert self.index.discard(*one)
        assert len(self.index) == 0
        assert not self.index._of_sender
        assert not self.index._general._places
        assert not self.index._general._sets


TestRulesAgainstAll = RulesAgainstAll.TestCase
TestRulesAgainstAll.settings = settings(max_examples=settings().max_examples // 2)


def test_rules_stand_under_labels_that_few_others_have() -> None:
    index: RuleIndex[int] = RuleIndex()
    for number in range(100):
        index.add(Rule(("all", f"m{number:02}")), number)
    assert max(map(len, index._general._places.values())) == 1
    assert set(index.find("/t", ("all", "m07"))) == {7}


NAMES = ("s.s", "t.t")
TOPICS = ("/", "/a", "/a/b", "/b")
PREFIXES = ("", "/a", "/a/", "/b")
few_labels = st.sets(st.sampled_from("abcd"), max_size=4)

few_rules = st.builds(
    lambda labels, prefix, sender: Rule(tuple(sorted(labels)), prefix, sender),
    few_labels,
    st.sampled_from(PREFIXES),
    st.sampled_from(("", "", *NAMES)),
).filter(lambda one: one.labels or one.sender)

few_envelopes = st.builds(
    tagged,
    st.sampled_from(TOPICS),
    few_labels,
    st.sampled_from(("", "", *NAMES)),
    st.sampled_from(("", "", "", *NAMES)),
)


def bare(envelope: Envelope) -> str | Envelope:
    return envelope.topic if envelope == Envelope(envelope.topic) else envelope


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
        for number in range(len(roles)):
            self.listen(number)

    def listen(self, number: int) -> None:
        def count(_: RejectedError, messages: int) -> None:
            self.told[number] += messages

        self.turn.core.authority.on_refused[self.members[number][0]] = count

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

    @rule(number=st.integers(0, 4), some=st.lists(few_rules, max_size=4))
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
        self.listen(number)
        self.prefixes[number], self.rules[number], self.due[number] = [], [], []
        self.owners = {name: owner for name, owner in self.owners.items() if owner != number}

    @rule(number=st.integers(0, 3), some=st.lists(few_envelopes, min_size=1, max_size=8))
    def publish(self, number: int, some: list[Envelope]) -> None:
        frames = []
        refused_early = 0
        for envelope in some:
            self.sent += 1
            frames.append(frame_of(bare(envelope), self.sent))
            if envelope.destination and envelope.destination not in self.owners:
                refused_early += 1
            elif envelope.sender and self.owners.get(envelope.sender) != number:
                self.refused[number] += 1
            else:
                for other in self.receivers(envelope):
                    self.due[other].append(self.sent)
        assert len(bring(self.turn.core, self.members[number][0], frames)) == refused_early

    def receivers(self, envelope: Envelope) -> list[int]:
        if envelope.destination:
            return [self.owners[envelope.destination]]
        return [
            number
            for number in range(5)
            if any(envelope.topic.startswith(prefix) for prefix in self.prefixes[number])
            or any(matches(one, envelope.topic, envelope.labels, envelope.sender) for one in self.rules[number])
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


def test_more_tagged_routes_than_are_forgotten_singly_are_forgotten_as_a_whole() -> None:
    turn = Turn()
    (source, _), (_, reader) = turn.join(), turn.join("/0")
    routes = turn.core.routes
    turn.read(source, [("/plain", 0), *((tagged(f"/{number}", ["a"]), number) for number in range(4_200))])
    handler, outlet = turn.join()
    turn.core.subscribe_rules(handler, [check_rule(["a"])])
    (plain,) = routes.table
    assert (topic_of(0, plain[4:]), routes.clears, routes.size_bytes) == (b"/plain", 1, 2 * len(plain) + 250)
    turn.read(source, [(tagged("/0", ["a"]), -1), ("/1", -2)])
    turn.core.flush()
    assert (outlet.values, reader.values) == ([-1], [0, -1])
