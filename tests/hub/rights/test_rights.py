"""Rights: what is not granted is refused and told; and other rights for who is there end what is not granted."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import Role
from hub.labels.envelope import tagged
from hub.labels.rules import Rule
from hub.limits import CoreLimits, NameLimits
from hub.mesh.announcement import Announcement, Digest, Leaf
from hub.messages.batch import Batch
from hub.messages.request_frame import FLAG_NAMED, Status
from hub.names.claim import Announced, Change, Standing, Tell, Wish, untold
from hub.policy.policy import DECIDED_LIMIT
from hub.scheduling.scheduler import STEPS_PER_TURN
from tests.hub.fakes import at_once
from tests.hub.requests.party import answers, request
from tests.hub.rights.hall import Guest, Hall, policy_of

POLICY = """
[roles.sensor]
publish = { allow = ["/zeek", "/status/{user}"], deny = ["/zeek/secret"] }
claim = ["*"]

[roles.reader]
subscribe = ["*"]

[roles.site]
link = { bring = ["/site"], take = ["/control"] }

[users]
alice = ["sensor"]
bob = ["reader"]
east = ["site"]
"""


# While one policy takes the place of another.


def test_rights_of_an_earlier_policy_go_on() -> None:
    hall = Hall(POLICY)
    alice, reader = hall.join("alice"), hall.join(None, "")
    hall.core.authority.adopt(policy_of('[roles.sensor]\npublish = ["/x"]\n[users]\nalice = ["sensor"]'))
    batch = Batch.of("/zeek/a", [1]).frames + Batch.of("/zeek/secret", [2]).frames + Batch.of("/zeek/b", [3]).frames
    route = hall.core.routes.of(next(iter(Batch.of("/zeek/a", [0]).parts())).routing_key)
    assert route is hall.core.routes.find("/zeek/secret"), "the new policy does not tell them apart"
    hall.core.publish(alice.handler, route, Batch(batch, 3))
    hall.core.end_read()
    assert reader.take() == [1, 3]
    assert alice.refused == [("publish '/zeek/secret': not granted to user 'alice'", 1)]
    assert alice.handler.published_messages == 2
    alice.send(("/x", 4), ("/zeek/a", 5), ("/x", 6))
    assert reader.take() == [5]
    assert alice.refused_messages == 3
    with pytest.raises(RejectedError, match="'/zeek/secret'"):
        hall.core.authority.check(alice.handler, route, Batch(batch, 3))


def test_senders_of_a_peer_hub_are_names_that_it_may_claim() -> None:
    hall = Hall(POLICY.replace("[roles.site]", '[roles.site]\nclaim = ["org.east"]'))
    east, trusted = hall.join("east", role=Role.LINK), hall.join(None, role=Role.LINK)
    client, reader = hall.join(None), hall.join(None, "/site")
    hall.core.names.claim(client.handler, Wish("org.here"), 1)
    messages = [(tagged("/site", sender=name), name) for name in ("org.here", "org.east.x", "org.easter")]
    for _ in range(2):
        east.send(*messages)
        for message in messages:
            east.send(message)
        assert reader.take() == ["org.east.x"] * 2
    assert east.refused_messages == 8
    trusted.send(*messages)
    assert len(reader.take()) == 3


SEEING = """
[roles.analyst]
subscribe = { allow = ["/zeek", "/mail/{user}"], deny = ["/zeek/secret"] }

[roles.open]
subscribe = ["*"]

[roles.curious]
subscribe = ["*", "$hub/names"]

[roles.owner]
claim = ["dave"]

[roles.site]
claim = ["far"]
link = { bring = ["*"], take = { allow = ["/control"], deny = ["/control/keys"] } }

