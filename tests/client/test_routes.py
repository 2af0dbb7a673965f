"""The client's own routes: like a look-up among all prefixes, remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.labels.envelope import tagged
from hub.labels.rules import Rule
from hub.messages.frame import FLAG_TAGGED, HEADER, KIND_MESSAGES
from peers.client import routes as module
from peers.client.routes import Addressed, LocalRoutes, Sink


class NamedSink(Sink):
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UNREADABLE = NamedSink("unreadable")


def key_of(topic: str | bytes, flags: int = 0) -> bytes:
    raw = topic.encode() if isinstance(topic, str) else topic
    return HEADER.pack(0, KIND_MESSAGES, flags, len(raw))[4:] + raw


texts = st.lists(st.sampled_from(("/", "a", "b", "é")), min_size=1, max_size=4).map("".join)


@given(
    st.lists(st.tuples(st.booleans(), texts | st.just(""), st.integers(0, 2)), max_size=20),
    st.lists(texts, min_size=1, max_size=5),
)
def test_as_a_look_up(changes: list[tuple[bool, str, int]], topics: list[str]) -> None:
    sinks = [NamedSink(str(number)) for number in range(3)]
    routes = LocalRoutes(UNREADABLE)
    held: set[tuple[str, int]] = set()
    for add, prefix, number in changes:
        if add:
            held.add((prefix, number))
            routes.add(prefix, sinks[number])
        else:
            held.discard((prefix, number))
            routes.discard(prefix, sinks[number])
        for topic in topics:
            found = routes.find(key_of(topic)).sinks
            assert {sink.name for sink in found} == {  # type: ignore[attr-defined]
                str(number) for prefix, number in held if topic.startswith(prefix)
            }
            assert len(set(found)) == len(found)


def test_labels_names_and_prefixes() -> None:
    routes = LocalRoutes(UNREADABLE)
    by_prefix, by_rule, by_both, by_name = sinks = [NamedSink(name) for name in ("prefix", "rule", "both", "name")]
    rule = Rule(("a",), "/x", "s.s")
    for want, sink in (
        ("/x", by_prefix),
        (rule, by_rule),
        ("/", by_both),
        (rule, by_both),
        (Addressed("d.d"), by_name),
    ):
        routes.add(want, sink)
    key = tagged("/x", ["a", "b"], "s.s", "d.d").routing_key
    assert set(routes.find(key).sinks) == set(sinks)
    assert set(routes.find(tagged("/x", ["b"], "s.s").routing_key).sinks) == {by_prefix, by_both}
    assert set(routes.find(tagged("/x", ["a"]).routing_key).sinks) == {by_prefix, by_both}
    routes.discard(rule, by_both)
    routes.discard("/x", by_prefix)
    routes.discard(Addressed("d.d"), by_name)
    assert set(routes.find(key).sinks) == {by_rule, by_both}


def test_unreadable_keys() -> None:
    routes = LocalRoutes(UNREADABLE)
    routes.add("", NamedSink("all"))
    unread = (
        key_of(b"/\xff"),
        key_of(""),
        key_of("/a\n"),
        key_of("/a", FLAG_TAGGED),
        key_of("/a", 64),
        key_of("x" * 1025),
    )
    for key in unread:
        assert routes.find(key).sinks == (UNREADABLE,)
        assert routes.miss(key) is routes.table[key]


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROUTES_LIMIT", 10)
    routes = LocalRoutes(UNREADABLE)
    for number in range(95):
        routes.find(key_of(f"/{number}"))
        assert len(routes.table) <= 10
