"""Trees: shortest ways, the same whoever makes them, and every hub beneath another once."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hub.mesh.graph import onward, parents

Graph = dict[bytes, dict[bytes, int]]

HUBS = [bytes([number]) * 16 for number in range(1, 9)]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    pairs = [(a, b) for a in HUBS for b in HUBS if a < b]
    links: Graph = {}
    for a, b in draw(st.lists(st.sampled_from(pairs), unique=True)):
        cost = draw(st.integers(1, 3))
        links.setdefault(a, {})[b] = links.setdefault(b, {})[a] = cost
    return links


def distances(origin: bytes, links: Graph) -> dict[bytes, int]:
    far = {origin: 0}
    while True:
        before = dict(far)
        for hub, others in links.items():
            for other, cost in others.items():
                if hub in far and far[hub] + cost < far.get(other, 10**9):
                    far[other] = far[hub] + cost
        if far == before:
            return far


@given(graphs(), st.randoms(use_true_random=False))
def test_a_tree_is_shortest_and_the_same_in_whatever_order_links_are_known(links: Graph, random: Random) -> None:
    origin = HUBS[0]
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
def test_what_the_origin_sends_on_reaches_every_hub_once(links: Graph) -> None:
    origin = HUBS[0]
    tree = parents(origin, links)
    reached = [origin]
    for hub in reached:
        assert len(reached) <= len(HUBS)
        reached += sorted(set(onward(hub, tree).values()))
    assert sorted(reached) == sorted(tree)


@given(graphs())
def test_onward_leads_beneath_a_hub_and_nowhere_else(links: Graph) -> None:
    tree = parents(HUBS[0], links)
    for hub in HUBS:
        beneath = onward(hub, tree)
        for other in HUBS:
            way = [other]
            while way[-1] in tree and tree[way[-1]] != way[-1]:
                way.append(tree[way[-1]])
            expected = way[way.index(hub) - 1] if hub in way[1:] else None
            assert beneath.get(other) == expected
