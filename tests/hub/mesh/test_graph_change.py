"""What has become of a graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.mesh.graph import GraphChange, Links, difference

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def graph(hubs: set[bytes], links: dict[tuple[bytes, bytes], int]) -> Links:
    made: dict[bytes, dict[bytes, int]] = {hub: {} for hub in hubs}
    for (hub, other), cost in links.items():
        made[hub][other] = made[other][hub] = cost
    return made


def test_nothing() -> None:
    assert difference(graph({A, B}, {(A, B): 1}), graph({A, B}, {(A, B): 1})) == GraphChange((), (), (), ())


def test_a_hub_appears_without_a_link_and_is_linked_later() -> None:
    alone = graph({A, B}, {})
    assert difference(graph({A}, {}), alone) == GraphChange((B,), (), (), ())
    assert difference(alone, graph({A, B}, {(B, A): 3})) == GraphChange((), (), ((A, B, 3),), ())


def test_another_cost_is_told() -> None:
    assert difference(graph({A, B}, {(A, B): 1}), graph({A, B}, {(A, B): 2})) == GraphChange((), (), ((A, B, 2),), ())


def test_a_hub_is_forgotten_with_its_links() -> None:
    before = graph({A, B, C}, {(A, B): 1, (B, C): 1})
    assert difference(before, graph({A, B}, {(A, B): 1})) == GraphChange((), (C,), (), ((B, C),))


pairs = [(A, B), (A, C), (B, C)]
graphs = st.dictionaries(st.sampled_from(pairs), st.integers(1, 3)).map(lambda links: graph({A, B, C}, links))


@given(graphs, graphs)
def test_the_change_leads_from_one_to_the_other(before: Links, now: Links) -> None:
    change = difference(before, now)
    links = {(hub, other): cost for hub, row in before.items() for other, cost in row.items() if hub < other}
    for link in change.cut:
        del links[link]
    links |= {(hub, other): cost for hub, other, cost in change.linked}
    assert graph({A, B, C}, links) == now
