"""Requests against a model that keeps one dictionary: each has exactly one answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import RequestLimits
from hub.messages.frame import FLAG_BATCH
from hub.messages.request_frame import Reply, Request, Status
from hub.requests.services import Block, PureBlock
from tests.hub.fakes import FakeOutlet, at_once
from tests.hub.requests.party import MOST, Room, answers, packed, values_of

LIMITS = RequestLimits(pending=12, pending_total=25, timeout_s=0.05, timeout_max_s=0.2)
PREFIXES = ("", "/", "/a", "/a/b")
TOPICS = ("/", "/a", "/a/b/c", "/x", "y")
IDS = st.one_of(st.integers(0, 9), st.integers(MOST - 3, MOST - 1))
COUNTS = st.one_of(st.just(1), st.integers(1, 6))
Key = tuple[int, int]


@dataclass
class Waiting:
    service: Person
    issued: int
    value: Any
    due_ms: int


@dataclass(eq=False)
class Person:
    handler: Handler
    outlet: FakeOutlet
    serves: dict[str, int] = field(default_factory=dict)
    waiting: dict[int, Waiting] = field(default_factory=dict)  # By its own ids
    due: list[tuple[int, set[tuple[int, Any]]]] = field(default_factory=list)
    """Answers that it has not read yet: the id, and what it may be told."""
    ids: list[int] = field(default_factory=list)  # The hub's ids that it has seen
    is_paused: bool = False
    over: list[int] = field(default_factory=list)  # Its own ids that were answered out of a batch; to be used again

    @property
    def is_link(self) -> bool:
        return self.handler.is_link


class Model(RuleBasedStateMachine):
    people = Bundle("people")

    @initialize()
    def start(self) -> None:
        self.room = Room(LIMITS)
        self.persons: list[Person] = []
        self.values = 0
        self.answered = 0

    # What may happen.

    @rule(target=people, role=st.just(Role.CLIENT), near_end=st.booleans())
    def join(self, role: Role, near_end: bool) -> Person:  # noqa: FBT001
        person = Person(*self.room.join(role=role, messages=8))
        if near_end:
            self.room.requests._participant(person.handler).issued_total = MOST - 2
        self.persons.append(person)
        return person

    @rule(person=people, prefixes=st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=2))
    def serve(self, person: Person, prefixes: list[str]) -> None:
        at_once(self.room.requests.serving(person.handler, prefixes))
        for prefix in prefixes:
            person.serves[prefix] = person.serves.get(prefix, 0) + 1

    @rule(person=people, prefixes=st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=2))
    def unserve(self, person: Person, prefixes: list[str]) -> None:
        at_once(self.room.requests.unserving(person.handler, prefixes))
        for prefix in prefixes:
            if person.serves.get(prefix, 0) > 1:
                person.serves[prefix] -= 1
            else:
                person.serves.pop(prefix, None)

    @rule(
        person=people,
        topic=st.sampled_from(TOPICS),
        first=IDS,
        count=COUNTS,
        timeout_ms=st.sampled_from((0, 10, 100, 1000)),
    )
    def ask(self, person: Person, topic: str, first: int, count: int, timeout_ms: int) -> None:
        values = list(range(self.values, self.values + count))
        self.values += count
        ids = [(first + place) % MOST for place in range(count)]
        body, flags = packed(values)
        refused = self.room.ask(person.handler, Request(topic.encode(), first, timeout_ms, body, flags))
        if any(one in person.waiting for one in ids):
            assert "pending already" in refused
            return
        assert not refused
        found = self.find(topic)
        over = self.pending + count > LIMITS.pending_total
        over = over or (not person.is_link and len(person.waiting) + count > LIMITS.pending)
        if over or not found:
            status = Status.OVERFLOW if over else Status.NO_RESPONDER
            person.due += [(one, {(status, None)}) for one in ids]
            return
        timeout_ms = min(timeout_ms or int(LIMITS.timeout_s * 1000), int(LIMITS.timeout_max_s * 1000))
        self.place(person, found, ids, values, self.room.now_ms + timeout_ms)

    @rule(person=people, data=st.data(), topic=st.sampled_from(TOPICS), count=st.integers(1, 3))
    def ask_again(self, person: Person, data: st.DataObject, topic: str, count: int) -> None:
        if person.over:
            self.ask(person, topic, data.draw(st.sampled_from(person.over)), count, 100)

    @rule(person=people, data=st.data(), count=st.integers(1, 3))
    def reply_in_part(self, person: Person, data: st.DataObject, count: int) -> None:
        owed = [waiting.issued for one in self.persons for waiting in one.waiting.values() if waiting.service is person]
        if owed:
            self.reply_from(person, data.draw(st.sampled_from(owed)), count, Status.OK)

    @rule(person=people, data=st.data(), count=COUNTS, status=st.sampled_from((Status.OK, Status.OK, Status.FAILED)))
    def reply(self, person: Person, data: st.DataObject, count: int, status: Status) -> None:
        first = data.draw(st.one_of(st.sampled_from(person.ids), IDS) if person.ids else IDS)
        self.reply_from(person, first, count, status)

    def reply_from(self, person: Person, first: int, count: int, status: Status) -> None:
        values = [f"answer {self.answered + place}" for place in range(count if status is Status.OK else 1)]
        self.answered += count
        body, flags = packed(values)
        if status is not Status.OK and count > 1:
            body, flags = count.to_bytes(4) + body, FLAG_BATCH
            values *= count
        refused = self.room.answer(person.handler, Reply(first, status, body, flags))
        lost = 0
        for place, value in enumerate(values):
            key = self.pending_at(person, (first + place) % MOST)
            if key is None:
                lost += 1
            else:
                self.end(*key, (status, value))
        assert bool(lost) == bool(refused)

    @rule(person=people, data=st.data(), count=st.integers(2, 4))
    def reply_garbage(self, person: Person, data: st.DataObject, count: int) -> None:
        first = data.draw(st.one_of(st.sampled_from(person.ids), IDS) if person.ids else IDS)
        keys = [self.pending_at(person, (first + place) % MOST) for place in range(count)]
        refused = self.room.answer(person.handler, Reply(first, Status.OK, count.to_bytes(4) + b"\xc1" * count, 1))
        asker = keys[0][0] if keys[0] is not None else None
        rows = [
            key is not None and key[0] is asker and key[1] == (keys[0][1] + place) % MOST  # type: ignore[index]
            for place, key in enumerate(keys)
        ]
        assert bool(refused) == (not all(rows))
        for key in keys:
            if key is not None:
                self.end(*key, (Status.OK, "garbage") if all(rows) else (Status.FAILED, None))

    @rule(person=people)
    def reply_with_a_status_of_the_hub(self, person: Person) -> None:
        if not person.is_link:
            first = person.ids[-1] if person.ids else 0
            assert "status 4" in self.room.answer(person.handler, Reply(first, Status.TIMED_OUT, b"\xc0"))

    @rule(ms=st.sampled_from((10, 40, 200)))
    def wait(self, ms: int) -> None:
        self.room.later(ms)
        for person in self.persons:
            for one, waiting in list(person.waiting.items()):
                if waiting.due_ms <= self.room.now_ms:
                    self.end(person, one, (Status.TIMED_OUT, None))

    @rule(person=consumes(people))
    def leave(self, person: Person) -> None:
        self.persons.remove(person)
        self.room.core.detach(person.handler, "gone")
        self.room.settle()
        for other in self.persons:
            for one, waiting in list(other.waiting.items()):
                if waiting.service is person:
                    self.end(other, one, (Status.RESPONDER_GONE, None))
        assert not person.outlet.take() or not person.is_paused

    @rule(person=people)
    def pause(self, person: Person) -> None:
        person.is_paused = True
        person.handler.pause()

    @rule(person=people)
    def resume(self, person: Person) -> None:
        person.is_paused = False
        person.handler.resume()

    # What must be true of it.

    @invariant()
    def each_has_its_answer(self) -> None:
        for person in self.persons:
            self.read(person)
            assert person.is_paused or not person.due, person.due

    @invariant()
    def as_many_are_pending(self) -> None:
        requests = self.room.requests
        assert requests.statistics().pending == self.pending
        assert requests.statistics().services == len({prefix for one in self.persons for prefix in one.serves})
        for handler, participant in requests._participants.items():
            person = next(one for one in self.persons if one.handler is handler)
            assert (
                participant.asked_requests
                == len(person.waiting)
                == sum(block.left for block in participant.asked.blocks())
            )
            owed = sum(waiting.service is person for one in self.persons for waiting in one.waiting.values())
            assert participant.owed_requests == owed == sum(block.left for block in participant.owed.blocks())
        buckets = requests._deadlines._buckets.values()
        assert sum(block.left for bucket in buckets for block in bucket) == self.pending

    def teardown(self) -> None:
        if hasattr(self, "room"):
            for person in self.persons:
                self.resume(person)
            self.wait(LIMITS_MS)
            self.each_has_its_answer()
            assert not self.pending
            assert self.room.requests.next_due_ms is None

    # The model.

    @property
    def pending(self) -> int:
        return sum(len(person.waiting) for person in self.persons)

    def find(self, topic: str) -> list[Person]:
        found = [(len(prefix), one) for one in self.persons for prefix in one.serves if topic.startswith(prefix)]
        if not found:
            return []
        longest = max(length for length, _ in found)
        best = [one for length, one in found if length == longest]
        fewest = min(self.owed(one) for one in best)
        return [one for one in best if self.owed(one) == fewest]

    def owed(self, person: Person) -> int:
        return sum(waiting.service is person for one in self.persons for waiting in one.waiting.values())

    def place(self, person: Person, found: list[Person], ids: list[int], values: list[Any], due_ms: int) -> None:
        last = [one for one in found if self.room.requests._participants[one.handler].owed_requests > self.owed(one)]
        if not last:  # no room beside its queue
            assert any(one.is_paused for one in found)
            person.due += [(one, {(Status.OVERFLOW, None)}) for one in ids]
            return
        (service,) = last
        participant = self.room.requests._participants[service.handler]
        issued = [(participant.issued_total - len(ids) + place) % MOST for place in range(len(ids))]
        service.ids += issued
        for one, number, value in zip(ids, issued, values, strict=True):
            person.waiting[one] = Waiting(service, number, value, due_ms)

    def pending_at(self, service: Person, issued: int) -> tuple[Person, int] | None:
        for person in self.persons:
            for one, waiting in person.waiting.items():
                if waiting.service is service and waiting.issued == issued:
                    return person, one
        return None

    def end(self, person: Person, one: int, answer: tuple[int, Any]) -> None:
        del person.waiting[one]
        person.over.append(one)
        may_be = {answer}
        if person.is_paused and answer[0] in (Status.OK, Status.FAILED):
            may_be.add((Status.OVERFLOW, None))
        person.due.append((one, may_be))

    def read(self, person: Person) -> None:
        for item in person.outlet.take():
            if isinstance(item, Request):
                for place, value in enumerate(values_of(item)):
                    issued = (item.first + place) % MOST
                    assert issued in person.ids
                    key = self.pending_at(person, issued)
                    assert key is None or key[0].waiting[key[1]].value == value
                continue
            garbage = b"\xc1" in item.values
            told = [((item.first + place) % MOST, item.status, "garbage") for place in range(item.requests)]
            for one, status, value in told if garbage else answers([item]):
                said = (status, value if status == Status.OK or str(value).startswith("answer") else None)
                for place, (due, may_be) in enumerate(person.due):
                    if due == one:
                        assert said in may_be
                        del person.due[place]
                        break
                else:
                    pytest.fail(f"an answer that nobody waits for: {one} {said}")


LIMITS_MS = int(LIMITS.timeout_max_s * 1000)


class _Short(Model.TestCase):  # type: ignore[name-defined, misc]
    block: ClassVar[type]

    def runTest(self) -> None:  # noqa: N802 -- as unittest has it
        with (
            patch("hub.scheduling.scheduler.STEPS_PER_TURN", 2),
            patch("hub.requests.requests._LEAVING_AT_ONCE", 1),
            patch("hub.requests.requests._EXPIRED_AT_ONCE", 2),
            patch("hub.requests.requests.Block", self.block),
        ):
            super().runTest()


class TestPure(_Short):
    block = PureBlock


class TestBuilt(_Short):
    block = Block
    settings = settings(max_examples=settings().max_examples // 2)


del _Short
