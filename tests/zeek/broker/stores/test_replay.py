"""In place of a C++ master, or of a C++ clone, the same is said byte for byte, at the same time."""

from __future__ import annotations

import pytest

from peers.values import Count, encode
from tests.zeek.broker.stores.replay import CloneRole, MasterRole, replay

NAMES = ("n05-data-store", "t01-clone-attach", "t02-clone-before-master")
MASTERS = {"n05-data-store": {54: 1}, "t01-clone-attach": {15: 2, 19: 1, 27: 2}, "t02-clone-before-master": {}}
CLONES = {"n05-data-store": {}, "t01-clone-attach": {15: 1, 19: 1}, "t02-clone-before-master": {}}
"""Ticks during which nothing was said, by the command that came then."""


@pytest.mark.parametrize("name", NAMES)
def test_in_place_of_the_master(name: str) -> None:
    end = MasterRole({encode("a"): encode("one")} if name.startswith("t01") else {})
    recorded = replay(name, end, MASTERS[name])
    assert end.said == recorded
    assert len(recorded) > 10
    assert end.master.clones == end.master.writers == 1


@pytest.mark.parametrize("name", NAMES)
def test_in_place_of_the_clone(name: str) -> None:
    end = CloneRole(9 if name.startswith("n05") else 7)
    recorded = replay(name, end, CLONES[name])
    assert end.said == recorded
    assert len(recorded) > 10
    assert end.clone.is_idle
    assert end.cloned.lost == []


def test_what_the_copy_holds_in_the_end() -> None:
    end = CloneRole(7)
    replay("t01-clone-attach", end, CLONES["t01-clone-attach"])
    assert end.cloned.replica.content == {encode("b"): encode("two"), encode("n"): encode(Count(5))}
    assert end.results == [False]
    other = CloneRole(9)
    replay("n05-data-store", other, {})
    assert (other.cloned.replica.content, other.results) == ({}, [True])


def test_what_the_master_holds_in_the_end() -> None:
    end = MasterRole({encode("a"): encode("one")})
    replay("t01-clone-attach", end, MASTERS["t01-clone-attach"])
    assert dict(end.master.entries()) == {encode("b"): encode("two"), encode("n"): encode(Count(5))}
