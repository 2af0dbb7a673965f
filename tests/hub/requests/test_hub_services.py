"""What the hub itself answers, under `$hub/`."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import UsageError
from hub.request_frame import Status
from hub.requests.hub_services import VALUES_LIMIT
from tests.hub.requests.party import Room, answers, request


def double(value: Any) -> Any:
    """A service of the hub's."""
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
    """It answers at once; where it fails for one value of a frame, the frame has failed."""
    room = Room()
    room.requests.hub_services.add("$hub/double", double)
    requester, told = room.join()
    room.ask(requester, request("$hub/double", 5, *values))
    assert answers(told.take()) == expected
    assert not room.requests.statistics().pending


def test_values_that_are_none() -> None:
    """They fail, with the reason."""
    room = Room()
    room.requests.hub_services.add("$hub/double", double)
    requester, told = room.join()
    room.ask(requester, request("$hub/double", 5, 1)._replace(values=b"\xc1"))
    ((_, status, reason),) = answers(told.take())
    assert status == Status.FAILED
    assert "msgpack" in reason


def test_too_many_values() -> None:
    """A frame may not ask for very many answers: each may be long."""
    room = Room()
    room.requests.hub_services.add("$hub/double", double)
    requester, told = room.join()
    room.ask(requester, request("$hub/double", 5, *range(VALUES_LIMIT + 1)))
    assert {status for _, status, _ in answers(told.take())} == {Status.FAILED}


def test_too_many_in_one_turn() -> None:
    """What is over it is told so, and may be asked again in the next turn."""
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
