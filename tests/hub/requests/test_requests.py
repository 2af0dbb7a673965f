"""Requests: frames, ids and shares of work that the model does not look at."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.frame import FLAG_BATCH, FLAG_SHARED
from hub.handler import Handler
from hub.limits import RequestLimits
from hub.request_frame import Reply, Request, Status
from hub.requests.pending import Block, PureBlock
from tests.hub.fakes import handler_of
from tests.hub.requests.party import MOST, FakePoster, Room, answers, asked, packed, reply, request


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def service(room: Room) -> tuple[Handler, FakePoster]:
    return room.join("/")


def test_ids_that_are_used_up(room: Room, service: tuple[Handler, FakePoster]) -> None:
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
    assert "cannot ask" in room.ask(mute, request("/a", 1, 1))
    gone, outlet = room.join()
    room.core.detach(gone, "gone")
    assert not room.ask(gone, request("/a", 1, 1))
    assert not outlet.take()


def test_a_requester_that_does_not_read(room: Room, service: tuple[Handler, FakePoster]) -> None:
    requester, told = room.join(messages=2)
    for number in range(4):
        room.ask(requester, request("/a", number, number))
    requester.pause()
    for number in range(4):
        room.answer(service[0], reply(number, "done"))
    assert not told.take()
    requester.resume()
    assert [(one, status) for one, status, _ in answers(told.take())] == [(0, 0), (1, 0), (2, 5), (3, 5)]


def test_time_outs(room: Room, service: tuple[Handler, FakePoster]) -> None:
    requester, told = room.join()
    for number, timeout_ms in enumerate((0, 500, 10**9)):
        room.ask(requester, request("/a", number, number, timeout_ms=timeout_ms))
    given = [item.timeout_ms for item in service[1].take() if isinstance(item, Request)]
    assert given == [30_000, 500, 3_600_000]
    due = []
    for ms in (499, 1, 29_499, 1, 3_569_999, 1):
        room.later(ms)
        due.append([one for one, _, _ in answers(told.take())])
    assert due == [[], [1], [], [0], [], [2]]


def test_a_lost_service_with_very_much_pending() -> None:
    """It is answered in shares; what is due meanwhile is timed out, and nothing is answered twice."""
    room = Room(RequestLimits(timeout_s=1.0))
    service, _ = room.join("/")
    requester, told = room.join()
    for number in range(0, 100, 2):
        room.ask(requester, request("/a", number, number))
    with (
        patch("hub.turn.STEPS_PER_TURN", 10),
        patch("hub.requests.requests._LEAVING_AT_ONCE", 1),
        patch("hub.requests.requests._EXPIRED_PER_TURN", 10),
    ):
        room.turn()
        room.core.detach(service, "gone")
        room.turn()
        assert room.requests.is_busy
        assert 30 < room.requests.statistics().pending < 50
        room.requests.expire(2000)
        room.settle()
    statuses = {one: status for one, status, _ in answers(told.posted)}
    assert len(told.posted) == len(statuses) == 50
    assert list(statuses.values()).count(Status.TIMED_OUT) == 10
    assert not room.requests.statistics().pending


def test_a_lost_requester_with_very_much_pending(room: Room, service: tuple[Handler, FakePoster]) -> None:
    requester, told = room.join()
    for number in range(0, 40, 2):
        room.ask(requester, request("/a", number, number))
    with (
        patch("hub.turn.STEPS_PER_TURN", 5),
        patch("hub.requests.requests._LEAVING_AT_ONCE", 1),
        patch("hub.requests.requests._EXPIRED_PER_TURN", 5),
    ):
        room.turn()
        room.core.detach(requester, "gone")
        assert 10 < room.requests.statistics().pending < 20
        assert not room.requests.answer(service[0], reply(19, "done"))
        room.settle()
    assert not room.requests.statistics().pending
    assert room.requests.statistics().abandoned_total == 20
    assert not told.take()


def test_both_sides_at_once(room: Room) -> None:
    both, told = room.join("/")
    room.ask(both, request("/a", 1, *range(5)))
    room.ask(both, request("/a", 9, 9))
    told.take()
    room.core.detach(both, "gone")
    room.settle()
    assert not room.requests.statistics().pending
    assert not room.requests._participants
    assert not told.take()


@pytest.mark.parametrize("made", [Block, PureBlock], ids=["built", "pure"])
def test_what_is_pending_is_not_cut_out(made: type[PureBlock], room: Room, service: tuple[Handler, FakePoster]) -> None:
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


def test_the_limits() -> None:
    room = Room(RequestLimits(pending=3, pending_total=6))
    room.join("/")
    (requester, told), (link, link_told) = room.join(), room.join(role=Role.LINK)
    room.ask(requester, request("/a", 0, *range(3)))
    room.ask(requester, request("/a", 9, 9))
    room.ask(link, request("/a", 0, *range(3)))
    room.ask(link, request("/a", 9, 9))
    ((one, status, text),) = answers(told.take())
    assert (one, status) == (9, Status.OVERFLOW)
    assert "3 of your requests are pending, the limit is 3" in text
    ((one, status, text),) = answers(link_told.take())
    assert (one, status) == (9, Status.OVERFLOW)
    assert "6 requests are pending at this hub, the limit is 6" in text


def test_no_topic(room: Room, service: tuple[Handler, FakePoster]) -> None:
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
    assert "the service takes 100" in texts[0][2]
    assert "you take 50" in texts[1][2]


def test_a_service_that_does_not_read(room: Room) -> None:
    service, _ = room.join("/", messages=2)
    requester, told = room.join()
    service.pause()
    room.ask(requester, request("/a", 1, 1, 2))
    room.ask(requester, request("/a", 3, 3))
    ((one, status, _),) = answers(told.take())
    assert (one, status) == (3, Status.OVERFLOW)
    assert room.requests.statistics().pending == 2


def test_values_that_cannot_be_told_apart(room: Room, service: tuple[Handler, FakePoster]) -> None:
    (one, one_told), (other, other_told) = room.join(), room.join()
    room.ask(one, request("/a", 1, "a"))
    room.ask(other, request("/a", 2, "b"))
    assert "told apart" in room.answer(service[0], Reply(0, Status.OK, (2).to_bytes(4) + b"\xc1\xc1", 1))
    assert [status for _, status, _ in answers(one_told.take() + other_told.take())] == [Status.FAILED] * 2
    assert not room.requests.statistics().pending


class Handle(bytes):
    is_gone = False

    def plain(self, flags: int) -> bytes:
        assert flags & FLAG_SHARED
        if self.is_gone:
            raise RejectedError(CloseCode.GONE, "gone")
        return packed(["A", "B"])[0]


@pytest.mark.parametrize("status", [Status.OK, Status.FAILED])
def test_a_shared_reply_that_must_be_cut(status: Status, room: Room, service: tuple[Handler, FakePoster]) -> None:
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


def test_answers_in_a_row_are_one_frame(room: Room, service: tuple[Handler, FakePoster]) -> None:
    requester, told = room.join()
    for number in range(5):
        room.ask(requester, request("/a", MOST - 2 + number if number < 2 else number - 2, number))
    garbage = Reply(0, Status.OK, (5).to_bytes(4) + b"\xc1" * 5, 1)
    assert not room.answer(service[0], garbage)
    assert told.take() == [garbage._replace(first=MOST - 2)]


def test_a_reply_for_several_requesters(room: Room, service: tuple[Handler, FakePoster]) -> None:
    (one, one_told), (other, other_told) = room.join(), room.join()
    room.ask(one, request("/a", 10, "a", "b"))
    room.ask(other, request("/a", 20, "c"))
    room.ask(one, request("/a", 30, "d"))
    room.answer(service[0], reply(0, "A", "B", "C", "D"))
    assert one_told.take() == [reply(10, "A", "B"), reply(30, "D")]
    assert other_told.take() == [reply(20, "C")]


def test_one_reason_for_several(room: Room, service: tuple[Handler, FakePoster]) -> None:
    (one, one_told), (other, other_told) = room.join(), room.join()
    room.ask(one, request("/a", 10, "a", "b"))
    room.ask(other, request("/a", 20, "c"))
    room.answer(service[0], Reply(0, Status.FAILED, (3).to_bytes(4) + b"\xa2no", 1))
    assert answers(one_told.take()) == [(10, Status.FAILED, "no"), (11, Status.FAILED, "no")]
    assert answers(other_told.take()) == [(20, Status.FAILED, "no")]


def test_parts_in_any_order(room: Room, service: tuple[Handler, FakePoster]) -> None:
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


def test_late_and_unasked(room: Room, service: tuple[Handler, FakePoster]) -> None:
    requester, _ = room.join()
    stranger, _ = room.join()
    room.ask(requester, request("/a", 1, *range(3)))
    room.answer(service[0], reply(0, *range(3)))
    assert "too late" in room.answer(service[0], reply(1, 1, 1))
    assert "nothing of that kind" in room.answer(service[0], reply(3, 1))
    assert "nothing of that kind" in room.answer(stranger, reply(0, 1, 1, 1))
    statistics = room.requests.statistics()
    assert (statistics.late_total, statistics.unasked_total) == (2, 4)
