"""Publishing with rights: what is not granted is refused, told and counted, and nothing else is lost with it."""

from __future__ import annotations

import pytest

from hub.batch import Batch
from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.names.claim import Wish
from hub.policy.policy import DECIDED_LIMIT
from hub.tags.envelope import tagged
from tests.hub.rights.hall import Hall, policy_of

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


def test_a_refused_run_takes_no_other_with_it() -> None:
    hall = Hall(POLICY)
    alice = hall.join("alice")
    everything, some = hall.join(None, ""), hall.join(None, "/zeek/dns")
    topics = ["/zeek/dns", "/x", "/zeek/http", "/zeek/secret", "/x", "/zeek/dns", "/status/alice", "/status/bob"]
    for _ in range(2):  # at first all of it is looked up, then nothing is
        alice.send(*((topic, number) for number, topic in enumerate(topics)))
        assert everything.take() == [0, 2, 5, 6]
        assert some.take() == [0, 5]
        assert alice.refused_messages == 4
        assert {text.split(":")[0] for text, _ in alice.refused} == {
            "publish '/x'",
            "publish '/zeek/secret'",
            "publish '/status/bob'",
        }
        alice.refused.clear()
    assert alice.handler.published_messages == 8


def test_nobody_is_asked_twice() -> None:
    hall = Hall(POLICY)
    first, second = hall.join("alice"), hall.join("alice")
    first.send(("/zeek/dns", 1), ("/zeek/http", 2))
    rights = first.handler.rights
    assert rights is not None
    assert rights is second.handler.rights
    assert second.handler.publishes_in is rights.publishes_in
    assert len(rights.publishes_in) == 1


def test_what_is_remembered_is_bounded() -> None:
    hall = Hall('[roles.a]\npublish = ["*"]\n[roles.b]\npublish = ["/s/{user}"]\n[users]\nalice = ["a"]')
    alice, reader = hall.join("alice"), hall.join(None, "")
    count = DECIDED_LIMIT + 100
    for number in range(count):
        alice.send((f"/s/{number}", number))
    rights = alice.handler.rights
    assert rights is not None
    assert len(rights.publishes_in) == 100
    assert hall.core.authority.forgotten_total == 1
    assert reader.take() == list(range(count))
    assert alice.refused == []


def test_refusals_are_not_remembered() -> None:
    hall = Hall(POLICY)
    alice = hall.join("alice")
    for number in range(100):
        alice.send((f"/status/{number}", number))
    assert alice.refused_messages == 100
    assert alice.handler.publishes_in == set()


def test_routes_differ_by_what_decides() -> None:
    hall = Hall(POLICY)
    alice, _ = hall.join("alice"), hall.join(None, "")
    alice.send(("/zeek/a", 1), ("/zeek/b", 2), ("/zeek/secret/c", 3), ("/d", 4))
    a, b, c, d = (hall.core.routes.find(topic) for topic in ("/zeek/a", "/zeek/b", "/zeek/secret/c", "/d"))
    assert a is b
    assert len({id(a), id(c), id(d)}) == 3


def test_without_a_policy_routes_remember_nobody() -> None:
    hall = Hall(POLICY)
    hall.core.authority.adopt(None)
    reader = hall.join(None, "")
    source = hall.join(None)
    source.send(("/zeek/a", 1), ("/d", 2))
    assert reader.take() == [1, 2]
    assert hall.core.routes.find("/zeek/a") is hall.core.routes.find("/d")
    assert hall.core.routes.find("/d").domains is None


def test_labels_and_names_change_nothing() -> None:
    hall = Hall(POLICY)
    alice, bob = hall.join("alice"), hall.join("bob", "")
    hall.core.names.claim(alice.handler, Wish("a.b"), 1)
    hall.core.names.claim(hall.join(None).handler, Wish("c.d"), 1)
    alice.send(
        (tagged("/x", ["zeek"]), 1),
        (tagged("/zeek/secret", ["zeek"]), 2),
        (tagged("/zeek/secret", sender="a.b"), 3),
        (tagged("/x", destination="c.d"), 4),
        (tagged("/zeek/dns", ["x"], sender="a.b"), 5),
    )
    assert bob.take() == [5]
    assert alice.refused_messages == 4
    assert all("not granted to user 'alice'" in text for text, _ in alice.refused)


def test_a_name_that_is_not_ones_own_is_refused_first() -> None:
    hall = Hall(POLICY)
    alice = hall.join("alice")
    alice.send((tagged("/x", sender="not.mine"), 1), (tagged("/zeek", sender="not.mine"), 2))
    assert {text for text, _ in alice.refused} == {"sender 'not.mine': that name is not yours"}
    assert alice.refused_messages == 2


def test_who_is_restricted_otherwise_is_asked_as_well() -> None:
    hall = Hall(POLICY)
    alice, zeek = hall.join("alice"), hall.join(None, "/", role=Role.LEAF)
    alice.handler.restrict(itself=False, leaves=False)
    alice.send(("/zeek/a", 1))
    alice.send(("/zeek/a", 2), ("/x", 3), ("/zeek/secret", 4))
    assert zeek.take() == []
    assert alice.refused_messages == 2
    alice.handler.restrict()
    alice.send(("/zeek/a", 5), ("/x", 6))
    assert zeek.take() == [5]


def test_checking_before_publishing() -> None:
    hall = Hall(POLICY)
    alice = hall.join("alice")

    def check(topic: str) -> None:
        batch = Batch.of(topic, [1])
        hall.core.authority.check(alice.handler, hall.core.routes.of(next(iter(batch.parts())).routing_key), batch)

    for _ in range(2):
        check("/zeek/dns")
        with pytest.raises(RejectedError, match=r"publish '/zeek/secret': not granted to user 'alice'") as refused:
            check("/zeek/secret")
        assert refused.value.code == CloseCode.NOT_ALLOWED
    assert alice.refused == []


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


def test_what_was_read_before_there_was_a_policy() -> None:
    hall = Hall(POLICY)
    hall.core.authority.adopt(None)
    source, reader = hall.join(None), hall.join(None, "")
    source.send(("/zeek", 0), ("/x", 0))
    reader.take()
    routes = [hall.core.routes.find(topic) for topic in ("/zeek", "/x")]
    hall.core.authority.adopt(hall.policy)
    source.handler.rights = hall.policy.rights("alice")
    for route, topic in zip(routes, ("/zeek", "/x"), strict=True):
        hall.core.publish(source.handler, route, Batch.of(topic, [topic]))
    hall.core.end_read()
    assert reader.take() == ["/zeek"]
    assert source.refused == [("publish '/x': not granted to user 'alice'", 1)]


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
