"""What a broker tells its publishers of its subscribers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peers.connections.zeek_cluster.cluster import Wanted


def test_an_unsubscribe_is_told_when_the_last_one_goes() -> None:
    wanted: Wanted[str] = Wanted()
    assert wanted.add("a", b"t")
    assert wanted.add("b", b"t")
    assert not wanted.add("b", b"t")
    assert not wanted.remove("b", b"t")
    assert not wanted.remove("b", b"t")
    assert wanted.topics == [b"t"]
    assert wanted.remove("a", b"t")
    assert wanted.topics == []


def test_whoever_goes_unsubscribes_from_all() -> None:
    wanted: Wanted[str] = Wanted()
    for topic in (b"x", b"y", b"z"):
        wanted.add("a", topic)
    wanted.add("b", b"y")
    assert wanted.leave("a") == [b"x", b"z"]
    assert wanted.leave("a") == []
    assert wanted.topics == [b"y"]


@given(st.lists(st.tuples(st.sampled_from("arl"), st.integers(0, 3), st.integers(0, 4)), max_size=60))
def test_publishers_know_what_is_wanted(steps: list[tuple[str, int, int]]) -> None:
    wanted: Wanted[int] = Wanted()
    truth: dict[int, set[bytes]] = {number: set() for number in range(4)}
    told: set[bytes] = set()
    for act, who, number in steps:
        topic = b"t%d" % number
        if act == "a":
            wanted.add(who, topic)
            told.add(topic)  # each subscribe is told
            truth[who].add(topic)
        elif act == "r":
            if wanted.remove(who, topic):
                told.remove(topic)
            truth[who].discard(topic)
        else:
            told.difference_update(wanted.leave(who))
            truth[who].clear()
        assert told == set().union(*truth.values()) == set(wanted.topics)
