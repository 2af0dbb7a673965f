"""A hub asks what the journal of another one has recorded of what has entered here."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import iterate_frames
from hub.origin import Origin
from hub.request_frame import Reply, Request, Status
from hub.requests.hub_services import target_at
from peers.journal import far_confirmations as module
from peers.journal.far_confirmations import ANSWER_MS, RECORDED, FarConfirmations, Marked, Marks, Question
from peers.journal.recording import NoJournal
from tests.hub.requests.party import Room

HERE, THERE = b"h" * 16, b"t" * 16


class Bench:
    def __init__(self) -> None:
        self.room = Room(hub_id=HERE)
        Marks(self.room.core, lambda: self.room.now_ms, NoJournal)
        self.confirmations = FarConfirmations(self.room.core, self._find, lambda: self.room.now_ms)
        self.link, self.outlet = self.room.link(THERE)
        self.outcomes: list[int | RejectedError] = []

    @staticmethod
    def _find(of: str) -> bytes:
        if of != "there":
            raise RejectedError(CloseCode.BAD_DATA, "no such hub")
        return THERE

    def figures(self) -> tuple[int, ...]:
        one = self.confirmations
        return one.pending, one.taken, one.refused_total, one.pauses_total

    def ask(self, *values: Any, topic: str = "/a") -> Batch:
        batch = self.confirmations.ask("there", Batch.of(topic, values or (1,)), self.outcomes.append)
        self.room.settle()
        return batch

    def asked(self) -> list[Request]:
        items = self.outlet.take()
        assert all(isinstance(item, Request) for item in items)
        return items  # type: ignore[return-value]

    def answer(self, request: Request, value: Any, *, status: int = Status.OK) -> None:
        self.room.answer(self.link, Reply(request.first, status, msgspec.msgpack.encode(value)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_question_tells_what_is_to_be_recognised(bench: Bench) -> None:
    """Its mark, which the batch bears, too; how many messages it has, and which way they take."""
    batches = [bench.ask(1, 2), bench.ask(3, topic="/b")]
    requests = bench.asked()
    assert [(one.target, one.timeout_ms) for one in requests] == [(target_at(THERE, RECORDED), ANSWER_MS)] * 2
    questions = [msgspec.msgpack.decode(one.values, type=Question) for one in requests]
    keys = [next(iterate_frames(batch.frames)).routing_key for batch in batches]
    assert questions == [Question(HERE, 1, 2, keys[0]), Question(HERE, 2, 1, keys[1])]
    for mark, batch in enumerate(batches, 1):
        batch.origin = Origin(HERE, 1)
        assert batch.origin == Origin(HERE, 1, mark)
    assert bench.figures() == (2, 2, 0, 0)
    bench.answer(requests[1], 8)
    bench.answer(requests[0], 5)
    assert bench.outcomes == [8, 5]
    assert bench.figures() == (0, 2, 0, 0)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ([4012, "not recorded: full"], 4012, "not recorded: full"),
        ([77, "strange"], 4012, "strange"),
        (-1, 4012, "that was no answer"),
        (True, 4012, "that was no answer"),
        (None, 4012, "that was no answer"),
        ([4012], 4012, "that was no answer"),
    ],
)
def test_no_offset(bench: Bench, value: Any, code: int, text: str) -> None:
    bench.ask()
    bench.answer(bench.asked()[0], value)
    (error,) = bench.outcomes
    assert isinstance(error, RejectedError)
    assert (error.code, error.text) == (code, f"journal of hub 'there': {text}")
    assert bench.confirmations.refused_total == 1


def test_what_is_no_answer_at_all(bench: Bench) -> None:
    bench.ask()
    (request,) = bench.asked()
    bench.room.answer(bench.link, Reply(request.first, Status.OK, b"\xc1"))
    assert [isinstance(one, RejectedError) for one in bench.outcomes] == [True]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status.NO_RESPONDER, "it cannot be reached now"),
        (Status.RESPONDER_GONE, "the way to it was lost; what was published may be recorded or not"),
        (Status.TIMED_OUT, "it has not confirmed within 30 s; what was published may be recorded or not"),
        (Status.FAILED, "some reason"),
    ],
)
def test_no_answer(bench: Bench, status: Status, text: str) -> None:
    bench.ask()
    bench.answer(bench.asked()[0], "some reason", status=status)
    (error,) = bench.outcomes
    assert isinstance(error, RejectedError)
    assert (error.code, error.text) == (CloseCode.TRY_AGAIN_LATER, f"journal of hub 'there': {text}")


def test_nobody_waits_for_ever(bench: Bench) -> None:
    bench.ask()
    bench.room.now_ms += ANSWER_MS + 1
    bench.room.core.requests.expire(bench.room.now_ms)
    bench.room.settle()
    (error,) = bench.outcomes
    assert "has not confirmed within 30 s" in str(error)


def test_no_such_hub(bench: Bench) -> None:
    with pytest.raises(RejectedError, match="no such hub"):
        bench.confirmations.ask("nobody", Batch.of("/a", [1]), bench.outcomes.append)
    assert bench.figures() == (0, 0, 0, 0)


async def test_who_asks_for_too_many_is_not_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_LIMIT", 4)
    called: list[str] = []

    def first() -> None:
        called.append("first")

    def second() -> None:
        called.append("second")

    for _ in range(3):
        bench.ask()
    assert not bench.confirmations.is_behind
    bench.ask()
    assert bench.confirmations.is_behind
    bench.confirmations.wait_room(first)
    bench.confirmations.wait_room(second)
    bench.confirmations.forget_room(second)
    requests = bench.asked()
    bench.answer(requests[0], 1)
    assert (called, bench.confirmations.is_behind) == ([], False)
    bench.answer(requests[1], 2)
    assert called == ["first"]
    assert bench.figures() == (2, 4, 0, 2)
    settling = asyncio.ensure_future(bench.confirmations.settle())
    await asyncio.sleep(0)
    bench.answer(requests[2], 3)
    bench.answer(requests[3], 4)
    await settling
    assert bench.outcomes == [1, 2, 3, 4]


async def test_a_hub_that_stops_does_not_wait_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_S", 0)
    bench.ask()
    await bench.confirmations.settle()
    assert bench.outcomes == []


def test_a_part_of_a_batch_has_its_mark() -> None:
    """So that a hub that gets fewer messages than were marked sees that some are missing; its hub's origin stays."""
    plain, here = Batch.of("/a", (1, 2, 3)), Origin(HERE, 3)
    batch = Marked(plain.frames, plain.messages, 7)
    assert batch.origin is None
    batch.origin = here
    head, tail = batch.split(1)
    assert tail is not None
    assert (head.messages, tail.messages) == (1, 2)
    assert head.origin == tail.origin == batch.origin == Origin(HERE, 3, 7)
    assert here.mark == 0
