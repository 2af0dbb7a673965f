"""The route cache: always what a fresh look-up would give, and bounded; and who gets what of a read."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import RouteLimits
from hub.messages.frame import FLAG_BATCH, HEADER, KIND_MESSAGES, encode_frame
from hub.messages.stretch import Stretch
from hub.policy.policy import Policy
from hub.prefixes import PrefixMultimap
from hub.routing.routes import Routes
from hub.scheduling.scheduler import Scheduler
from tests.hub.fakes import FLAG_BROKER, handler_of


def key_of(topic: str | bytes, flags: int = 0, kind: int = KIND_MESSAGES) -> bytes:
    raw = topic.encode() if isinstance(topic, str) else topic
    return HEADER.pack(0, kind, flags, len(raw))[4:] + raw


def topic_of(key: bytes) -> str:
    return key[4:].decode()


def numbered(*roles: Role) -> list[Handler]:
    handlers = [handler_of(role=role) for role in roles]
    for number, handler in enumerate(handlers, 1):
        handler.attach(number, lambda _: None, lambda _: None)
    return handlers


prefixes = st.lists(st.sampled_from(("/", "a", "/a", "/ab", "é", "漢", "😀")), max_size=2).map("".join)
topics = prefixes.filter(bool)
flags_taken = st.sampled_from((0, FLAG_BATCH, FLAG_BROKER, FLAG_BATCH | FLAG_BROKER))


class RoutesAgainstMultimap(RuleBasedStateMachine):
    @initialize(limit=st.sampled_from((1, 8, 1000, 1000)))
    def start(self, limit: int) -> None:
        self.multimap: PrefixMultimap[Handler] = PrefixMultimap()
        self.routes = Routes(self.multimap, RouteLimits(limit))
        self.handlers = numbered(Role.CLIENT, Role.CLIENT, Role.LINK, Role.LOCAL)
        self.subscribed: set[tuple[str, int]] = set()

    @rule(prefix=prefixes, number=st.integers(0, 3))
    def subscribe(self, prefix: str, number: int) -> None:
        if self.multimap.add(prefix, self.handlers[number]):
            self.subscribed.add((prefix, number))
            self.forget(prefix)

    @precondition(lambda self: self.subscribed)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        prefix, number = data.draw(st.sampled_from(sorted(self.subscribed)))
        self.subscribed.discard((prefix, number))
        assert self.multimap.discard(prefix, self.handlers[number])
        self.forget(prefix)

    def forget(self, prefix: str) -> None:
        before = dict(self.routes.table)
        clears = self.routes.clears
        self.routes.forget(prefix)
        kept = {key: route for key, route in before.items() if not topic_of(key).startswith(prefix)}
        if self.routes.clears == clears:
            assert self.routes.table == kept
        else:
            assert len(before) - len(kept) > len(before) // 4, "emptied for the sake of a few"
            assert not self.routes.table

    @rule(keys=st.lists(st.builds(key_of, topics, flags_taken), min_size=1, max_size=30))
    def look_up(self, keys: list[bytes]) -> None:
        for key in keys:
            if key not in self.routes.table:
                misses = self.routes.misses
                route = self.routes.miss(key)
                assert self.routes.table[key] is route
                assert self.routes.misses == misses + 1

    @rule()
    def clear(self) -> None:
        self.routes.clear()
        assert not self.routes.table

    @invariant()
    def nothing_is_stale(self) -> None:
        by_handlers: dict[frozenset[Handler], object] = {}
        for key, route in self.routes.table.items():
            naive = {self.handlers[number] for prefix, number in self.subscribed if topic_of(key).startswith(prefix)}
            assert set(route.handlers) == naive
            assert len(route.handlers) == len(naive)
            assert list(route.near) == [handler for handler in route.handlers if handler.role is not Role.LINK]
            assert by_handlers.setdefault(frozenset(naive), route) is route

    @invariant()
    def bounded(self) -> None:
        assert len(self.routes.table) <= self.routes.limit
        assert self.routes.size_bytes == sum(2 * len(key) + 250 for key in self.routes.table)
        assert sorted(entry[-4:] + entry[:-4] for entry in self.routes._by_topic) == sorted(self.routes.table)


TestRoutesAgainstMultimap = RoutesAgainstMultimap.TestCase


@pytest.mark.parametrize("rest", ["", "/", "b", "\N{TILDE}", "é", "漢", "\uffff", "😀", "\U0010ffff"])
def test_forgetting_reaches_every_topic_under_the_prefix(rest: str) -> None:
    routes = Routes(PrefixMultimap())
    neighbours = [key_of(topic) for topic in ("/", "/é", "/ê", "/d", "/f", "/é/m", "/é/l\U0010ffff", "/é/o")]
    for key in [*neighbours, key_of("/é/n" + rest)]:
        routes.miss(key)
    routes.forget("/é/n")
    assert list(routes.table) == neighbours


NOT_ALLOWED = [key_of("$hub/"), key_of("$hub/client/joined"), key_of("$hub/x", FLAG_BATCH)]

BAD = [
    key_of(""),
    key_of("/a\nb"),
    key_of("/\x7f"),
    key_of(b"/\xff"),
    key_of(b"\xed\xa0\x80"),
    key_of("a" * 1025),
    *(key_of("/a", 1 << bit) for bit in range(2, 8)),
    key_of("/a", 0b101),
    key_of("/a", 0xFF),
    key_of("/a", kind=3),
]


@pytest.mark.parametrize(
    ("key", "code"),
    [*((key, CloseCode.NOT_ALLOWED) for key in NOT_ALLOWED), *((key, CloseCode.BAD_DATA) for key in BAD)],
)
def test_refused_keys_are_not_remembered(key: bytes, code: CloseCode) -> None:
    routes = Routes(PrefixMultimap())
    for _ in range(2):
        with pytest.raises(RejectedError) as refused:
            routes.miss(key)
        assert refused.value.code == code
        assert refused.value.text
    assert not routes.table
    assert not routes._by_topic


def test_what_was_decided_by_another_policy_is_forgotten_at_once() -> None:
    multimap: PrefixMultimap[Handler] = PrefixMultimap()
    scheduler = Scheduler(lambda: None)
    routes = Routes(multimap, scheduler=scheduler)
    routes.adopt(Policy({}, {}))
    (handler,) = numbered(Role.CLIENT)
    multimap.add("/", handler)
    for number in range(1_000):
        routes.of(key_of(f"/{number}"))
    remembered = weakref.ref(routes.find("/1"))
    assert routes.size_bytes > 500_000
    routes.adopt(Policy({}, {}))
    assert (routes.table, routes.size_bytes, routes.clears) == ({}, 0, 1)
    assert routes.of(key_of("/1")).domains is not None
    assert routes.of(key_of("/1")) is not remembered()
    assert remembered() is not None
    scheduler.run()
    assert not scheduler.is_busy
    assert remembered() is None


@dataclass(frozen=True, eq=False)
class Way:
    handlers: tuple[str, ...]


def frame(number: int) -> bytes:
    return encode_frame(3, b"%d" % number, key=b"/a")


def stretch_of(ways: list[Way], *, before: bytes = b"", behind: bytes = b"") -> tuple[Stretch[Way], list[bytes]]:
    runs = [b"".join(frame(10 * place + each) for each in range(place % 3 + 1)) for place in range(len(ways))]
    ends, at = [], len(before)
    for run in runs:
        at += len(run)
        ends.append(at)
    messages = [place % 3 + 1 for place in range(len(ways))]
    return Stretch(before + b"".join(runs) + behind, len(before), (ways, ends, messages)), runs


def got(stretch: Stretch[Way]) -> dict[str, tuple[bytes, int]]:
    all_of_it: dict[str, tuple[bytes, int]] = {}
    for handlers, batch in stretch.gathered(lambda way: way.handlers):
        for handler in handlers:
            assert handler not in all_of_it
            all_of_it[handler] = batch.frames, batch.messages
    return all_of_it


WAYS = st.lists(st.lists(st.sampled_from("abcdef"), unique=True).map(lambda names: Way(tuple(names))), min_size=1)


@given(ways=WAYS, data=st.data(), before=st.sampled_from([b"", b"xy"]), behind=st.sampled_from([b"", b"z"]))
def test_everybody_gets_what_it_wants_in_order(
    ways: list[Way], data: st.DataObject, before: bytes, behind: bytes
) -> None:
    order = data.draw(st.lists(st.sampled_from(ways), min_size=1, max_size=20))
    stretch, runs = stretch_of(order, before=before, behind=behind)
    expected: dict[str, tuple[bytes, int]] = {}
    for way, run, messages in zip(order, runs, stretch.messages, strict=True):
        for handler in way.handlers:
            frames, count = expected.get(handler, (b"", 0))
            expected[handler] = frames + run, count + messages
    assert got(stretch) == expected
    batches = [batch.frames for _, batch in stretch.gathered(lambda way: way.handlers)]
    assert len(batches) == len({frames for frames, _ in expected.values()}), "who wants the same shares one batch"
