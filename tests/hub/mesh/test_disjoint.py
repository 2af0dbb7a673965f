"""Ways that have no hub in common: as many as hubs must fail so that two of them reach each other no more."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from hub.mesh.disjoint import has_ways
from hub.mesh.tree import reached

A, B, C, D, E = (bytes([number]) * 16 for number in range(1, 6))

Edges = tuple[tuple[bytes, bytes], ...]


def graph(*edges: tuple[bytes, bytes], hubs: tuple[bytes, ...] = ()) -> dict[bytes, dict[bytes, int]]:
    """Links, which stand at both of their hubs."""
    links: dict[bytes, dict[bytes, int]] = {hub: {} for hub in hubs}
    for one, other in edges:
        links.setdefault(one, {})[other] = 1
        links.setdefault(other, {})[one] = 1
    return links


def test_a_row_has_one_way_and_a_ring_two() -> None:
    """And no way leads to a hub that is not there."""
    row = graph((A, B), (B, C), (C, D))
    ring = graph((A, B), (B, C), (C, D), (D, A))
    assert has_ways(row, A, D, 1)
    assert not has_ways(row, A, D, 2)
    assert has_ways(ring, A, C, 2)
    assert not has_ways(ring, A, C, 3)
    assert not has_ways(row, A, E, 1)
    assert not has_ways(graph((A, B), hubs=(E,)), A, E, 1)


def test_the_link_between_the_two_may_be_left_out() -> None:
    """So it is known whether they could do without it."""
    ring = graph((A, B), (B, C), (C, A))
    assert has_ways(ring, A, B, 2)
    assert not has_ways(ring, A, B, 2, but_direct=True)
    assert has_ways(ring, A, B, 1, but_direct=True)


def test_a_way_that_is_in_the_way_is_exchanged() -> None:
    """The shortest one first, A B C E, leaves none beside it, although there are two: A B E and A D C E."""
    links = graph((A, B), (B, C), (C, E), (A, D), (D, C), (B, E))
    assert has_ways(links, A, E, 2)
    assert not has_ways(links, A, E, 3)


hubs = st.sampled_from([bytes([number]) * 16 for number in range(1, 8)])
edges = st.lists(st.tuples(hubs, hubs).filter(lambda edge: edge[0] != edge[1]), max_size=16).map(tuple)


@given(edges, st.integers(1, 4))
def test_as_many_as_hubs_must_fail(some: Edges, count: int) -> None:
    """Menger's theorem: of two that are not linked, whatever is between them and fails."""
    links = graph(*some, hubs=(A, B))
    links[A].pop(B, None)
    links[B].pop(A, None)
    assert has_ways(links, A, B, count) is stays_together(links, count - 1)


@given(edges, st.integers(1, 4))
def test_the_direct_link_is_a_way(some: Edges, count: int) -> None:
    """One that has no hub between its ends."""
    links = graph(*some, (A, B))
    assert has_ways(links, A, B, count + 1) is has_ways(links, A, B, count, but_direct=True)


def stays_together(links: dict[bytes, dict[bytes, int]], failing: int) -> bool:
    """Whether B is reached from A whatever hubs fail, so many of them at most."""
    others = [hub for hub in links if hub not in {A, B}]
    return all(
        B in reached(A, without(links, set(gone)))
        for count in range(min(failing, len(others)) + 1)
        for gone in combinations(others, count)
    )


def without(links: dict[bytes, dict[bytes, int]], gone: set[bytes]) -> dict[bytes, dict[bytes, int]]:
    """The links of those that are left."""
    return {
        hub: {other: cost for other, cost in far.items() if other not in gone}
        for hub, far in links.items()
        if hub not in gone
    }
