"""Other rights for who is there: what is no longer granted ends at once, is taken away in steps, and is told."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import Role
from hub.labels.envelope import tagged
from hub.labels.rules import Rule
from hub.mesh.announcement import Announcement, Digest, Leaf
from hub.names.claim import Announced, Change, Standing, Wish
from hub.scheduling.scheduler import STEPS_PER_TURN
from tests.hub.rights.hall import Guest, Hall

POLICY = """
[roles.all]
publish = ["*"]
subscribe = ["*", "$hub"]
request = ["*"]
serve = ["*"]
claim = ["*"]
journal = ["*"]
link = { bring = ["*"], take = ["*"] }

[roles.some]
publish = ["/a"]
subscribe = ["/a"]
request = ["/a"]
serve = ["/a"]
claim = ["org.a"]
link = { bring = ["/a"], take = ["/a"] }

[roles.none]
[users]
"""


class Told(list[str]):
    def __init__(self, guest: Guest) -> None:
        super().__init__()
        guest.hall.core.authority.on_revoked[guest.handler] = self._take

    def _take(self, error: RejectedError) -> None:
        assert error.code == CloseCode.NOT_ALLOWED
        self.append(error.text)


def give(guest: Guest, role: str) -> None:
    guest.hall.core.authority.give_rights(guest.handler, guest.hall.policy.rights("alice", [role]))


@pytest.fixture
def hall() -> Hall:
    return Hall(POLICY)


def test_names_are_taken_away(hall: Hall) -> None:
    alice, bob = hall.join("alice", roles=["all"]), hall.join(None)
    names, changes = hall.core.names, list[Change]()
    names.claim(bob.handler, Wish("bob.own"), 1)
    for name in ("org.a.x", "org.b", "bob.own"):
        names.claim(alice.handler, Wish(name, queue=True), 2, changes.append)
    names.claim(bob.handler, Wish("org.b", queue=True), 3)
    told = Told(alice)
    give(alice, "some")
    assert changes == [
        Change(name, Standing.LOST, f"name {name} is no longer granted to you") for name in ("org.b", "bob.own")
    ]
    assert told == ["no longer granted to user 'alice', and removed: claim 'org.b', claim 'bob.own'"]
    assert names.register.owner("org.b") is bob.handler
    assert names.register.owner("org.a.x") is alice.handler
    assert names.statistics().waiting == 0
    alice.send((tagged("/a", sender="org.b"), 1))
    assert alice.refused_messages == 1


NEAR, FAR = b"east" * 4, b"west" * 4


def announce(link: Guest, *hubs: bytes) -> None:
    core = link.hall.core
    core.link(link.handler, hubs[0], lambda: None)
    for number, hub in enumerate(hubs):
        near = (
            (core.mesh.hub if not number else hubs[number - 1], 1),
            *(((hubs[number + 1], 1),) if hub != hubs[-1] else ()),
        )
        mark = "xy"[(NEAR, FAR).index(hub)]
        names = tuple(Announced(name + mark, (), 1, 1) for name in ("org.a.", "org.b."))
        core.mesh.hear(link.handler, Announcement(hub, 0, 1, "", near, names))
    core.flush()


def owned(hall: Hall) -> set[str]:
    names = (start + mark for start in ("org.a.", "org.b.") for mark in "xy")
    return {name for name in names if hall.core.names.register.owner(name) is not None}


def test_names_of_hubs_beyond_a_link_are_judged_again(hall: Hall) -> None:
    link = hall.join("alice", "", role=Role.LINK, roles=["all"])
    announce(link, NEAR, FAR)
    everything = {"org.a.x", "org.a.y", "org.b.x", "org.b.y"}
    assert owned(hall) == everything
    for role, left in (
        ("some", {"org.a.x", "org.a.y"}),
        ("none", set()),
        ("all", everything),
        ("some", {"org.a.x", "org.a.y"}),
    ):
        give(link, role)
        hall.core.flush()
        assert owned(hall) == left
    hall.core.authority.give_rights(link.handler, None)  # there are no users any more
    hall.core.flush()
    assert owned(hall) == everything
    assert hall.core.names.statistics().ignored_total == 0


def test_gateways_beyond_a_link_are_judged_again(hall: Hall) -> None:
    link, core = hall.join("alice", "", role=Role.LINK, roles=["all"]), hall.core
    leaf = b"leaf" * 4
    core.link(link.handler, NEAR, lambda: None)
    core.mesh.hear(link.handler, Announcement(NEAR, 0, 1, "", ((core.mesh.hub, 1),), (Leaf(leaf, 1),)))
    for role, gateway in (("all", NEAR), ("some", b""), ("all", NEAR), ("none", b"")):
        give(link, role)
        core.flush()
        assert core.leaves.gateway_of(leaf) == gateway
        assert list(core.remote_hubs.leaves_of(NEAR)) == ([leaf] if gateway else [])
    core.remote_hubs.reach(NEAR, False)
    give(link, "all")
    core.flush()
    assert core.leaves.gateway_of(leaf) == b""
    core.remote_hubs.reach(NEAR, True)
    core.flush()
    assert core.leaves.gateway_of(leaf) == NEAR


def test_names_that_another_link_has_brought_stay(hall: Hall) -> None:
    near, other = (hall.join("alice", "", role=Role.LINK, roles=["all"]) for _ in range(2))
    announce(near, NEAR)
    announce(other, FAR)
    give(near, "none")
    hall.core.flush()
    assert owned(hall) == {"org.a.y", "org.b.y"}
    core = hall.core
    core.detach(other.handler, "cut")
    again = hall.join("alice", "", role=Role.LINK, roles=["all"])
    core.link(again.handler, FAR, lambda: None)
    core.mesh.hear(again.handler, Digest(((FAR, 1),)))  # with its first news the link is used
    core.mesh.check(0.0)
    core.flush()
    assert owned(hall) == {"org.a.y", "org.b.y"}
    give(again, "some")
    core.flush()
    assert owned(hall) == {"org.a.y"}


def test_many_things_are_named_in_part(hall: Hall) -> None:
    alice = hall.join("alice", *(f"/b/{number}" for number in range(20)), roles=["all"])
    told = Told(alice)
    give(alice, "none")
    (text,) = told
    assert text.endswith("subscribe '/b/7' and 12 more")
    assert alice.handler.prefixes == {}


def test_many_handlers_take_a_share_of_each_turn(hall: Hall) -> None:
    guests = [hall.join("alice", "/a", "/b", roles=["all"]) for _ in range(STEPS_PER_TURN)]
    source = hall.join(None)
    hall.core.flush()
    for guest in guests:
        give(guest, "none")
    left = sum(len(guest.handler.prefixes) for guest in guests)
    assert STEPS_PER_TURN // 2 < left < 2 * STEPS_PER_TURN
    source.send(("/a", 1), ("/b", 2))
    assert [guest.outlet.values for guest in guests] == [[]] * len(guests)
    turns = 0
    while any(guest.handler.prefixes for guest in guests):
        assert hall.turn.wakes
        hall.core.flush()
        turns += 1
    assert 1 <= turns <= 6
    assert [guest.take() for guest in guests] == [[]] * len(guests)


def test_rules_are_taken_away(hall: Hall) -> None:
    alice, source = hall.join("alice", roles=["all"]), hall.join(None)
    rules = [Rule(("red",)), Rule(("red",), "/a/"), Rule(("red",), "/b")]
    hall.core.subscribe_rules(alice.handler, [*rules, rules[0]])
    told = Told(alice)
    give(alice, "some")
    assert list(hall.core.rules.of(alice.handler)) == [rules[1]]
    assert told == ["no longer granted to user 'alice', and removed: subscribe '' by labels, subscribe '/b' by labels"]
    source.send((tagged("/a/x", ["red"]), 1), (tagged("/b", ["red"]), 2))
    assert alice.take() == [1]
    give(alice, "none")
    assert list(hall.core.rules.of(alice.handler)) == []
