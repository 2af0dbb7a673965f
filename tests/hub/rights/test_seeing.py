"""Subscribing with rights: refused with what is granted beneath, or narrowed; and nobody gets what he may not see."""

from __future__ import annotations

import pytest

from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.names.claim import Announced, Wish
from hub.tags.envelope import tagged
from hub.tags.rules import Rule
from tests.hub.rights.hall import Hall, policy_of

POLICY = """
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
        ("/zeek", "subscribe '/zeek': not granted as a whole to user 'alice'; granted beneath: '/zeek/'"),
        ("/zeek/", "subscribe '/zeek/': not granted as a whole to user 'alice': something beneath it is denied"),
        ("/zeek/secret", "subscribe '/zeek/secret': not granted to user 'alice'"),
        ("/zeek/se", "subscribe '/zeek/se': not granted as a whole to user 'alice': something beneath it is denied"),
        ("", "subscribe '': not granted as a whole to user 'alice'; granted beneath: '/mail/alice/', '/zeek/'"),
        ("/mail/bob", "subscribe '/mail/bob': not granted to user 'alice'"),
        (
            "/mail/alice",
            "subscribe '/mail/alice': not granted as a whole to user 'alice'; granted beneath: '/mail/alice/'",
        ),
        ("/other", "subscribe '/other': not granted to user 'alice'"),
    ],
)
def test_more_than_is_granted_is_refused(prefix: str, text: str) -> None:
    hall = Hall(POLICY)
    alice = hall.join("alice")
    with pytest.raises(RejectedError) as refused:
        hall.core.subscribe(alice.handler, ["/zeek/dns/", prefix])
    assert (refused.value.code, refused.value.text) == (CloseCode.NOT_ALLOWED, text)
    assert alice.handler.prefixes == {}


def test_what_the_hub_says_of_itself_is_granted_by_name() -> None:
    hall = Hall(POLICY)
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
    hall = Hall(POLICY)
    alice, source = hall.join("alice"), hall.join(None)
    for rule in (Rule(("red",)), Rule(("red",), "/zeek"), Rule((), "", "a.b"), Rule(("red",), "/zeek/secret")):
        with pytest.raises(RejectedError, match="not granted"):
            hall.core.subscribe_rules(alice.handler, [Rule(("red",), "/zeek/dns/"), rule])
    assert list(hall.core.rules.of(alice.handler)) == []
    narrow = hall.join("alice", narrows=True)
    hall.core.subscribe_rules(narrow.handler, [Rule(("red",)), Rule((), "", "a.b")])
    hall.core.names.claim(source.handler, Wish("a.b"), 1)
    source.send(
        (tagged("/zeek/a", ["red"]), 1),
        (tagged("/zeek/secret", ["red"]), 2),
        (tagged("/x", ["red"], sender="a.b"), 3),
        (tagged("/mail/alice", sender="a.b"), 4),
    )
    assert narrow.take() == [1, 4]


def test_the_owner_of_a_name_gets_what_is_for_him() -> None:
    hall = Hall(POLICY)
    dave, alice, source = hall.join("dave"), hall.join("alice", "/zeek/a"), hall.join(None)
    hall.core.names.claim(dave.handler, Wish("dave.inbox"), 1)
    source.send((tagged("/x", destination="dave.inbox"), 1), (tagged("/zeek/a", destination="dave.inbox"), 2))
    assert dave.take() == [1, 2]
    assert alice.take() == []


@pytest.mark.parametrize("role", [Role.LINK, Role.LEAF])
def test_peers_take_what_they_may(role: Role) -> None:
    hall = Hall(POLICY)
    east, source = hall.join("east", "", "/control/keys", role=role), hall.join(None)
    source.send(("/control", 1), ("/control/keys/x", 2), ("/zeek", 3), ("/control/x", 4))
    assert east.take() == [1, 4]


def test_what_is_for_a_name_at_a_peer() -> None:
    hall = Hall(POLICY)
    interests = [Announced("far.name", (), 1, 1)]
    east, source = hall.join("east", role=Role.LINK, interests=interests), hall.join(None)
    source.send((tagged("/control/x", destination="far.name"), 1), (tagged("/x", destination="far.name"), 2))
    assert east.take() == [1]
    assert source.refused == [("take '/x': not granted to user 'east'", 1)]


def test_users_of_the_same_roles_are_told_apart_by_name() -> None:
    hall = Hall(POLICY)
    guests = {name: hall.join(name, "", narrows=True, roles=["analyst"]) for name in ("alice", "bob2", "mail", "x")}
    source = hall.join(None)
    source.send(("/mail/bob2/x", 1), ("/mail/alice", 2), ("/mail/mail/mail", 3), ("/zeek/x", 4), ("/mail", 5))
    assert {name: guest.take() for name, guest in guests.items()} == {
        "alice": [2, 4],
        "bob2": [1, 4],
        "mail": [3, 4],
        "x": [4],
    }


def test_another_policy_is_asked_at_once() -> None:
    hall = Hall(POLICY)
    bob, source = hall.join("bob", "", narrows=True), hall.join(None)
    source.send(("/x", 1))
    hall.policy = policy_of('[roles.open]\nsubscribe = ["/y"]\n[users]\nbob = ["open"]')
    bob.handler.rights = hall.policy.rights("bob")
    hall.core.authority.adopt(hall.policy)
    source.send(("/x", 2), ("/y", 3))
    assert bob.take() == [1, 3]
