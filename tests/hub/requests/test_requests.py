"""Requests: frames, ids, shares of work and who is asked, beside the model; and what the hub itself answers."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY, patch

import msgpack
import pytest

from hub.errors import CloseCode, ClosedError, InvalidTopicError, NotAllowedError, RejectedError, UsageError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.mesh.announcement import Announcement, Served
from hub.messages.frame import FLAG_BATCH, FLAG_SHARED
from hub.messages.request_frame import FLAG_NAMED, Reply, Request, Status
from hub.names.claim import Announced, Wish
from hub.policy.language import read_policy
from hub.requests.hub_services import VALUES_LIMIT, Answer, Later, Questions, target_at
from hub.requests.services import Block, PureBlock
from hub.scheduling.scheduler import STEPS_PER_TURN
from tests.hub.fakes import FakeOutlet, at_once, handler_of
from tests.hub.requests.party import MOST, Room, answers, asked, packed, reply, request

HERE, THERE = b"h" * 16, b"t" * 16


@pytest.fixture
def room() -> Room:
    return Room(hub_id=HERE)


@pytest.fixture
def service(room: Room) -> tuple[Handler, FakeOutlet]:
    return room.join("/")


def test_ids_that_are_used_up(room: Room, service: tuple[Handler, FakeOutlet]) -> None:
    requester, _ = room.join()
    room.ask(requester, request("/a", 0, "old", "older"))
    room.requests._participants[service[0]].issued_total = MOST - 1
    service[1].take()
    room.ask(requester, request("/a", 10, "x", "y"))
    assert [own for own, _ in asked(service[1].take())] == [2, 3]
    room.requests._participants[service[0]].issued_total = 2 * MOST
    room.ask(requester, request("/a", 20, "z"))
    ((own, _),) = asked(service[1].take())
    assert own not in (0, 1, 2, 3)


def test_whoever_cannot_be_answered(room: Room) -> None:
    mute = handler_of()
    room.core.attach(mute)
    assert "cannot send requests" in room.ask(mute, request("/a", 1, 1))
    gone, outlet = room.join()
    room.core.detach(gone, "gone")
    assert not room.ask(gone, request("/a", 1, 1))
    assert not outlet.take()


@pytest.mark.parametrize("made", [Block, PureBlock], ids=["built", "pure"])
def test_what_is_pending_is_not_cut_out(made: type[PureBlock], room: Room, service: tuple[Handler, FakeOutlet]) -> None:
    requester, _ = room.join()
    with patch("hub.requests.requests.Block", made):
        room.ask(requester, request("/a", 1, *range(5)))
    (block,) = room.requests._participants[service[0]].owed.blocks()
    with pytest.raises(ValueError, match="pending"):
        block.part(1, 2)
    block.settle(1, 2)
    with pytest.raises(ValueError, match="pending"):
        block.part(0, 2)
    block.part(1, 2)
    assert sorted((one.first, one.count) for one in room.requests._participants[requester].asked.blocks()) == [
        (1, 1),
        (3, 3),
    ]
    block.leave()
    assert room.requests._participants[requester].asked_requests == 4


def test_no_topic(room: Room, service: tuple[Handler, FakeOutlet]) -> None:
    requester, told = room.join()
    room.ask(requester, Request(b"/\xff", 1, 0, b"\x01"))
    ((_, status, text),) = answers(told.take())
    assert status == Status.NO_RESPONDER
    assert "UTF-8" in text
    assert not service[1].take()


def test_too_big(room: Room) -> None:
    service, asked_of = room.join("/", frame_limit_bytes=100)
    requester, told = room.join(frame_limit_bytes=50)
    room.ask(requester, request("/a", 1, bytes(100)))
    room.ask(requester, request("/a", 2, bytes(50)))
    ((own, _),) = asked(asked_of.take())
    room.answer(service, reply(own, bytes(50)))
    texts = [(one, status, str(text)) for one, status, text in answers(told.take())]
    assert [(one, status) for one, status, _ in texts] == [(1, Status.TOO_BIG), (2, Status.TOO_BIG)]
    assert "the service accepts 100" in texts[0][2]
    assert "you take 50" in texts[1][2]


class Handle(bytes):
    is_gone = False

    def plain(self, flags: int) -> bytes:
        assert flags & FLAG_SHARED
        if self.is_gone:
            raise RejectedError(CloseCode.GONE, "gone")
        return packed(["A", "B"])[0]


@pytest.mark.parametrize("status", [Status.OK, Status.FAILED])
def test_a_shared_reply_that_must_be_cut(status: Status, room: Room, service: tuple[Handler, FakeOutlet]) -> None:
    (one, one_told), (other, other_told) = room.join(), room.join()
    room.ask(one, request("/a", 1, "a"))
    room.ask(other, request("/a", 2, "b"))
    values = Handle(b"\0\0\0\x02handle")
    values.is_gone = status is Status.FAILED
    room.answer(service[0], Reply(0, Status.OK, values, FLAG_BATCH | FLAG_SHARED))
    told = one_told.take() + other_told.take()
    assert [item.status for item in told if isinstance(item, Reply)] == [status] * 2
    if status is Status.OK:
        assert told == [reply(1, "A"), reply(2, "B")]


def test_a_reply_whose_values_are_none_is_an_error_to_who_asked(
    room: Room, service: tuple[Handler, FakeOutlet]
) -> None:
    (one, one_told), (other, other_told) = room.join(), room.join()
    room.ask(one, request("/a", 1, "a"))
    room.ask(other, request("/a", 2, "b"))
    room.answer(service[0], Reply(0, Status.OK, b"\0\0\0\x02\xc1\xc1", FLAG_BATCH))
    told = answers(one_told.take() + other_told.take())
    assert [(number, status) for number, status, _ in told] == [(1, Status.FAILED), (2, Status.FAILED)]
    assert not room.requests.statistics().pending


@pytest.fixture
def requester(room: Room) -> Handler:
    return room.join()[0]


def taken(*outlets: FakeOutlet) -> list[list[object]]:
    return [[value for _, value in asked(outlet.take())] for outlet in outlets]


def test_fewest_pending_then_in_turn(room: Room, requester: Handler) -> None:
    services = [room.join("/a") for _ in range(3)]
    for number in range(6):
        room.ask(requester, request("/a", number, number))
    assert taken(*(outlet for _, outlet in services)) == [[0, 3], [1, 4], [2, 5]]
    room.answer(services[1][0], reply(0, "done"))
    room.ask(requester, request("/a", 10, 10))
    assert taken(services[1][1]) == [[10]]


def test_what_is_known_of_a_topic_is_forgotten(room: Room) -> None:
    requester, told = room.join()
    room.ask(requester, request("/a/b", 1, 1))
    link, _ = room.join("/a", role=Role.LINK)
    room.ask(requester, request("/a/b", 2, 2))
    near, outlet = room.join("/a")
    room.ask(requester, request("/a/b", 3, 3))
    assert taken(outlet) == [[3]]
    assert room.requests.services.who_serves("/a").handlers == [(near, 1)]
    assert room.requests.services.who_serves("/b") == ([], [])
    with patch("hub.requests.services.TOPICS_LIMIT", 3):  # what is known of topics is forgotten as a whole
        other, _ = room.join()
        for number in range(10):
            room.ask(other, request(f"/a/{number}", number, number))
            assert len(room.requests.services._targets) <= 3
        assert taken(outlet) == [list(range(10))]
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


def test_no_request_falls_between_services_of_a_hub_and_those_that_replace_them(room: Room) -> None:
    many, sent = [Served(f"/a/{number}/") for number in range(2 * STEPS_PER_TURN)], 0
    requester, _ = room.join()
    link, outlet = room.join(*(one.prefix for one in many), role=Role.LINK)
    for seq, (added, removed) in enumerate([([Served("/a/")], many), (many, [Served("/a/")])], 2):
        change = tuple(added), tuple(removed)
        room.core.mesh.hear(link, Announcement(link.id.to_bytes(16), seq - 1, seq, "", None, *change))
        while room.core.scheduler.is_busy:
            room.turn()
            for target in (many[0], many[-1]):
                assert room.requests.ask(requester, request(f"{target.prefix}x", sent, sent), 0) is None
                sent += 1
    room.turn()
    assert taken(outlet) == [list(range(sent))]


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
    with pytest.raises(RejectedError, match="cannot be sent over"):
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


def test_a_reply_to_requests_that_were_answered_in_part(room: Room, service: tuple[Handler, FakeOutlet]) -> None:
    """The requester gets the rest, and a reply to all of them exactly as it came."""
    requester, told = room.join()
    room.ask(requester, request("/a", 1, "a", "b"))
    room.answer(service[0], reply(0, "A"))
    assert "too late" in room.answer(service[0], reply(0, "A again", "B"))
    assert answers(told.take()) == [(1, 0, "A"), (2, 0, "B")]
    room.ask(requester, request("/a", 3, "c", "d"))
    unreadable = Reply(2, Status.OK, (2).to_bytes(4) + b"\xc1\xc1", 1)
    assert not room.answer(service[0], unreadable)
    assert told.take() == [unreadable._replace(first=3)]


def test_parts_in_any_order(room: Room, service: tuple[Handler, FakeOutlet]) -> None:
    requester, told = room.join()
    room.ask(requester, request("/a", 100, *range(10)))
    for first, values in ((7, "hij"), (0, "a"), (4, "ef")):
        assert not room.answer(service[0], reply(first, *values))
    assert answers(told.take()) == [(100 + "abcdefghij".index(one), 0, one) for one in "hijaef"]
    assert "pending already" in room.ask(requester, request("/a", 101, "again"))
    assert "pending already" in room.ask(requester, request("/a", 104, *range(3)))
    assert not room.ask(requester, request("/a", 104, *range(2)))
    assert not room.ask(requester, request("/a", 107, *range(20)))
    assert room.requests.statistics().pending == 4 + 2 + 20
    assert "too late" in room.answer(service[0], reply(0, *"abcdefghij"))
    assert [one for one, _, _ in answers(told.take())] == [101, 102, 103, 106]


def double(_: Handler, value: Any) -> Any:
    if not isinstance(value, int):
        raise UsageError("only numbers can be doubled")
    return value * 2


@pytest.fixture
def client(room: Room) -> tuple[Handler, FakeOutlet]:
    room.requests.hub_services.add("$hub/double", double)
    return room.join()


REFUSED = "only numbers can be doubled"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (request("$hub/double", 5, 2), [(5, Status.OK, 4)]),
        (request("$hub/double", 5, 2, 3), [(5, Status.OK, 4), (6, Status.OK, 6)]),
        (request("$hub/double", 5, "x"), [(5, Status.FAILED, REFUSED)]),
        (request("$hub/double", 5, 2, "x"), [(5, Status.FAILED, REFUSED), (6, Status.FAILED, REFUSED)]),
        (request("$hub/treble", 5, 2), [(5, Status.NO_RESPONDER, "the hub has no service for this topic")]),
        (request("$hub/double", 5, 1)._replace(values=b"\xc1"), [(5, Status.FAILED, ANY)]),
        (
            request("$hub/double", 5, *range(VALUES_LIMIT + 1)),
            [(5 + place, Status.FAILED, ANY) for place in range(VALUES_LIMIT + 1)],
        ),
    ],
)
def test_a_function(
    room: Room, client: tuple[Handler, FakeOutlet], item: Request, expected: list[tuple[int, int, Any]]
) -> None:
    room.ask(client[0], item)
    assert answers(client[1].take()) == expected
    assert not room.requests.statistics().pending


def test_shared_values_that_are_gone_before_the_hub_reads_them(room: Room, client: tuple[Handler, FakeOutlet]) -> None:
    values = Handle(b"\0\0\0\x02handle")
    values.is_gone = True
    room.ask(client[0], Request(b"$hub/double", 5, 0, values, FLAG_BATCH | FLAG_SHARED))
    text = "the values are not there any more"
    assert answers(client[1].take()) == [(5, Status.FAILED, text), (6, Status.FAILED, text)]


def test_too_many_in_one_turn(room: Room, client: tuple[Handler, FakeOutlet]) -> None:
    requester, told = client
    for number in range(VALUES_LIMIT):
        room.requests.ask(requester, request("$hub/double", number, 1), room.now_ms)
    room.ask(requester, request("$hub/double", 100, 1))
    statuses = [status for _, status, _ in answers(told.take())]
    assert statuses == [Status.OK] * VALUES_LIMIT + [Status.OVERFLOW]
    room.ask(requester, request("$hub/double", 100, 1))
    assert answers(told.take()) == [(100, Status.OK, 2)]


def test_who_may_ask_the_hub(room: Room) -> None:
    for topic, terms in (("mine", {"judges_itself": True}), ("any", {}), ("admins", {"for_admins": True})):
        room.requests.hub_services.add(f"$hub/{topic}", double, **terms)
    roles = {"operator": {"admin": True}, "asker": {"request": ["$hub"]}, "publisher": {"publish": ["/a"]}}
    users = {"ada": ["admin"], "olga": ["operator"], "bob": ["asker"], "pia": ["publisher"]}
    policy = read_policy({"roles": roles, "users": users}, "a test")
    for user, allowed in ((None, 3), ("ada", 3), ("olga", 3), ("bob", 2), ("pia", 1)):
        requester, told = room.join()
        requester.rights = None if user is None else policy.rights(user)
        for first, topic in enumerate(("mine", "any", "admins")):
            room.ask(requester, request(f"$hub/{topic}", first, 1))
        found = answers(told.take())
        assert [status for _, status, _ in found] == [Status.OK] * allowed + [Status.NOT_ALLOWED] * (3 - allowed)
        assert user != "bob" or found[-1][2] == "$hub/admins is for admins"


def wait(room: Room) -> list[Later]:
    begun: list[Later] = []

    def begin(_: Handler, value: Any) -> Any:
        if value is None:
            return "at once"
        begun.append(Later())
        return begun[-1]

    room.requests.hub_services.add("$hub/later", begin)
    return begun


def test_an_answer_in_a_later_turn(room: Room, client: tuple[Handler, FakeOutlet]) -> None:
    begun, (requester, told) = wait(room), client
    room.ask(requester, request("$hub/later", 5, 1, None, 2))
    assert answers(told.take()) == []
    begun[1].give("two")
    assert answers(told.take()) == []
    begun[0].give("one")
    room.core.flush()
    assert answers(told.take()) == [(5, Status.OK, "one"), (6, Status.OK, "at once"), (7, Status.OK, "two")]
    for error, status in (
        (UsageError("no"), Status.FAILED),
        (NotAllowedError(Status.NOT_ALLOWED, "no"), Status.NOT_ALLOWED),
    ):
        room.ask(requester, request("$hub/later", 8, 1))
        begun[-1].fail(error)
        room.core.flush()
        assert answers(told.take()) == [(8, status, "no")]


def test_who_has_gone_meanwhile(room: Room, client: tuple[Handler, FakeOutlet]) -> None:
    begun, gone, (requester, told) = wait(room), list[Handler](), client
    room.requests.hub_services.when_gone(gone.append)
    room.ask(requester, request("$hub/later", 5, 1))
    room.core.detach(requester, "gone")
    assert gone == [requester]
    begun[0].give(1)
    assert answers(told.take()) == []
    assert room.requests.statistics().abandoned_total == 1


class Told:
    def __init__(self, room: Room) -> None:
        self.asked: list[tuple[Handler, object, Answer]] = []
        self.refusal: RejectedError | None = None
        room.requests.directed["what"] = Questions(self._answer, self._pass_on)

    def _answer(self, link: Handler, value: bytes, answer: Answer) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((link, msgpack.unpackb(value), answer))

    def _pass_on(self, asker: Handler, link: Handler, value: bytes) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        packed: bytes = msgpack.packb([msgpack.unpackb(value), asker.id, link.id])
        return packed


@pytest.fixture
def told(room: Room) -> Told:
    return Told(room)


@pytest.fixture
def near(room: Room) -> tuple[Handler, FakeOutlet]:
    return room.join(role=Role.LOCAL)


def question(hub: bytes, first: int, value: object = 1) -> Request:
    return request(target_at(hub, "what").decode(), first, value)


def test_what_this_hub_does_not_let_on(room: Room, told: Told, near: tuple[Handler, FakeOutlet]) -> None:
    _, outlet = room.link(THERE)
    told.refusal = RejectedError(CloseCode.NOT_ALLOWED, "not over this link")
    room.ask(near[0], question(THERE, 5))
    assert answers(near[1].take()) == [(5, Status.NOT_ALLOWED, "not over this link")]
    assert outlet.take() == []


@pytest.mark.parametrize("role", [Role.CLIENT, Role.LEAF])
def test_who_is_no_hub_of_the_mesh(room: Room, told: Told, role: Role) -> None:
    handler, outlet = room.join(role=role)
    for first, target in enumerate((target_at(HERE, "what").decode(), "$hub/at/x")):
        room.ask(handler, request(target, first, 1))
        text = f"request '{target}': hubs alone ask in this way"
        assert answers(outlet.take()) == [(first, Status.NOT_ALLOWED, text)]
    assert told.asked == []


def test_what_is_no_question(room: Room, told: Told) -> None:
    link, outlet = room.link(THERE)
    here = target_at(HERE, "what").decode()
    bad = [
        request("$hub/at/", 0, 1),
        request("$hub/at/0g" + "0" * 30 + "/what", 0, 1),
        request("$hub/at/" + "é" * 32 + "/what", 0, 1),
        request(here[:-6] + "/what", 0, 1),
        request(here.replace("/what", "/other"), 0, 1),
        request(here + "/more", 0, 1),
        request(here, 0, 1, 2),
        request(here, 0, 1, flags=0b10),
    ]
    for item in bad:
        room.ask(link, item)
        found = answers(outlet.take())
        assert {(status, text) for _, status, text in found} == {
            (Status.FAILED, "the hub has no service for this topic")
        }
        assert len(found) == item.requests
    room.ask(link, request(here, 0, 1, flags=FLAG_NAMED))
    assert answers(outlet.take()) == [(0, Status.NO_RESPONDER, "no client owns this name")]
    assert told.asked == []
