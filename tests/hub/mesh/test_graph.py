"""Which hubs are linked, the trees of them, and from which link the messages of an origin are taken."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.mesh.announcement import Record
from hub.mesh.graph import Graph, Links, difference, onward, parents
from hub.mesh.link_state import Pace
from hub.mesh.upstream import FAR_EPOCH, Upstreams
from hub.messages.frame import EPOCH_LIMIT, Origin

HUBS = [bytes([number]) * 16 for number in range(5)]
ME = HUBS[0]

_told = st.tuples(
    st.sampled_from(HUBS), st.none() | st.dictionaries(st.sampled_from(HUBS), st.integers(1, 3), max_size=4)
)
"""A hub, and the links that it tells of; None: it is forgotten."""


def _mutual(records: dict[bytes, Record]) -> Links:
    return {
        hub: {
            other: max(cost, records[other].neighbours[hub])
            for other, cost in record.neighbours.items()
            if other != hub and other in records and hub in records[other].neighbours
        }
        for hub, record in records.items()
    }


@given(st.lists(st.lists(_told, max_size=4), max_size=8))
def test_it_is_what_both_hubs_of_each_link_tell(rounds: list[list[tuple[bytes, dict[bytes, int] | None]]]) -> None:
    graph = Graph(ME)
    records = {ME: Record(ME)}
    for told in rounds:
        before = _mutual(records)
        for hub, neighbours in told:
            links = _mutual(records)
            if neighbours is not None:
                records.setdefault(hub, Record(hub)).neighbours = neighbours
            elif hub != ME:
                records.pop(hub, None)
            assert graph.update(hub, records) == (links != _mutual(records))
            assert graph.links == _mutual(records)
            assert list(graph.tree.items()) == list(parents(ME, graph.links).items())
        change = difference(before, graph.links)
        assert graph.take_change() == (None if before == graph.links else change)
        assert graph.take_change() is None


A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def links_of(hubs: set[bytes], links: dict[tuple[bytes, bytes], int]) -> Links:
    made: dict[bytes, dict[bytes, int]] = {hub: {} for hub in hubs}
    for (hub, other), cost in links.items():
        made[hub][other] = made[other][hub] = cost
    return made


pairs = [(A, B), (A, C), (B, C)]
three_linked = st.dictionaries(st.sampled_from(pairs), st.integers(1, 3)).map(lambda links: links_of({A, B, C}, links))


@given(three_linked, three_linked)
def test_the_change_leads_from_one_to_the_other(before: Links, now: Links) -> None:
    change = difference(before, now)
    links = {(hub, other): cost for hub, row in before.items() for other, cost in row.items() if hub < other}
    for link in change.cut:
        del links[link]
    links |= {(hub, other): cost for hub, other, cost in change.linked}
    assert links_of({A, B, C}, links) == now


EIGHT = [bytes([number]) * 16 for number in range(1, 9)]


@st.composite
def graphs(draw: st.DrawFn) -> dict[bytes, dict[bytes, int]]:
    pairs = [(a, b) for a in EIGHT for b in EIGHT if a < b]
    links: dict[bytes, dict[bytes, int]] = {}
    for a, b in draw(st.lists(st.sampled_from(pairs), unique=True)):
        cost = draw(st.integers(1, 3))
        links.setdefault(a, {})[b] = links.setdefault(b, {})[a] = cost
    return links


def distances(origin: bytes, links: dict[bytes, dict[bytes, int]]) -> dict[bytes, int]:
    far = {origin: 0}
    for _ in EIGHT:
        for hub, others in links.items():
            for other, cost in others.items():
                if hub in far:
                    far[other] = min(far[hub] + cost, far.get(other, 10**9))
    return far


@given(graphs(), st.randoms(use_true_random=False))
def test_a_tree_is_shortest_and_the_same_in_whatever_order_links_are_known(
    links: dict[bytes, dict[bytes, int]], random: Random
) -> None:
    origin = EIGHT[0]
    shuffled = {hub: dict(random.sample(list(others.items()), len(others))) for hub, others in links.items()}
    items = list(shuffled.items())
    random.shuffle(items)
    tree = parents(origin, links)
    assert tree == parents(origin, dict(items))
    far = distances(origin, links)
    assert set(tree) == set(far)
    for hub, before in tree.items():
        if hub != origin:
            assert far[hub] == far[before] + links[before][hub]
            equally_near = [one for one in links[hub] if one in far and far[one] + links[one][hub] == far[hub]]
            assert before == min(equally_near)


@given(graphs())
def test_what_the_origin_sends_on_reaches_every_hub_once(links: dict[bytes, dict[bytes, int]]) -> None:
    """Onward leads beneath a hub and nowhere else."""
    tree = parents(EIGHT[0], links)
    reached = [EIGHT[0]]
    for hub in reached:
        assert len(reached) <= len(EIGHT)
        reached += sorted(set(onward(hub, tree).values()))
    assert sorted(reached) == sorted(tree)
    for hub in EIGHT:
        beneath = onward(hub, tree)
        for other in EIGHT:
            way = [other]
            while way[-1] in tree and tree[way[-1]] != way[-1]:
                way.append(tree[way[-1]])
            expected = way[way.index(hub) - 1] if hub in way[1:] else None
            assert beneath.get(other) == expected


ORIGIN = b"a" * 16


def test_what_was_overtaken_by_several_epochs_is_lost() -> None:
    upstreams = Upstreams[str]()
    for link, epoch in (("one", 1), ("two", 2), ("two", 3), ("one", 5), ("two", 6)):
        assert upstreams.accepts(link, ORIGIN, epoch)
    lost = [(link, epoch) for epoch in range(1, 7) for link in ("one", "two") if upstreams.is_lost(link, ORIGIN, epoch)]
    assert lost == [("one", 1), ("two", 2), ("two", 3), ("one", 5)]
    upstreams.leave("two")
    assert upstreams.is_lost("one", ORIGIN, 1)
    assert not upstreams.is_lost("two", ORIGIN, 3)
    for epoch in range(7, 17):
        assert upstreams.accepts("one", ORIGIN, epoch)
    assert not upstreams.is_lost("one", ORIGIN, 1)
    assert upstreams.is_lost("one", ORIGIN, 8)


def test_another_link_to_the_same_hub_goes_on_where_the_first_one_ended() -> None:
    upstreams = Upstreams[str]()
    for link, far in (("one", b"far"), ("again", b"far"), ("other", b"else")):
        upstreams.come(link, far)
    assert upstreams.accepts("one", ORIGIN, 1)
    assert not upstreams.accepts("again", ORIGIN, 1)
    upstreams.leave("one")
    assert not upstreams.accepts("other", ORIGIN, 1)
    turnover = upstreams.turnover
    assert upstreams.accepts("again", ORIGIN, 1)
    assert upstreams.turnover > turnover
    assert upstreams.accepts("again", ORIGIN, 1)
    assert not upstreams.accepts("other", ORIGIN, 1)
    assert upstreams.moves("again") == 0


def test_moves_from_one_way_to_another_are_counted() -> None:
    upstreams: Upstreams[str] = Upstreams()
    for link in ("one", "two"):
        upstreams.come(link, link.encode())
    for epoch, link in enumerate(("one", "one", "two", "one"), 1):
        assert upstreams.accepts(link, ORIGIN, epoch)
    assert (upstreams.moves("one"), upstreams.moves("two")) == (1, 1)
    upstreams.leave("one")
    assert upstreams.moves("one") == 0
    upstreams.come("one again", b"one")
    assert upstreams.accepts("one again", ORIGIN, 5)
    assert upstreams.moves("one again") == 0
    assert upstreams.accepts("two", ORIGIN, 6)
    assert upstreams.moves("two") == 2


def test_an_origin_that_is_linked_is_believed_over_others() -> None:
    upstreams = Upstreams[str]()
    upstreams.come("liar", b"far")
    assert upstreams.accepts("liar", ORIGIN, EPOCH_LIMIT)
    upstreams.come("own", ORIGIN)  # what others have said before is forgotten
    for link, epoch, accepted, ahead_of in (
        ("liar", 5, False, {}),
        ("liar", EPOCH_LIMIT, False, {}),
        ("own", 5, True, {}),
        ("liar", FAR_EPOCH + 1, False, {}),
        ("liar", 6, True, {}),
        ("own", 5, False, {5: Origin(ORIGIN, 6), 6: None}),
        ("own", 7, True, {5: None}),
        ("liar", EPOCH_LIMIT, False, {}),
        ("own", EPOCH_LIMIT, True, {}),
        ("own", 5, False, {}),
    ):
        assert upstreams.accepts(link, ORIGIN, epoch, "own") is accepted, (link, epoch)
        assert {own: upstreams.ahead(Origin(ORIGIN, own)) for own in ahead_of} == ahead_of


def test_a_burst_then_one_a_second() -> None:
    pace, said = Pace(3, 1.0), []
    now_s = 100.0
    for _ in range(6):
        now_s = pace.ready_s(now_s)
        pace.use(now_s)
        said.append(now_s)
    assert said == pytest.approx([100, 100, 100, 101, 102, 103])
