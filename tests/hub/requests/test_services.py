"""Who is asked: prefixes, turns, links, what is the hub's own, and what links are told."""

from __future__ import annotations

from collections import Counter

import pytest

from hub.delivery import Role
from hub.errors import ClosedError, InvalidTopicError, RejectedError
from hub.filter import Change
from hub.handler import Handler
from hub.mesh.announcement import Announcement
from hub.names.claim import Announced, Wish
from hub.request_frame import Reply, Status
from hub.requests.services import COMPARED
from tests.hub.fakes import at_once, handler_of
from tests.hub.requests.party import FakePoster, Room, answers, asked, reply, request


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def requester(room: Room) -> Handler:
    return room.join()[0]


def taken(*outlets: FakePoster) -> list[list[object]]:
    return [[value for _, value in asked(outlet.take())] for outlet in outlets]


def test_fewest_pending_then_in_turn(room: Room, requester: Handler) -> None:
    services = [room.join("/a") for _ in range(3)]
    for number in range(6):
        room.ask(requester, request("/a", number, number))
    assert taken(*(outlet for _, outlet in services)) == [[0, 3], [1, 4], [2, 5]]
    room.answer(services[1][0], reply(0, "done"))
    room.ask(requester, request("/a", 10, 10))
    assert taken(services[1][1]) == [[10]]


def test_of_very_many_the_next_ones_are_compared(room: Room, requester: Handler) -> None:
    services = [room.join("/a") for _ in range(COMPARED * 3)]
    for number in range(len(services)):
        room.ask(requester, request("/a", number, number))
    shares = Counter(len(one) for one in taken(*(outlet for _, outlet in services)))
    assert shares == {1: len(services)}


def test_what_is_known_of_a_topic_is_forgotten(room: Room) -> None:
    requester, told = room.join()
    room.ask(requester, request("/a/b", 1, 1))
    link, _ = room.join("/a", role=Role.LINK)
    room.ask(requester, request("/a/b", 2, 2))
    near, outlet = room.join("/a")
    room.ask(requester, request("/a/b", 3, 3))
    assert taken(outlet) == [[3]]
    at_once(room.requests.unserving(near, ["/a"]))
    room.core.detach(link, "gone")
    room.ask(requester, request("/a/b", 4, 4))
    assert [(one, status) for one, status, _ in answers(told.take())] == [
        (1, Status.NO_RESPONDER),
        (2, Status.RESPONDER_GONE),
        (4, Status.NO_RESPONDER),
    ]


def test_what_came_over_a_link(room: Room) -> None:
    link, link_told = room.join("/a/b/c", role=Role.LINK)
    _, far = room.join("/a/b", role=Role.LINK)
    _, near = room.join("/a")
    room.ask(link, request("/a/b", 1, 1))
    room.ask(link, request("/a/b/c", 2, 2))
    room.ask(link, request("/a", 3, 3))
    assert taken(far, near) == [[1, 2], [3]]
    assert link_told.take() == []


def test_what_the_mesh_is_told(room: Room) -> None:
    told: list[Change] = []
    service, _ = room.join("/a", "/b")
    room.join("/far", role=Role.LINK)
    room.requests.tell(told.append)
    other, _ = room.join("/a", "/c")
    room.core.detach(service, "gone")
    at_once(room.requests.unserving(other, ["/a"]))
    assert told == [Change(added=("/a", "/b")), Change(added=("/c",)), Change(removed=("/b",)), Change(removed=("/a",))]
    room.core.detach(other, "gone")
    assert told[4:] == [Change(removed=("/c",))]
    room.requests.tell(told.append)
    assert len(told) == 5


def test_what_cannot_be_served(room: Room) -> None:
    service, _ = room.join()
    with pytest.raises(RejectedError, match="the hub's own"):
        at_once(room.requests.serving(service, ["/a", "$hub/names"]))
    with pytest.raises(InvalidTopicError):
        at_once(room.requests.serving(service, ["/a", "\n"]))
    with pytest.raises(RejectedError, match="1001 prefixes to serve, the limit for a client is 1000"):
        at_once(room.requests.serving(service, [f"/{number}" for number in range(1001)]))
    mute = handler_of()
    room.core.attach(mute)
    with pytest.raises(RejectedError, match="do not reach"):
        at_once(room.requests.serving(mute, ["/a"]))
    room.core.detach(service, "gone")
    with pytest.raises(ClosedError):
        at_once(room.requests.serving(service, ["/a"]))
    assert not room.requests.statistics().services


def test_the_names_of_others(room: Room) -> None:
    requester, told = room.join()
    owner, outlet = room.join()
    far, far_outlet = room.link(b"\x02" * 16)
    link, link_told = room.link(b"\x03" * 16)
    mute = handler_of()
    room.core.attach(mute)
    names = room.core.names
    names.claim(owner, Wish("org.example.A"), 0)
    room.core.mesh.hear(far, Announcement(b"\x02" * 16, 1, 2, added=(Announced("org.example.B", (), 0, 1),)))
    room.turn()
    names.claim(mute, Wish("org.example.C"), 0)
    for number, name in enumerate(("org.example.A", "org.example.B", "org.example.C", "org.example.D")):
        room.ask(requester, request(name, number, number, flags=0b1000))
        room.ask(link, request(name, number, number, flags=0b1000))
    assert taken(outlet, far_outlet) == [[0, 0], [1, 1]]
    assert [(one, status) for one, status, _ in answers(told.take())] == [(2, 2), (3, 2)]
    assert [(one, status) for one, status, _ in answers(link_told.take())] == [(2, 2), (3, 2)]


def test_an_unknown_status_of_a_peer(room: Room, requester: Handler) -> None:
    link, outlet = room.join("/a", role=Role.LINK)
    room.ask(requester, request("/a", 7, 1))
    ((own, _),) = asked(outlet.take())
    assert "status 99" in room.answer(link, Reply(own, 99, b"\xc0"))
    assert room.requests.statistics().pending == 1
    assert not room.answer(link, Reply(own, Status.RESPONDER_GONE, b"\xc0"))


def test_counted(room: Room, requester: Handler) -> None:
    service, outlet = room.join("/a", "/a")
    at_once(room.requests.unserving(service, ["/a", "/b"]))
    at_once(room.requests.unserving(requester, ["/a"]))
    room.ask(requester, request("/a", 1, 1))
    assert taken(outlet) == [[1]]
    at_once(room.requests.unserving(service, ["/a"]))
    room.ask(requester, request("/a", 2, 2))
    assert taken(outlet) == [[]]


def test_the_longest_prefix_wins(room: Room, requester: Handler) -> None:
    (_, all_), (_, a), (_, ab) = room.join(""), room.join("/a"), room.join("/a/b")
    for number, topic in enumerate(("/x", "/a", "/a/", "/a/b/c", "/ab")):
        room.ask(requester, request(topic, number, number))
    assert taken(all_, a, ab) == [[0], [1, 2, 4], [3]]
    room.ask(requester, request("$hub/x", 9, 9))
    assert taken(all_) == [[]]
