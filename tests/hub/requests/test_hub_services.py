"""What the hub itself answers under `$hub/`, and what one hub asks another by its id."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from hub.errors import CloseCode, HubError, NotAllowedError, RejectedError, UsageError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.messages.request_frame import FLAG_NAMED, Request, Status
from hub.policy.language import read_policy
from hub.requests.hub_services import VALUES_LIMIT, Answer, Later, Questions, target_at
from tests.hub.fakes import FakeOutlet, at_once
from tests.hub.requests.party import Room, answers, request


def double(_: Handler, value: Any) -> Any:
    if not isinstance(value, int):
        raise UsageError("only numbers can be doubled")
    return value * 2


def doubling() -> tuple[Room, Handler, FakeOutlet]:
    room = Room()
    room.requests.hub_services.add("$hub/double", double)
    return room, *room.join()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((2,), [(5, Status.OK, 4)]),
        ((2, 3), [(5, Status.OK, 4), (6, Status.OK, 6)]),
        (("x",), [(5, Status.FAILED, "only numbers can be doubled")]),
        (
            (2, "x"),
            [(5, Status.FAILED, "only numbers can be doubled"), (6, Status.FAILED, "only numbers can be doubled")],
        ),
    ],
)
def test_a_function(values: tuple[Any, ...], expected: list[tuple[int, int, Any]]) -> None:
    room, requester, told = doubling()
    room.ask(requester, request("$hub/double", 5, *values))
    assert answers(told.take()) == expected
    assert not room.requests.statistics().pending


def test_what_the_hub_does_not_serve() -> None:
    room, requester, told = doubling()
    room.ask(requester, request("$hub/treble", 5, 2))
    text = "the hub has no service for this topic"
    assert answers(told.take()) == [(5, Status.NO_RESPONDER, text)]


def test_values_that_are_none() -> None:
    room, requester, told = doubling()
    room.ask(requester, request("$hub/double", 5, 1)._replace(values=b"\xc1"))
    ((_, status, reason),) = answers(told.take())
    assert status == Status.FAILED
    assert "msgpack" in reason


def test_a_service_that_judges_itself() -> None:
    room = Room()
    room.requests.hub_services.add("$hub/double", double, judges_itself=True)
    room.requests.hub_services.add("$hub/other", double)
    requester, told = room.join()
    requester.rights = read_policy({"roles": {"r": {"publish": ["/a"]}}, "users": {"u": ["r"]}}, "a test").rights("u")
    room.ask(requester, request("$hub/double", 5, 2))
    assert answers(told.take()) == [(5, Status.OK, 4)]
    room.ask(requester, request("$hub/other", 6, 2))
    assert [status for _, status, _ in answers(told.take())] == [Status.NOT_ALLOWED]


def test_services_hear_of_who_is_gone() -> None:
    room = Room()
    gone: list[Handler] = []
    room.requests.hub_services.when_gone(gone.append)
    requester, _ = room.join()
    at_once(room.requests.forget(requester))
    assert gone == [requester]


def test_too_many_values() -> None:
    room, requester, told = doubling()
    room.ask(requester, request("$hub/double", 5, *range(VALUES_LIMIT + 1)))
    assert {status for _, status, _ in answers(told.take())} == {Status.FAILED}


def test_too_many_in_one_turn() -> None:
    room, requester, told = doubling()
    for number in range(VALUES_LIMIT):
        room.requests.ask(requester, request("$hub/double", number, 1), room.now_ms)
    room.ask(requester, request("$hub/double", 100, 1))
    statuses = [status for _, status, _ in answers(told.take())]
    assert statuses == [Status.OK] * VALUES_LIMIT + [Status.OVERFLOW]
    room.ask(requester, request("$hub/double", 100, 1))
    assert answers(told.take()) == [(100, Status.OK, 2)]


def test_what_is_for_admins() -> None:
    room = Room()
    room.requests.hub_services.add("$hub/double", double, for_admins=True)
    roles = {"operator": {"admin": True}, "asker": {"request": ["$hub"]}}
    users = {"ada": ["admin"], "olga": ["operator"], "bob": ["asker"]}
    policy = read_policy({"roles": roles, "users": users}, "a test")
    for user, status in ((None, Status.OK), ("ada", Status.OK), ("olga", Status.OK), ("bob", Status.NOT_ALLOWED)):
        requester, told = room.join()
        requester.rights = None if user is None else policy.rights(user)
        room.ask(requester, request("$hub/double", 5, 1))
        ((_, told_status, value),) = answers(told.take())
        assert told_status == status
        assert value == (2 if status == Status.OK else "$hub/double is for admins")
        room.turn()


def wait(room: Room) -> list[Later]:
    begun: list[Later] = []

    def begin(_: Handler, value: Any) -> Any:
        if value is None:
            return "at once"
        begun.append(Later())
        return begun[-1]

    room.requests.hub_services.add("$hub/later", begin)
    return begun


def test_an_answer_in_a_later_turn() -> None:
    room = Room()
    begun = wait(room)
    requester, told = room.join()
    room.ask(requester, request("$hub/later", 5, 1, None, 2))
    assert answers(told.take()) == []
    begun[1].give("two")
    assert answers(told.take()) == []
    begun[0].give("one")
    room.core.flush()
    assert answers(told.take()) == [(5, Status.OK, "one"), (6, Status.OK, "at once"), (7, Status.OK, "two")]


@pytest.mark.parametrize(
    ("error", "status"),
    [(UsageError("no"), Status.FAILED), (NotAllowedError(Status.NOT_ALLOWED, "no"), Status.NOT_ALLOWED)],
)
def test_a_failure_in_a_later_turn(error: HubError, status: Status) -> None:
    room = Room()
    begun = wait(room)
    requester, told = room.join()
    room.ask(requester, request("$hub/later", 5, 1))
    begun[0].fail(error)
    room.core.flush()
    assert answers(told.take()) == [(5, status, "no")]


def test_who_has_gone_meanwhile() -> None:
    room = Room()
    begun = wait(room)
    requester, told = room.join()
    room.ask(requester, request("$hub/later", 5, 1))
    room.core.detach(requester, "gone")
    begun[0].give(1)
    assert answers(told.take()) == []
    assert room.requests.statistics().abandoned_total == 1


HERE, THERE, BEYOND = b"h" * 16, b"t" * 16, b"b" * 16


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
def room() -> Room:
    return Room(hub_id=HERE)


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
