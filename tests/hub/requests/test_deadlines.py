"""Deadlines: never early, at most a bucket late, in shares, and armed for the earliest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.requests.pending import BUCKET_MS, Block, Deadlines, Participant
from tests.hub.fakes import handler_of


class Watch:
    def __init__(self) -> None:
        self.alarm_ms: int | None = None
        self.deadlines = Deadlines(self._wake_at)
        self.asker, self.responder = Participant(handler_of()), Participant(handler_of())

    def _wake_at(self, due_ms: int) -> None:
        self.alarm_ms = due_ms

    def add(self, number: int, due_ms: int) -> Block:
        block = Block(self.asker, self.responder, number, number, 1, self.deadlines.bucket(due_ms))
        block.enter()
        return block

    def take(self, now_ms: int, most: int) -> list[int]:
        blocks = self.deadlines.take(now_ms, most)
        for block in blocks:
            block.leave()
        return [block.first for block in blocks]


@given(dues=st.lists(st.integers(0, 100), max_size=30), steps=st.lists(st.integers(1, 40)), most=st.integers(1, 4))
def test_when(dues: list[int], steps: list[int], most: int) -> None:
    watch = Watch()
    for number, due_ms in enumerate(dues):
        watch.add(number, due_ms)
    now_ms = 0
    taken: dict[int, int] = {}
    for step in [*steps, 200]:
        now_ms += step
        while watch.alarm_ms is not None and watch.alarm_ms <= now_ms:
            alarm_ms, watch.alarm_ms = watch.alarm_ms, None
            some = watch.take(alarm_ms, most)
            assert len(some) <= most
            taken.update(dict.fromkeys(some, alarm_ms))
    assert sorted(taken) == list(range(len(dues)))
    for number, at_ms in taken.items():
        assert dues[number] <= at_ms < dues[number] + BUCKET_MS
    assert watch.deadlines.next_due_ms is None


def test_what_is_answered_is_not_due() -> None:
    watch = Watch()
    blocks = [watch.add(number, 1000 + number) for number in range(3)]
    watch.add(3, 5000)
    for block in blocks:
        block.leave()
    assert watch.take(1000, 10) == []
    assert watch.deadlines.next_due_ms == watch.alarm_ms == 5000


def test_an_earlier_one() -> None:
    watch = Watch()
    watch.add(0, 500)
    watch.add(1, 900)
    assert watch.alarm_ms == 500
    watch.add(2, 100)
    assert watch.alarm_ms == watch.deadlines.next_due_ms == 100