[users]
alice = ["analyst"]
bob = ["open"]
carol = ["curious"]
east = ["site"]
dave = ["owner"]
"""


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ("/zeek", "subscribe '/zeek': not granted as a whole to user 'alice'; granted below: '/zeek/'"),
        ("/zeek/", "subscribe '/zeek/': not granted as a whole to user 'alice': something below it is denied"),
        ("/zeek/secret", "subscribe '/zeek/secret': not granted to user 'alice'"),
        ("/zeek/se", "subscribe '/zeek/se': not granted as a whole to user 'alice': something below it is denied"),
        ("", "subscribe '': not granted as a whole to user 'alice'; granted below: '/mail/alice/', '/zeek/'"),
        ("/mail/bob", "subscribe '/mail/bob': not granted to user 'alice'"),
        (
            "/mail/alice",
            "subscribe '/mail/alice': not granted as a whole to user 'alice'; granted below: '/mail/alice/'",
        ),
        ("/other", "subscribe '/other': not granted to user 'alice'"),
    ],
)
def test_more_than_is_granted_is_refused(prefix: str, text: str) -> None:
    hall = Hall(SEEING)
    alice = hall.join("alice")
    with pytest.raises(RejectedError) as refused:
        hall.core.subscribe(alice.handler, ["/zeek/dns/", prefix])
    assert (refused.value.code, refused.value.text) == (CloseCode.NOT_ALLOWED, text)
    assert alice.handler.prefixes == {}


def test_what_the_hub_says_of_itself_is_granted_by_name() -> None:
    hall = Hall(SEEING)
    bob, carol, free = hall.join("bob", ""), hall.join("carol", "", narrows=True), hall.join(None, "")
    hall.core.names.claim(free.handler, Wish("a.b"), 1)
    hall.core.names.release(free.handler, "a.b")
    hall.core.detach(hall.join(None).handler, "gone")
    assert bob.take_messages() == []
    assert [topic for topic, _ in carol.take_messages()] == ["$hub/names/appeared", "$hub/names/gone"]
    assert len(free.take_messages()) > 2
    for prefix in ("$hub/", "$hub/clients", "$hub/n", "$hub/names"):
        with pytest.raises(RejectedError, match="not granted"):
            hall.core.subscribe(bob.handler, [prefix])
    hall.core.subscribe(carol.handler, ["$hub/names/"])


def test_labels_are_no_way_around() -> None:
    hall = Hall(SEEING)
    alice, source = hall.join("alice"), hall.join(None)
    for rule in (Rule(("red",)), Rule(("red",), "/zeek"), Rule((), "", "a.b"), Rule(("red",), "/zeek/secret")):
        with pytest.raises(RejectedError, match="not granted"):
            hall.core.subscribe_rules(alice.handler, [Rule(("red",), "/zeek/dns/"), rule])
    assert list(hall.core.rules.of(alice.handler)) == []
    narrow = hall.join("alice", narrows=True)
    hall.core.subscribe_rules(narrow.handler, [Rule((), "", "a.b")])
    hall.core.names.claim(source.handler, Wish("a.b"), 1)
    source.send((tagged("/x", ["red"], sender="a.b"), 1), (tagged("/mail/alice", sender="a.b"), 2))
    assert narrow.take() == [2]


def test_what_is_for_a_name_at_a_peer() -> None:
    hall = Hall(SEEING)
    interests = [Announced("far.name", (), 1, 1)]
    east, source = hall.join("east", role=Role.LINK, interests=interests), hall.join(None)
    source.send((tagged("/control/x", destination="far.name"), 1), (tagged("/x", destination="far.name"), 2))
    assert east.take() == [1]
    assert source.refused == [("take '/x': not granted to user 'east'", 1)]


ASKING = """
[roles.user]
request = { allow = ["/search", "$hub/names", "org.example.Printer"], deny = ["/search/admin"] }

[roles.server]
serve = { allow = ["/search"], deny = ["/search/admin"] }
claim = { allow = ["org.example"], deny = ["org.example.Root"] }

[roles.site]
claim = ["org.site"]
link = { bring = ["/search", "org.example.Printer"], take = { allow = ["/far"], deny = ["/far/secret"] } }

