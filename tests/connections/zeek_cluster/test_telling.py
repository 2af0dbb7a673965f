"""When publishers are told of subscriptions: a share of them in each turn, however many there are."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.connections.zeek_cluster.cluster import TURN_COST, Telling, Wanted

WORD_COST = 5
AT_ONCE = 64


class Loop:
    """Turns, one after the other."""

    def __init__(self) -> None:
        self.due: deque[Callable[[], object]] = deque()

    def turn(self) -> None:
        for _ in range(len(self.due)):
            self.due.popleft()()


class Told:
    """A publisher."""

    def __init__(self, telling: Telling) -> None:
        self.telling = telling
        self.told: list[bytes] = []
        self.again: dict[bytes, bool] = {}
        self.untold: OrderedDict[bytes, None] = OrderedDict()

    def note(self, topic: bytes, *, again: bool = False) -> None:
        self.untold[topic] = None
        self.again[topic] = again
        self.telling.stand(self)

    @property
    def has_untold(self) -> bool:
        return bool(self.untold)

    def tell_some(self) -> int:
        count = min(len(self.untold), AT_ONCE)
        self.told += [self.untold.popitem(last=False)[0] for _ in range(count)]
        return count * WORD_COST


class Crowd:
    """Some publishers of one cluster."""

    def __init__(self, count: int) -> None:
        self.loop = Loop()
        self.publishers: dict[Any, None] = {}
        self.telling = Telling(self.loop.due.append, self.publishers)
        self.all = [Told(self.telling) for _ in range(count)]
        self.publishers.update(dict.fromkeys(self.all))

    def words(self) -> int:
        return sum(len(publisher.told) for publisher in self.all)


@pytest.mark.parametrize("count", [1, 10, 300])
def test_a_turn_has_a_share(count: int) -> None:
    crowd = Crowd(count)
    topics = [f"zeek.{number}".encode() for number in range(200)]
    for topic in topics:
        crowd.telling.changed(topic, again=False)
    assert crowd.words() == 0
    turns = 0
    while crowd.loop.due:
        before = crowd.words()
        crowd.loop.turn()
        turns += 1
        assert (crowd.words() - before) * WORD_COST <= TURN_COST + AT_ONCE * WORD_COST
        assert len(crowd.loop.due) <= 1
    assert all(publisher.told == topics for publisher in crowd.all)
    assert turns >= count * len(topics) * WORD_COST // (TURN_COST + AT_ONCE * WORD_COST)


def test_of_one_topic_the_last_counts() -> None:
    crowd = Crowd(3)
    for number in range(1_000):
        crowd.telling.changed(b"zeek.a", again=number == 3)  # somebody waits for the echo
    while crowd.loop.due:
        crowd.loop.turn()
    assert all((publisher.told, publisher.again) == ([b"zeek.a"], {b"zeek.a": True}) for publisher in crowd.all)


def test_who_is_gone_is_told_nothing() -> None:
    crowd = Crowd(2)
    crowd.telling.changed(b"zeek.a", again=False)
    gone = crowd.all[0]
    gone.note(b"zeek.b")
    del crowd.publishers[gone]
    crowd.telling.leave(gone)
    crowd.telling.leave(gone)
    while crowd.loop.due:
        crowd.loop.turn()
    assert [publisher.told for publisher in crowd.all] == [[], [b"zeek.a"]]


@given(st.lists(st.tuples(st.sampled_from("arl"), st.integers(0, 3), st.integers(0, 4)), max_size=60))
def test_publishers_know_what_is_wanted(steps: list[tuple[str, int, int]]) -> None:
    wanted: Wanted[int] = Wanted()
    truth: dict[int, set[bytes]] = {number: set() for number in range(4)}
    told: set[bytes] = set()
    for act, who, number in steps:
        topic = b"t%d" % number
        if act == "a":
            assert wanted.add(who, topic) == (topic not in truth[who])
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
