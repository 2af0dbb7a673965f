"""What a hub that records answers to those who ask what has become of their batches."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import iterate_frames
from hub.origin import Origin
from hub.request_frame import Reply, Request, Status
from hub.requests.hub_services import target_at
from hub.routes import Route
from peers.journal import far_confirmations as marks_module
from peers.journal.far_confirmations import ANSWER_MS, RECORDED, Marks, Question
from peers.journal.recorder import Answer, OnMarked
from tests.hub.requests.party import Room

HERE, THERE = b"h" * 16, b"t" * 16


class FakeJournal:
    def __init__(self) -> None:
        self.id = b"j" * 16
        self.is_recorded = True
        self.on_marked: OnMarked | None = None

    def records(self, _: Route) -> bool:
        return self.is_recorded

    def heed(self, on_marked: OnMarked) -> None:
        self.on_marked = on_marked


class Bench:
    def __init__(self) -> None:
        self.room = Room(hub_id=HERE)
        self.journal = FakeJournal()
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
def bench() -> Bench:
    return Bench()


def test_an_offset_is_told_once_it_is_on_the_disk(bench: Bench) -> None:
    bench.ask(1, 3)
    assert bench.told() == []
    committed = bench.come(1, 3)
    assert bench.told() == []
    committed(40)
    assert bench.told() == [(1, 40)]
    assert bench.figures() == (0, 1, 0)


def test_a_journal_that_fails(bench: Bench) -> None:
    bench.ask(1)
    bench.come(1)(RejectedError(CloseCode.JOURNAL_FAILED, "not recorded: full"))
    assert bench.told() == [(1, [4012, "not recorded: full"])]
    assert bench.figures() == (0, 0, 1)


def test_messages_that_come_before_their_question(bench: Bench) -> None:
    bench.ask(1)
    bench.come(1)(7)
    assert bench.told() == [(1, 7)]
    committed, later = bench.come(2), bench.come(3)
    committed(8)
    bench.ask(2)
    bench.ask(3)
    assert bench.told() == [(2, 8)]
    later(9)
    assert bench.told() == [(3, 9)]


def test_so_many_are_remembered(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_module, "SEEN_LIMIT", 2)
    bench.ask(1)
    bench.come(1)(0)
    for mark in (2, 3, 4):
        bench.come(mark)(mark)
    bench.told()
    bench.ask(2)
    bench.ask(3)
    assert bench.told() == [(3, 3)]
    assert bench.marks.expected == 1


def test_what_is_lost_on_the_way(bench: Bench) -> None:
    """It is known as soon as something later of the same hub has come, as order is kept."""
    for mark in (1, 2, 3):
        bench.ask(mark)
    bench.come(3)(5)
    lost = [4012, "not recorded: it was lost on the way"]
    assert bench.told() == [(1, lost), (2, lost), (3, 5)]


def test_what_is_lost_in_part(bench: Bench) -> None:
    bench.ask(1, 10)
    bench.come(1, 4)(5)
    ((_, (code, text)),) = bench.told()
    assert (code, text) == (4012, "4 of 10 messages came together; the others were lost on the way, or are apart")


def test_what_never_comes(bench: Bench) -> None:
    bench.ask(1)
    bench.room.now_ms += ANSWER_MS - 1
    bench.ask(2)
    bench.marks.tick()
    assert bench.told() == []
    bench.room.now_ms += 1
    bench.marks.tick()
    ((first, (code, _)),) = bench.told()
    assert (first, code) == (1, 1013)
    bench.come(2)(6)
    assert bench.told() == [(2, 6)]


def test_what_cannot_be_answered(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.ask_plainly("what?")
    bench.ask_plainly(Question(THERE, 1, 1, b"no key"))
    bench.ask(1)
    bench.ask(1)
    monkeypatch.setattr(marks_module, "EXPECTED_LIMIT", 1)
    bench.ask(2)
    bench.journal.is_recorded = False
    monkeypatch.undo()
    bench.ask(3)
    bench.journal.id = b""
    bench.ask(4)
    told = dict(bench.told())
    assert {first: code for first, (code, _) in told.items()} == {1: 1007, 2: 1007, 4: 1007, 5: 1013, 6: 1008, 7: 1008}
    assert told[5][1] == "1 confirmations for other hubs wait already, which is the limit"
    assert told[6][1] == "topic not recorded there; see journal.topics of that hub"
    assert told[7][1] == "that hub has no journal of its own"


def test_hubs_do_not_mix(bench: Bench) -> None:
    other = b"o" * 16
    bench.ask(1, hub=other)
    bench.ask(5)
    bench.come(5)(9)
    assert bench.told() == [(2, 9)]
    assert bench.marks.expected == 1