[users]
alice = ["user"]
bob = ["server"]
east = ["site"]
"""


def serving(hall: Hall, user: str | None, *prefixes: str, role: Role = Role.CLIENT) -> Guest:
    guest = hall.join(user, role=role)
    at_once(hall.core.requests.serving(guest.handler, list(prefixes)))
    return guest


def ask(guest: Guest, target: str, *values: object, flags: int = 0, first: int = 1) -> list[tuple[int, int, object]]:
    poster = guest.outlet
    guest.hall.core.requests.ask(guest.handler, request(target, first, *(values or (1,)), flags=flags), 0)
    guest.hall.core.flush()
    return answers(poster.take())


def test_what_may_be_asked_is_remembered_within_bounds() -> None:
    hall = Hall(ASKING)
    alice = hall.join("alice")
    for number in range(DECIDED_LIMIT + 10):
        ask(alice, f"/search/{number}", first=number)
        ask(alice, f"/other/{number}", first=number)
    rights = alice.handler.rights
    assert rights is not None
    assert len(rights.asks) == 10
    authority = hall.core.authority
    policy = authority.policy
    for other in (None, policy, None):  # it counts for the hub, and goes on with another policy, or the same again
        assert authority.forgotten_total == 1
        authority.adopt(other)
    assert authority.forgotten_total == 1


@pytest.mark.parametrize(
    ("target", "flags", "passes"),
    [
        ("/search/x", 0, True),
        ("/far/x", 0, False),
        ("org.example.Printer", FLAG_NAMED, True),
        ("org.example.Other", FLAG_NAMED, False),
    ],
)
def test_what_a_peer_hub_brings(target: str, flags: int, passes: bool) -> None:  # noqa: FBT001 -- a case
    hall = Hall(ASKING)
    link, service = hall.join("east", role=Role.LINK), serving(hall, None, "/")
    for name in ("org.example.Printer", "org.example.Other"):
        hall.core.names.claim(service.handler, Wish(name), 1)
    told = ask(link, target, flags=flags)
    assert [status for _, status, _ in told] == ([] if passes else [Status.NOT_ALLOWED])
    assert len(service.outlet.take()) == passes


# Services.


def test_who_is_given_other_rights_while_what_it_serves_is_checked() -> None:
    hall = Hall(ASKING)
    bob = hall.join("bob")
    steps = hall.core.requests.serving(bob.handler, [f"/search/x/{number}" for number in range(20)])
    next(steps)
    bob.handler.rights = hall.policy.rights("alice")
    with pytest.raises(RejectedError, match="not granted to user 'alice'"):
        at_once(steps)
    bob.handler.rights = hall.policy.rights("bob")
    steps = hall.core.requests.serving(bob.handler, [f"/search/x/{number}" for number in range(20)])
    next(steps)
    hall.core.detach(bob.handler, "gone")
    at_once(steps)
    assert hall.core.requests.statistics().services == 0


# Names.


@pytest.mark.parametrize(
    "name", ["org.other", "org.examples.A", "org.example.Root", "org.example.Root.x", "com.example"]
)
def test_names_that_are_not_granted(name: str) -> None:
    hall = Hall(ASKING)
    bob, owner = hall.join("bob"), hall.join(None)
    text = f"claim {name!r}: not granted to user 'bob'"
    for number, wish in enumerate((Wish(name), Wish(name, queue=True))):
        with pytest.raises(RejectedError) as refused:
            hall.core.names.claim(bob.handler, wish, 1)
        assert (refused.value.code, refused.value.text) == (CloseCode.NOT_ALLOWED, text)
        assert hall.core.names.statistics().refused_total == number + 1
        if not number:
            hall.core.names.claim(owner.handler, Wish(name), 1)
    assert hall.core.names.statistics().waiting == 0


ROLES = """
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
    return Hall(ROLES)


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
    hall = Hall(ROLES)
    announce(hall.join("alice", "", role=Role.LINK, roles=["some"]), NEAR, FAR)
    assert owned(hall) == {"org.a.x", "org.a.y"}
    assert hall.core.names.statistics().ignored_total == 2


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


