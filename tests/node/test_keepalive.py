"""The wheel of deadlines against a naive one that asks everybody."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from peers.node.keepalive import Keepalive


@dataclass(eq=False)
class FakeConnection:
    again: Callable[[float], float] = lambda _: math.inf
    looks: list[float] = field(default_factory=list)
    due_s: int = -1

    def check(self, now_s: float) -> float:
        self.looks.append(now_s)
        return self.again(now_s)


def test_at_the_first_tick_that_is_not_before() -> None:
    keepalive = Keepalive(100.7)
    connection = FakeConnection()
    keepalive.watch(connection, 103.2)
    for now_s in (101.0, 102.0, 103.0, 103.9):
        keepalive.tick(now_s)
        assert not connection.looks
    keepalive.tick(104.0)
    assert connection.looks == [104.0]
    keepalive.tick(110.0)
    assert len(connection.looks) == 1
    assert len(keepalive) == 0


def test_it_says_itself_when_to_look_again() -> None:
    keepalive = Keepalive(0.0)
    connection = FakeConnection(again=lambda now_s: now_s + 3 if now_s < 9 else math.inf)
    keepalive.watch(connection, 1.0)
    for second in range(20):
        keepalive.tick(float(second))
    assert connection.looks == [1.0, 4.0, 7.0, 10.0]
    assert len(keepalive) == 0


def test_forgotten_while_others_are_looked_at() -> None:
    keepalive = Keepalive(0.0)
    gone, moved = FakeConnection(), FakeConnection()

    def close_others(now_s: float) -> float:
        keepalive.forget(gone)
        keepalive.watch(moved, now_s + 2)
        return math.inf

    keepalive.watch(FakeConnection(again=close_others), 1.0)
    keepalive.watch(gone, 1.0)
    keepalive.watch(moved, 1.0)
    keepalive.tick(1.0)
    assert not gone.looks
    assert not moved.looks
    keepalive.tick(3.0)
    assert not gone.looks
    assert moved.looks == [3.0]
    assert len(keepalive) == 0


class KeepaliveAgainstNaive(RuleBasedStateMachine):
    @initialize(start=st.floats(0, 50))
    def begin(self, start: float) -> None:
        self.keepalive = Keepalive(start)
        self.now_s = start
        self.deadlines: dict[int, int] = {}
        self.again: dict[int, float] = {}
        self.connections = [FakeConnection(again=self.asker(number)) for number in range(4)]

    def asker(self, number: int) -> Callable[[float], float]:
        return lambda now_s: now_s + self.again.get(number, math.inf)

    def expect(self, number: int, at_s: float) -> None:
        self.deadlines.pop(number, None)
        if not math.isinf(at_s):
            self.deadlines[number] = max(math.ceil(at_s), math.floor(self.now_s) + 1)

    @rule(number=st.integers(0, 3), wait_s=st.floats(-5, 30) | st.just(math.inf))
    def watch(self, number: int, wait_s: float) -> None:
        self.keepalive.watch(self.connections[number], self.now_s + wait_s)
        self.expect(number, self.now_s + wait_s)

    @rule(number=st.integers(0, 3))
    def forget(self, number: int) -> None:
        self.keepalive.forget(self.connections[number])
        self.deadlines.pop(number, None)

    @rule(number=st.integers(0, 3), wait_s=st.floats(0.1, 20))
    def ask_for_more(self, number: int, wait_s: float) -> None:
        self.again[number] = wait_s

    @rule(wait_s=st.floats(0, 15))
    def tick(self, wait_s: float) -> None:
        self.now_s += wait_s
        due = {number for number, second in self.deadlines.items() if second <= math.floor(self.now_s)}
        before = [len(connection.looks) for connection in self.connections]
        self.keepalive.tick(self.now_s)
        looked = [len(connection.looks) - count for connection, count in zip(self.connections, before, strict=True)]
        assert looked == [int(number in due) for number in range(4)]
        for number in due:
            self.expect(number, self.now_s + self.again.get(number, math.inf))

    @invariant()
    def counted(self) -> None:
        assert len(self.keepalive) == len(self.deadlines)


TestKeepaliveAgainstNaive = KeepaliveAgainstNaive.TestCase
