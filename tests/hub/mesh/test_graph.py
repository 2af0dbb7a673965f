"""Which hubs are linked, kept true from one announcement to the next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.mesh.announcement import Record
from hub.mesh.graph import Graph, GraphChange, Links, difference, parents

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


def test_a_link_that_comes_and_goes_meanwhile_is_no_change() -> None:
    graph = Graph(ME)
    records = {hub: Record(hub) for hub in HUBS[:2]}
    graph.update(HUBS[1], records)
    assert graph.take_change() == GraphChange((HUBS[1],), (), (), ())
    records[ME].neighbours = {HUBS[1]: 1}
    records[HUBS[1]].neighbours = {ME: 1}
    assert graph.update(ME, records)
    assert graph.reached == {ME, HUBS[1]}
    records[ME].neighbours = {}
    assert graph.update(ME, records)
    assert graph.take_change() is None
    assert graph.reached == {ME}
