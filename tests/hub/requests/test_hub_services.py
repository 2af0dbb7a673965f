"""What the hub itself answers, under `$hub/`."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import HubError, NotAllowedError, UsageError
from hub.handler import Handler
from hub.policy.language import read_policy
from hub.request_frame import Status
from hub.requests.hub_services import VALUES_LIMIT, Later
from tests.hub.requests.party import Room, answers, request


def double(_: Handler, value: Any) -> Any:
    if not isinstance(value, int):
        raise UsageError("only numbers can be doubled")
    return value * 2


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
    room = Room()
    room.requests.hub_services.add("$hub/double", double)
    requester, told = room.join()
    room.ask(requester, request("$hub/double", 5, *values))
    assert answers(told.take()) == expected
    assert not room.requests.statistics().pending


def test_values_that_are_none() -> None:
    room = Room()
    room.requests.hub_services.add("$hub/double", double)
    requester, told = room.join()
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
    room.requests.forget(requester)
    assert gone == [requester]


def test_too_many_values() -> None:
    room = Room()
    room.requests.hub_services.add("$hub/double", double)
    requester, told = room.join()
    room.ask(requester, request("$hub/double", 5, *range(VALUES_LIMIT + 1)))
    assert {status for _, status, _ in answers(told.take())} == {Status.FAILED}


def test_too_many_in_one_turn() -> None:
    room = Room()
    room.requests.hub_services.add("$hub/double", double)
    requester, told = room.join()
    for number in range(VALUES_LIMIT):
        room.requests.ask(requester, request("$hub/double", number, 1), room.now_ms)
    room.ask(requester, request("$hub/double", 100, 1))
    statuses = [status for _, status, _ in answers(told.take())]
    assert statuses == [Status.OK] * VALUES_LIMIT + [Status.OVERFLOW]
    room.ask(requester, request("$hub/double", 100, 1))
    assert answers(told.take()) == [(100, Status.OK, 2)]


def test_who_asks() -> None:
    room = Room()

    def name(handler: Handler, value: Any) -> Any:
        if value != handler.id:
            raise NotAllowedError(Status.NOT_ALLOWED, "that is somebody else's")
        return handler.id

    room.requests.hub_services.add("$hub/mine", name)
    requester, told = room.join()
    room.ask(requester, request("$hub/mine", 5, requester.id))
    room.ask(requester, request("$hub/mine", 6, requester.id + 1))
    assert answers(told.take()) == [(5, Status.OK, requester.id), (6, Status.NOT_ALLOWED, "that is somebody else's")]


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
        room.requests.hub_services.begin_turn()


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
