"""Who has a place or a turn, and who gives way; who is looked at, and when."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.settings.settings import Limits
from peers.server.admission import STEPS_PER_TURN, Admission, Handshakes
from peers.server.keepalive import Keepalive
from peers.server.reading import ReadBudget
from peers.transport.tls_transport import TlsTransport

# Places.


FAR = "198.51.100.7:5000"
LOCAL = "127.0.0.1:5000"


class Connection:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def places(*, connections: int = 100, newcomers: int = 100, per_address: int = 100) -> Admission:
    return Admission(Limits(connections=connections, newcomers=newcomers, connections_per_address=per_address))


def arrive(admission: Admission, count: int, address: str = LOCAL, *, settle: bool = False) -> list[Connection]:
    connections = [Connection() for _ in range(count)]
    for connection in connections:
        assert admission.admit(connection, address) == ""
        if settle:
            admission.settle(connection)
    return connections


def test_the_silent_never_keep_others_out() -> None:
    admission = places(connections=10, newcomers=5)
    settled = arrive(admission, 9, settle=True)
    silent = arrive(admission, 1000)
    assert [one.aborted for one in silent] == [True] * 999 + [False]
    assert not any(one.aborted for one in settled)
    assert (admission.evicted, admission.refused, len(admission.connections)) == (999, 0, 10)


def test_an_address_that_floods_gives_way_itself() -> None:
    admission = places(newcomers=8)
    (honest,) = arrive(admission, 1, "192.0.2.1:1")
    flood = arrive(admission, 500, FAR)
    assert not honest.aborted
    assert sum(one.aborted for one in flood) == 500 - 7


def test_all_places_are_settled() -> None:
    admission = places(connections=2, newcomers=2)
    first, _ = arrive(admission, 2, settle=True)
    late = [Connection() for _ in range(3)]
    assert {admission.admit(one, LOCAL) for one in late} == {"2 connections are open, which is the limit"}
    assert [one.aborted for one in late] == [True, False, False]
    assert (admission.newcomers, len(admission.connections), admission.refused) == (2, 2, 3)
    admission.release(first)
    for one in late:
        admission.release(one)
    assert admission.newcomers == 0
    arrive(admission, 1)


def test_one_address_does_not_take_all_places() -> None:
    admission = places(per_address=2)
    first, _ = arrive(admission, 2, FAR, settle=True)
    assert admission.admit(Connection(), FAR) == "2 connections from this address are open, which is the limit"
    arrive(admission, 1, "198.51.100.8:1")
    arrive(admission, 5, LOCAL)
    admission.release(first)
    arrive(admission, 1, FAR)


def test_nothing_is_kept_of_who_has_gone() -> None:
    admission = places(newcomers=2)
    each = arrive(admission, 5, FAR)
    for one in each:
        admission.release(one)
        admission.release(one)
    assert not admission.connections
    assert not admission.places
    assert not admission.places._of
    assert not admission._connections_of


def test_links_of_this_hub_are_no_newcomers() -> None:
    admission = places(connections=1, newcomers=1)
    arrive(admission, 1, settle=True)
    link = Connection()
    admission.enter(link)
    for _ in range(5):
        admission.admit(Connection(), FAR)
    assert link in admission.connections
    assert not link.aborted
    admission.release(link)
    assert len(admission.connections) == 1


# TLS handshakes: nobody keeps others out, nobody has a turn for himself.


class Shaking:
    def __init__(self, address: str = FAR) -> None:
        self.address = address
        self.aborted = 0
        self.late = 0
        self.steps = 0

    def abort(self) -> None:
        self.aborted += 1

    def time_out(self) -> None:
        self.late += 1

    def shake(self) -> None:
        self.steps += 1


def handshakes(limit: int = 8, limit_s: float = 60.0) -> Handshakes:
    return Handshakes(Limits(tls_handshakes=limit, tls_handshake_s=limit_s), asyncio.get_running_loop())


def shaking(places: Handshakes, count: int, address: str = FAR) -> list[Shaking]:
    each = [Shaking(address) for _ in range(count)]
    for one in each:
        places.begin(cast("TlsTransport", one))
    return each


def end(places: Handshakes, each: list[Shaking]) -> None:
    for one in each:
        places.end(cast("TlsTransport", one))
        places.end(cast("TlsTransport", one))


async def test_a_turn_has_a_share_of_steps() -> None:
    places = handshakes(limit=100)
    each = shaking(places, 2 * STEPS_PER_TURN + 3)
    for one in each:
        places.is_due(cast("TlsTransport", one))
    counts = []
    while not each[-1].steps:
        await asyncio.sleep(0)
        counts.append(sum(one.steps for one in each))
        assert [one.steps for one in each] == sorted((one.steps for one in each), reverse=True)
    taken = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(taken) == STEPS_PER_TURN
    assert counts[-1] == len(each)
    end(places, each)


async def test_a_flood_leaves_nothing_in_the_line() -> None:
    places = handshakes(limit=16)
    every: list[Shaking] = []
    for _ in range(50):
        some = shaking(places, 2 * STEPS_PER_TURN)
        every += some
        for one in some:
            places.is_due(cast("TlsTransport", one))
        assert len(places._line) <= 16
        await asyncio.sleep(0)
    assert all(one.steps + one.aborted >= 1 for one in every[:-16])
    end(places, every)
    assert not places._line


# What is done in one turn.


class Stage:
    def __init__(self) -> None:
        self.turns: list[Callable[[], object]] = []
        self.share = ReadBudget(100, self.turns.append)
        self.went_on: list[tuple[str, int]] = []

    def turn(self) -> list[tuple[str, int]]:
        (begin,) = self.turns
        self.turns.clear()
        self.went_on = []
        begin()
        return self.went_on

    def waiting(self, name: str, needs: int) -> Waiting:
        waiting = Waiting(self, name, needs)
        self.share.wait(waiting)
        return waiting


class Waiting:
    def __init__(self, stage: Stage, name: str, needs: int) -> None:
        self.stage, self.name, self.needs = stage, name, needs

    def take_turn(self, events: int) -> None:
        self.stage.went_on.append((self.name, events))
        self.stage.share.spend(min(self.needs, events))
        self.needs -= events
        if self.needs > 0:
            self.stage.share.wait(self)


def test_the_share_is_full_again_in_the_next_turn() -> None:
    stage = Stage()
    stage.share.spend(60)
    stage.share.spend(90)
    assert stage.share.left < 0
    assert stage.turn() == []
    assert stage.share.left == 100
    assert stage.turns == []


def test_who_waits_gets_as_much_as_the_others() -> None:
    stage = Stage()
    for name in "abcd":
        stage.waiting(name, 30)
    assert stage.turn() == [(name, 25) for name in "abcd"]
    assert len(stage.share) == 4
    assert stage.turn() == [(name, 25) for name in "abcd"]
    assert len(stage.share) == 0
    assert stage.share.put_off_total == 8


def test_there_are_more_than_can_go_on_in_one_turn() -> None:
    stage = Stage()
    for number in range(20):
        stage.waiting(f"{number}", 20)
    order = [name for _ in range(4) for name, _ in stage.turn()]
    assert order[:20] == [f"{number}" for number in range(20)]
    assert len(stage.turn()) <= 8
    while stage.turns:
        stage.turn()
    assert len(stage.share) == 0


# The wheel of deadlines, against a naive one that asks everybody.


@dataclass(eq=False)
class FakeConnection:
    again: Callable[[float], float] = lambda _: math.inf
    looks: list[float] = field(default_factory=list)
    due_s: int = -1

    def check(self, now_s: float) -> float:
        self.looks.append(now_s)
        return self.again(now_s)


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
