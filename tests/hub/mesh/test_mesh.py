"""Hubs that tell each other of links and of what is wanted: limits, paces and lies; else see tests/mesh_simulation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest

from hub.errors import RejectedError
from hub.labels.rules import Rule
from hub.limits import MeshLimits
from hub.mesh.announcement import SEQ_LIMIT, Announcement, Digest, Interests, Served, Wanted
from hub.mesh.graph import GraphChange
from hub.mesh.link_state import BURST, FORGET_S, GONE_S, LOOK_S, OUTBID_LIMIT
from hub.mesh.mesh import Mesh
from hub.messages.frame import EPOCH_LIMIT, Origin
from hub.names.claim import Announced
from hub.prefixes import Change


class Hub:
    def __init__(self, number: int, limits: MeshLimits = MeshLimits()) -> None:  # noqa: B008
        self.id = bytes([number]) * 16
        self.wanted: dict[bytes, set[str]] = {}
        self.trees = 0
        self.clashes: list[int] = []
        self.changes: list[tuple[GraphChange, Mapping[bytes, str]]] = []
        self.links: dict[Link, Hub] = {}
        self.mesh: Mesh[Link] = Mesh(
            self.id,
            f"hub {number}",
            on_trees=self._count_trees,
            on_interest=self._note,
            on_due=lambda _: None,
            on_clash=self.clashes.append,
            on_change=lambda change, names: self.changes.append((change, names)),
            limits=limits,
        )

    def _count_trees(self) -> None:
        self.trees += 1

    def _note(self, hub: bytes, change: Interests, _: Link | None) -> None:
        wanted = self.wanted.setdefault(hub, set())
        assert wanted.isdisjoint(change.added)
        assert wanted.issuperset(change.removed)
        wanted.update(change.added)
        wanted.difference_update(change.removed)


class Link:
    def __init__(self, far: Hub) -> None:
        self.far = far
        self.other_end: Link


def connect(a: Hub, b: Hub, cost: int = 1) -> None:
    to_b, to_a = Link(b), Link(a)
    to_b.other_end, to_a.other_end = to_a, to_b
    a.links[to_b], b.links[to_a] = b, a
    a.mesh.link_up(to_b, b.id, cost=cost)
    b.mesh.link_up(to_a, a.id, cost=cost)


def disconnect(a: Hub, b: Hub) -> None:
    for one, other in ((a, b), (b, a)):
        link = next(link for link, far in one.links.items() if far is other)
        del one.links[link]
        one.mesh.link_down(link)


def settle(*hubs: Hub, now_s: float) -> None:
    for _ in range(100):
        is_quiet = True
        for hub in hubs:
            hub.mesh.check(now_s)
            for link in list(hub.links):
                for told in hub.mesh.take(link):
                    is_quiet = False
                    link.far.mesh.hear(link.other_end, told)
        if is_quiet:
            return
    pytest.fail("hubs do not come to an end")


def tell(hub: Hub, far: Hub) -> None:
    link = next(link for link, one in hub.links.items() if one is far)
    for told in hub.mesh.take(link):
        far.mesh.hear(link.other_end, told)


def pair(limits: MeshLimits = MeshLimits()) -> tuple[Hub, Hub, Link]:  # noqa: B008
    a, b = Hub(1, limits), Hub(2)
    connect(a, b)
    settle(a, b, now_s=0)
    return a, b, next(iter(a.links))


def row() -> tuple[Hub, Hub, Hub]:
    a, b, c = Hub(1), Hub(2), Hub(3)
    connect(a, b)
    connect(b, c)
    settle(a, b, c, now_s=0)
    return a, b, c


def ways(hub: Hub, origin: Hub, *wanting: Hub) -> set[Hub]:
    return {link.far for link in hub.mesh.onward(origin.id, [one.id for one in wanting])}


def test_a_hub_with_many_changes_announces_them_once_a_second() -> None:
    a, b, _ = pair()
    seq = a.mesh.records[a.id].seq
    for tick in range(1000):
        a.mesh.change(Change((f"/{tick}",)))
        settle(a, b, now_s=10 + tick / 100)
    assert a.mesh.records[a.id].seq - seq <= BURST + 10
    settle(a, b, now_s=30)
    assert b.wanted[a.id] == {f"/{tick}" for tick in range(1000)}


def test_whoever_has_missed_an_announcement_asks_for_a_full_copy() -> None:
    a, b, link = pair()
    a.mesh.change(Change(("/lost",)))
    a.mesh.check(10)
    a.mesh.take(link)  # and nobody carries it
    a.mesh.change(Change(("/late",)))
    a.mesh.check(20)
    for told in a.mesh.take(link):
        b.mesh.hear(link.other_end, told)
    assert b.wanted.get(a.id, set()) == set()
    assert b.mesh.take(link.other_end) == [Wanted(a.id)]
    a.mesh.hear(link, Wanted(a.id))
    settle(a, b, now_s=21)
    assert b.wanted[a.id] == {"/lost", "/late"}


def test_what_came_and_went_is_gone_where_the_hub_between_has_missed_both() -> None:
    came, stays = Served("/came"), Served("/stays")
    a, b, c = hubs = Hub(1), Hub(2, MeshLimits(prefixes=2)), Hub(3)
    for one, other in combinations(hubs, 2):
        connect(one, other)
    settle(*hubs, now_s=0)
    a.mesh.change(Interests(("/1", "/2", "/3", stays)))
    a.mesh.check(10)
    tell(a, b)  # which has no room for the topics, and has not told c yet
    a.mesh.change(Interests((came,)))
    a.mesh.check(20)
    tell(a, c)
    a.mesh.take(next(iter(a.links)))  # and nobody carries it to b
    a.mesh.change(Interests((), (came,)))
    for now_s in (30, 31):
        a.mesh.check(now_s)
        tell(a, b)  # the second time a full copy, which does not name what is gone
        tell(b, a)
    assert came in c.wanted[a.id]
    disconnect(a, c)
    settle(*hubs, now_s=40)
    assert b.wanted[a.id] == {"", stays}
    assert c.wanted[a.id] == {"", "/1", "/2", "/3", stays}


@pytest.mark.parametrize("seq", [OUTBID_LIMIT, OUTBID_LIMIT + 1, SEQ_LIMIT])
def test_a_number_that_leaves_no_room_above_it_is_not_outbid(seq: int) -> None:
    a, _, link = pair()
    a.mesh.hear(link, Announcement(a.id, 0, seq, "twin", ()))
    a.mesh.check(10)
    assert a.clashes == [seq]
    assert (a.mesh.records[a.id].seq == seq + 1) is (seq == OUTBID_LIMIT)
    assert a.mesh.records[a.id].seq < SEQ_LIMIT


def test_hubs_links_and_prefixes_are_limited() -> None:
    a, b, link = pair(MeshLimits(hubs=3, neighbours=2, prefixes=2, prefixes_total=3))
    a.mesh.hear(link, Announcement(b"c" * 16, 0, 1, "", (), ("/1", "/2", "/3")))
    assert a.wanted[b"c" * 16] == {""}
    assert a.mesh.records[b"c" * 16].left_out == 3
    a.mesh.hear(link, Announcement(b"c" * 16, 1, 2, "", None, ("/4",)))
    a.mesh.hear(link, Announcement(b"c" * 16, 1, 2, "", None, ("/4",)))
    assert a.mesh.records[b"c" * 16].left_out == 4
    a.mesh.hear(link, Announcement(b.id, 1, 100, "", None, ("/4", "/5")))
    assert a.wanted[b.id] == {"/4", "/5"}
    assert a.mesh.take(link)[1:] == []
    a.mesh.hear(link, Announcement(b"c" * 16, 2, 3, "", None, (), ("/1", "/2", "/3")))
    assert a.mesh.take(link) == [Wanted(b"c" * 16)]
    a.mesh.hear(link, Announcement(b"c" * 16, 0, 3, "", (), ("/4",)))
    assert a.wanted[b"c" * 16] == {"/4"}
    a.mesh.hear(link, Announcement(b.id, 100, 101, "", None, (), ("/4", "/5")))  # there is room
    assert Wanted(b"c" * 16) not in a.mesh.take(link)  # as that is known now
    a.mesh.hear(link, Announcement(b.id, 101, 102, "", None, ("/4", "/5")))
    with pytest.raises(RejectedError, match="3 hubs are known here, the limit is 3"):
        a.mesh.hear(link, Announcement(b"d" * 16, 0, 1))
    too_many = tuple((bytes([number]) * 16, 1) for number in range(3))
    with pytest.raises(RejectedError, match="3 links, the limit is 2"):
        a.mesh.hear(link, Announcement(b"c" * 16, 3, 4, "", too_many))
    counted = a.mesh.statistics()
    assert (counted.hubs, counted.links, counted.prefixes) == (3, 1, 3)
    assert (counted.left_out_total, counted.refused_total, counted.incomplete) == (4, 2, 0)
    a.mesh.hear(link, Announcement(b"c" * 16, 3, 4, left_out=7))  # that was done as it came
    assert a.wanted[b"c" * 16] == {""}
    assert a.mesh.records[b"c" * 16].left_out == 8
    assert (a.mesh.statistics().left_out_total, a.mesh.statistics().incomplete) == (12, 1)


def test_all_that_a_hub_wants_counts_together() -> None:
    a, b = Hub(1, MeshLimits(hubs=3, neighbours=2, prefixes=4, prefixes_total=9)), Hub(2)
    connect(a, b)
    settle(a, b, now_s=0)
    kinds = ("/1", Rule(("x",)), Served("/s"), Announced("org.n", (), 1, 1), "/2", Rule(("y",)))
    a.mesh.hear(next(iter(a.links)), Announcement(b"c" * 16, 0, 1, "", (), kinds))
    record = a.mesh.records[b"c" * 16]
    assert (tuple(record.wants), record.left_out) == (kinds[2:4], 4)
    assert a.wanted[b"c" * 16] == {"", *kinds[2:4]}


def test_messages_that_are_overtaken_are_told_of_their_link_once() -> None:
    a, b, c, d = (Hub(number) for number in range(1, 5))
    for far in (b, c, d):
        connect(a, far)
    settle(a, b, c, d, now_s=0)
    to_b, to_c, to_d = a.links
    assert a.mesh.accepts(to_b, b.id, 10)
    assert a.mesh.accepts(to_c, b.id, 11)
    for link in (to_b, to_d, to_b):
        assert not a.mesh.accepts(link, b.id, 10)
        a.mesh.refuse(link, Origin(b.id, 10), 3)
    counted = a.mesh.statistics()
    assert (counted.overtaken_messages_total, counted.repeated_messages_total) == (6, 3)
    assert [a.mesh.take_overtaken(link) for link in (to_b, to_b, to_d)] == [6, 0, 0]
    a.mesh.refuse(to_b, Origin(b.id, 10), 1)
    disconnect(a, b)
    assert a.mesh.take_overtaken(to_b) == 0
    before = a.mesh.statistics()
    a.mesh.hear(to_b, Announcement(b"e" * 16, 0, 1))
    a.mesh.link_down(to_b)
    assert (a.mesh.statistics(), set(a.mesh.records)) == (before, {a.id, b.id, c.id, d.id})


def test_a_hub_that_is_linked_here_is_believed_over_others() -> None:
    a, b, c = Hub(1), Hub(2), Hub(3)
    connect(a, b)
    connect(a, c)
    b.mesh.change(Change(("/b",)))
    settle(a, b, c, now_s=0)
    _, to_c = a.links
    with pytest.raises(RejectedError, match="which is linked here, by another hub"):
        a.mesh.hear(to_c, Announcement(b.id, 0, SEQ_LIMIT, "liar", ()))
    b.mesh.change(Change(("/more",)))
    settle(a, b, c, now_s=1)
    assert a.wanted[b.id] == {"/b", "/more"}


def test_whoever_watches_is_told_of_hubs_and_links() -> None:
    a, b, c = Hub(1), Hub(2), Hub(3)

    def told(now_s: float) -> list[tuple[object, ...]]:
        a.changes.clear()
        settle(a, b, c, now_s=now_s)
        kinds = zip(*(change for change, _ in a.changes), strict=True)
        return [tuple(sorted(one for some in kind for one in some)) for kind in kinds]

    connect(a, b)
    connect(b, c, cost=5)
    assert told(0) == [(b.id, c.id), (), ((a.id, b.id, 1), (b.id, c.id, 5)), ()]
    c.mesh.change(Change(("/x",)))
    assert told(10) == []
    disconnect(b, c)
    assert told(20) == [(), (), (), ((b.id, c.id),)]
    a.changes.clear()
    trees = a.trees
    a.mesh.check(20 + FORGET_S)
    ((change, names),) = a.changes
    assert change == GraphChange((), (c.id,), (), ())
    assert (names[c.id], a.trees) == ("hub 3", trees)
    connect(b, c)
    assert told(100) == [(c.id,), (), ((b.id, c.id, 1),), ()]


def test_who_asks_again_and_again_is_answered_a_few_times_and_then_once_a_second() -> None:
    a, b, link = pair()
    answers = []
    for number in range(100):
        a.mesh.hear(link, Wanted(a.id) if number % 2 else Digest(()))
        again_s = a.mesh.check(10 + number / 1_000)
        answers.append(bool(a.mesh.take(link)))
    assert 0 < sum(answers) <= BURST + 1
    assert again_s < 12
    a.mesh.check(again_s)
    assert a.id in {told.hub for told in a.mesh.take(link) if isinstance(told, Announcement)}
    a.mesh.hear(link, Wanted(a.id))
    disconnect(a, b)
    assert a.mesh.check(again_s + 60) > again_s + 60, "a link that is gone is answered no more"


def test_what_comes_and_goes_leaves_nothing_for_a_link_that_does_not_read() -> None:
    a, b, c = row()
    link = next(iter(b.links))
    seq = a.mesh.records[a.id].seq
    for number in range(100):
        seq += 1
        added = tuple(f"/{number}/{one}" for one in range(100))
        removed = tuple(f"/{number - 1}/{one}" for one in range(100))
        b.mesh.hear(link, Announcement(a.id, seq - 1, seq, "", None, added, removed))
    to_c = next(link for link, far in b.links.items() if far is c)
    (told,) = [told for told in b.mesh.take(to_c) if isinstance(told, Announcement)]
    assert (told.base, told.seq, len(told.added), len(told.removed)) == (0, seq, 100, 0)


def test_no_more_hubs_are_asked_for_than_there_may_be() -> None:
    a, _, link = pair(MeshLimits(hubs=5))
    for number in range(3, 6):
        a.mesh.hear(link, Announcement(bytes([number]) * 16, 5, 6))
    with pytest.raises(RejectedError, match="the limit is 5"):
        a.mesh.hear(link, Announcement(bytes([6]) * 16, 5, 6))
    assert sum(isinstance(told, Wanted) for told in a.mesh.take(link)) == 3


def test_links_of_all_hubs_together_are_limited() -> None:
    a, b, link = pair(MeshLimits(neighbours_total=5))
    two = ((a.id, 1), (b.id, 1))
    for number in (3, 4):
        a.mesh.hear(link, Announcement(bytes([number]) * 16, 0, 1, "", two))
    with pytest.raises(RejectedError, match="all hubs together would have 7 links, the limit is 5"):
        a.mesh.hear(link, Announcement(bytes([5]) * 16, 0, 1, "", two))
    assert a.mesh.statistics().refused_total == 1
    a.mesh.hear(link, Announcement(bytes([4]) * 16, 1, 2, "", ()))
    a.mesh.hear(link, Announcement(bytes([5]) * 16, 0, 1, "", two))
    assert bytes([5]) * 16 in a.mesh.records
    for now_s in (10, 10 + LOOK_S, 10 + FORGET_S):  # nothing leads to those hubs, so they are forgotten
        a.mesh.check(now_s)
    assert set(a.mesh.records) == {a.id, b.id}
    for number in (6, 7):
        a.mesh.hear(link, Announcement(bytes([number]) * 16, 0, 1, "", two))
    with pytest.raises(RejectedError, match="all hubs together would have 7 links, the limit is 5"):
        a.mesh.hear(link, Announcement(bytes([8]) * 16, 0, 1, "", two))


def test_the_last_epoch_is_not_left() -> None:
    a, b = Hub(1), Hub(2)
    a.mesh.origin = Origin(a.id, EPOCH_LIMIT - 1)
    connect(a, b)
    settle(a, b, now_s=0)
    assert a.mesh.origin == Origin(a.id, EPOCH_LIMIT)


def test_a_link_that_is_gone_for_a_moment() -> None:
    a, b, c = row()
    settle(a, b, c, now_s=10)
    d = Hub(9)
    while b.mesh._news.may_tell_of_links(11):
        for act in (connect, disconnect):
            act(b, d)
            settle(a, b, c, d, now_s=11)
    assert b.mesh.check(11) > 11
    disconnect(b, c)
    seq = b.mesh.records[b.id].seq
    assert ways(b, a, c) == set()
    assert b.mesh.misses(a.id, [c.id])
    assert b.mesh.misses(b.id, [a.id, c.id])
    assert b.mesh.check(11) <= 11 + GONE_S
    trees = b.trees
    connect(b, c)
    tell(c, b)
    assert b.trees > trees
    assert ways(b, a, c) == {c}
    assert not b.mesh.misses(a.id, [c.id])
    assert b.mesh.records[b.id].seq == seq
