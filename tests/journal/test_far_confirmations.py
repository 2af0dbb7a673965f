"""A hub asks what the journal of another one has recorded of what has entered here, and is answered."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode, RejectedError
from hub.messages.batch import Batch
from hub.messages.frame import Origin, iterate_frames
from hub.messages.request_frame import Reply, Request, Status
from hub.requests.hub_services import target_at
from hub.routing.routes import Route
from peers.journal import remote_confirmations as module
from peers.journal.recorder import Answer, OnMarked
from peers.journal.remote_confirmations import ANSWER_MS, RECORDED, Marked, Marks, Question, RemoteConfirmations
from peers.journal.remote_journals import NoJournal
from tests.hub.requests.party import Room

HERE, THERE = b"h" * 16, b"t" * 16


class Bench:
    def __init__(self) -> None:
        self.room = Room(hub_id=HERE)
        Marks(self.room.core, lambda: self.room.now_ms, NoJournal)
        self.confirmations = RemoteConfirmations(self.room.core, self._find, lambda: self.room.now_ms)
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
    ("status", "value", "code", "text"),
    [
        (Status.OK, [4012, "not recorded: full"], 4012, "not recorded: full"),
        (Status.OK, [77, "strange"], 4012, "strange"),
        *((Status.OK, value, 4012, "that was no answer") for value in (-1, True, None, [4012])),
        (Status.NO_RESPONDER, "why", 1013, "it cannot be reached now"),
        (Status.RESPONDER_GONE, "why", 1013, "the path to it was lost; the messages may be recorded or not"),
        (Status.TIMED_OUT, "why", 1013, "it has not confirmed within 30 s; the messages may be recorded or not"),
        (Status.FAILED, "some reason", 1013, "some reason"),
    ],
)
def test_no_offset(bench: Bench, status: Status, value: Any, code: int, text: str) -> None:
    bench.ask()
    bench.answer(bench.asked()[0], value, status=status)
    (error,) = bench.outcomes
    assert isinstance(error, RejectedError)
    assert (error.code, error.text) == (code, f"journal of hub 'there': {text}")
    assert bench.confirmations.refused_total == 1


async def test_who_asks_for_too_many_is_not_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_LIMIT", 4)
    called: list[str] = []
    first, second = (partial(called.append, name) for name in ("first", "second"))
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


def test_a_part_of_a_batch_has_its_mark() -> None:
    plain, here = Batch.of("/a", (1, 2, 3)), Origin(HERE, 3)
    batch = Marked(plain.frames, plain.messages, 7)
    assert batch.origin is None
    batch.origin = here
    head, tail = batch.split(1)
    assert tail is not None
    assert (head.messages, tail.messages) == (1, 2)
    assert head.origin == tail.origin == batch.origin == Origin(HERE, 3, 7)
    assert here.mark == 0


class _Journal:
    def __init__(self) -> None:
        self.id = b"j" * 16
        self.is_recorded = True
        self.on_marked: OnMarked | None = None
        self.recorder = self

    def records(self, _: Route) -> bool:
        return self.is_recorded


class Recording:
    def __init__(self) -> None:
        self.room = Room(hub_id=HERE)
        self.journal = _Journal()
        self.marks = Marks(self.room.core, lambda: self.room.now_ms, lambda: self.journal)  # type: ignore[arg-type,return-value]
        self.link, self.outlet = self.room.link(THERE)
        self.first = 0

    def figures(self) -> tuple[int, int, int]:
        return self.marks.expected, self.marks.confirmed_total, self.marks.refused_total

    def ask(self, mark: int, messages: int = 1, *, hub: bytes = THERE, topic: str = "/a") -> None:
        (frame,) = iterate_frames(Batch.of(topic, [1]).frames)
        self.ask_plainly(Question(hub, mark, messages, frame.routing_key))

    def ask_plainly(self, question: Any) -> None:
        self.first += 1
        value = msgspec.msgpack.encode(question)
        self.room.ask(self.link, Request(target_at(HERE, RECORDED), self.first, 0, value))

    def come(self, mark: int, messages: int = 1) -> Answer:
        assert self.journal.on_marked is not None
        return self.journal.on_marked(Origin(THERE, 1, mark), messages)

    def told(self) -> list[Any]:
        self.room.settle()
        found = []
        for item in self.outlet.take():
            assert isinstance(item, Reply)
            assert item.status == Status.OK
            found.append((item.first, msgspec.msgpack.decode(item.values)))
        return found


@pytest.fixture
def recording() -> Recording:
    return Recording()


def test_an_offset_is_told_once_it_is_on_the_disk(recording: Recording) -> None:
    recording.ask(1, 3)
    recording.ask(1, hub=b"o" * 16)
    assert recording.told() == []
    committed = recording.come(1, 3)
    assert recording.told() == []
    committed(40)
    assert recording.told() == [(1, 40)]
    assert recording.figures() == (1, 1, 0)
    recording.ask(2)
    recording.come(2)(RejectedError(CloseCode.JOURNAL_FAILED, "not recorded: full"))
    assert recording.told() == [(3, [4012, "not recorded: full"])]
    assert recording.figures() == (1, 1, 1)
    committed, later = recording.come(3), recording.come(4)
    committed(8)
    recording.ask(3)
    recording.ask(4)
    assert recording.told() == [(4, 8)]
    later(9)
    assert recording.told() == [(5, 9)]


def test_what_is_lost_on_the_way(recording: Recording) -> None:
    for mark in (1, 2, 3):
        recording.ask(mark)
    recording.come(3)(5)
    lost = [4012, "not recorded: it was lost on the way"]
    assert recording.told() == [(1, lost), (2, lost), (3, 5)]
    recording.ask(4, 10)
    recording.come(4, 4)(5)
    text = "4 of 10 messages came together; the others were lost on the way, or are apart"
    assert recording.told() == [(4, [4012, text])]


def test_so_many_are_remembered(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEEN_LIMIT", 2)
    recording.ask(1)
    recording.come(1)(0)
    for mark in (2, 3, 4):
        recording.come(mark)(mark)
    recording.told()
    recording.ask(2)
    recording.ask(3)
    assert recording.told() == [(3, 3)]
    assert recording.marks.expected == 1


def test_what_never_comes(recording: Recording) -> None:
    recording.ask(1)
    recording.room.now_ms += ANSWER_MS - 1
    recording.ask(2)
    recording.marks.tick()
    assert recording.told() == []
    recording.room.now_ms += 1
    recording.marks.tick()
    ((first, (code, _)),) = recording.told()
    assert (first, code) == (1, 1013)
    recording.come(2)(6)
    assert recording.told() == [(2, 6)]


def test_what_cannot_be_answered(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    recording.ask_plainly("what?")
    recording.ask_plainly(Question(THERE, 1, 1, b"no key"))
    recording.ask(1)
    recording.ask(1)
    monkeypatch.setattr(module, "EXPECTED_LIMIT", 1)
    recording.ask(2)
    recording.journal.is_recorded = False
    monkeypatch.undo()
    recording.ask(3)
    recording.journal.id = b""
    recording.ask(4)
    told = dict(recording.told())
    assert {first: code for first, (code, _) in told.items()} == {1: 1007, 2: 1007, 4: 1007, 5: 1013, 6: 1008, 7: 1008}
    assert told[5][1] == "1 confirmations for other hubs wait already, which is the limit"
    assert told[6][1] == "topic not recorded there; see journal.topics of that hub"
    assert told[7][1] == "that hub has no journal of its own"