@pytest.mark.parametrize("roles", [["all", "some"], ["some"]])
def test_who_is_given_other_rights_while_it_subscribes_is_judged_by_those(hall: Hall, roles: list[str]) -> None:
    alice = hall.join("alice", roles=["all"])
    prefixes = ["/b/0", "/b/1", "/b/2"]  # All are judged in the first step
    steps = hall.core.prefixes.subscribing(alice.handler, prefixes)
    next(steps)
    hall.core.authority.give_rights(alice.handler, hall.policy.rights("alice", roles))
    if "all" in roles:
        at_once(steps)
    else:
        with pytest.raises(RejectedError, match="subscribe '/b/0': not granted to user 'alice'"):
            at_once(steps)
    assert list(alice.handler.prefixes) == (prefixes if "all" in roles else [])


MANY = STEPS_PER_TURN + 50  # More than one turn takes away
AMPLE = CoreLimits(names=NameLimits(per_client=MANY))


def hold_much(hall: Hall, tell: Tell = untold) -> Guest:
    alice, core = hall.join("alice", *(f"/b/{number}" for number in range(MANY)), roles=["all"]), hall.core
    at_once(core.requests.serving(alice.handler, [f"/b/{number}" for number in range(MANY)]))
    core.subscribe_rules(alice.handler, [Rule((f"{number}",), "/b") for number in range(MANY)])
    for number in range(MANY):
        core.names.claim(alice.handler, Wish(f"org.b.n{number}"), 1, tell)
    return alice


def test_what_is_given_up_while_it_is_judged_is_not_taken_away_as_well() -> None:
    hall, changes = Hall(ROLES, limits=AMPLE), list[Change]()
    alice, source, core = hold_much(hall, changes.append), hall.join(None), hall.core
    source.send(("/b/1", 1))
    assert alice.take() == [1]
    told, handler, given_up = Told(alice), alice.handler, set[str]()
    give(alice, "none")
    assert not core.routes.table
    while core.scheduler.is_busy:
        for prefix in list(core.requests.served_by(handler))[-1:]:
            at_once(core.requests.unserving(handler, [prefix]))
        for name in list(core.names.of(handler))[-1:]:
            core.names.release(handler, name)
            given_up.add(name)
        core.unsubscribe(handler, list(handler.prefixes)[-1:])
        core.rules.unsubscribe(handler, list(core.rules.of(handler))[-1:])
        core.flush()
    assert given_up
    assert sorted([*given_up, *(change.name for change in changes)]) == sorted(f"org.b.n{n}" for n in range(MANY))
    assert (list(core.requests.served_by(handler)), list(core.names.of(handler))) == ([], [])
    assert (handler.prefixes, list(core.rules.of(handler))) == ({}, [])
    assert len(told) == 1


def test_who_gets_its_rights_back_or_leaves_keeps_or_takes_the_rest() -> None:
    hall = Hall(ROLES, limits=AMPLE)
    alice, core = hold_much(hall), hall.core
    told = Told(alice)
    give(alice, "none")
    give(alice, "all")
    while core.scheduler.is_busy:
        core.flush()
    assert list(core.requests.served_by(alice.handler)) == [f"/b/{number}" for number in range(STEPS_PER_TURN, MANY)]
    assert len(list(core.names.of(alice.handler))) == len(alice.handler.prefixes) == MANY
    assert told[0].endswith("serve '/b/7' and 242 more")
    alice.send(("/z", 1))
    core.detach(alice.handler, "gone")
    give(alice, "some")
    alice.send(("/y", 1))
    assert (len(told), alice.refused, len(core.routes.table)) == (1, [], 2)


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
