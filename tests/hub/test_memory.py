"""The budget of memory: when it is looked at, what goes first, and what is refused then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core import _level
from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import RemoteHub, Role
from hub.handlers.handler import Handler
from hub.labels.rules import Rule
from hub.limits import Overflow
from hub.messages.batch import Batch
from hub.names.claim import Announced, Wish
from hub.scheduling.memory import HeldBatches, Memory
from tests.hub.fakes import FakeOutlet, Turn, at_once

LIMIT_BYTES = 1 << 20


class Machine:
    def __init__(self) -> None:
        self.beside_bytes = 0
        self.looks = 0
        self.memory = Memory(LIMIT_BYTES, self._resident)
        self.turn = Turn(memory=self.memory)
        self.source, _ = self.turn.join(role=Role.LOCAL)

    def _resident(self) -> int:
        self.looks += 1
        return self.memory.charged_bytes + self.beside_bytes

    def stalled(self, *prefixes: str, overflow: Overflow = Overflow.DROP_OLDEST) -> tuple[Handler, FakeOutlet]:
        handler, outlet = self.turn.join(*prefixes, overflow=overflow)
        handler.pause()
        return handler, outlet

    def publish(self, topic: str, size_bytes: int) -> None:
        self.turn.read(self.source, [(topic, "x" * size_bytes)])

    def fill(self) -> None:
        self.beside_bytes = LIMIT_BYTES + 1
        self.memory.look()


def test_the_largest_queues_drop_first_and_each_by_its_policy() -> None:
    """Those below the level that is left keep all; every loss is told and counted as if the queue had been full."""
    machine = Machine()
    oldest, told = machine.stalled("/a", "/all")
    newest, told_newest = machine.stalled("/b", "/all", overflow=Overflow.DROP_NEWEST)
    strict, closed = machine.stalled("/c", "/all", overflow=Overflow.DISCONNECT)
    small, _ = machine.stalled("/d")
    for number in range(120):
        machine.publish("/abc"[0] + "abc"[number % 3], 10_000)
        if not number % 30:
            machine.publish("/d", 100)
    assert machine.memory.charged_bytes <= LIMIT_BYTES
    statistics = machine.memory.statistics()
    assert (statistics.reliefs_total > 0, statistics.is_over) == (True, False)
    assert closed.closed[0][0] == CloseCode.OVERFLOW
    assert "too little memory" in closed.closed[0][1]
    assert strict.closed
    assert small.dropped_messages == 0
    for handler, outlet in ((oldest, told), (newest, told_newest)):
        assert handler.dropped_messages > 0
        handler.resume()
        machine.turn.core.flush()
        assert sum(outlet.gaps) == handler.dropped_messages
    assert machine.turn.core.statistics().dropped_messages_total["drop-oldest"] == oldest.dropped_messages


def test_what_waits_in_many_queues_is_charged_once() -> None:
    machine = Machine()
    readers = [machine.stalled("/")[0] for _ in range(50)]
    before = machine.memory.charged_bytes
    machine.publish("/a", 10_000)
    assert 10_000 < machine.memory.charged_bytes - before < 12_000
    assert machine.memory.statistics().charged_bytes["queues"] < 11_000
    for handler in readers:
        machine.turn.core.detach(handler, "gone")
    assert machine.memory.statistics().charged_bytes["queues"] == 0
    assert machine.memory.statistics().charged_bytes["subscriptions"] == 0


def test_where_nothing_can_be_dropped_new_state_is_refused() -> None:
    """With 1013: prefixes, rules, services, names. What is there goes on, and what is in this process, too."""
    machine = Machine()
    core = machine.turn.core
    client, outlet = machine.turn.join("/kept")
    machine.fill()
    for attempt in (
        lambda: core.subscribe(client, ["/a"]),
        lambda: core.subscribe_rules(client, [Rule(("a",))]),
        lambda: at_once(core.requests.serving(client, ["/a"])),
        lambda: core.names.claim(client, Wish("a.b"), 1),
        lambda: core.names.hear(RemoteHub(b"2" * 16), [Announced("a.b", (), 1, 1)], []),
    ):
        with pytest.raises(RejectedError, match="no memory left") as refused:
            attempt()
        assert refused.value.code == CloseCode.TRY_AGAIN_LATER
    assert machine.memory.statistics().refused_total == 5
    core.subscribe(machine.source, ["/local"])
    machine.publish("/kept", 10)
    assert outlet.values == ["x" * 10]
    machine.beside_bytes = 0
    machine.memory.look()
    core.subscribe(client, ["/a"])


@pytest.mark.parametrize("what", ["routes", "topics"])
def test_what_is_forgotten_before_messages_are(what: str) -> None:
    machine = Machine()
    core = machine.turn.core
    stalled, _ = machine.stalled("/slow")
    machine.publish("/slow", 1000)
    for number in range(500):
        machine.publish(f"/{number}", 1)
    for _ in range(300):  # topics are sampled: few messages may all be missed
        machine.publish("/busy", 1)
    if what == "topics":
        core.routes.clear()
    counted = core.topic_rates.size_bytes
    assert (counted if what == "topics" else core.routes.size_bytes) > LIMIT_BYTES // 16
    machine.beside_bytes = LIMIT_BYTES - machine.memory.charged_bytes + 1000
    machine.memory.look()
    assert (core.routes.size_bytes, stalled.dropped_messages, machine.memory.is_over) == (0, 0, False)
    assert "/busy" in {topic.name for topic in core.topic_rates}
    if what == "topics":
        assert core.topic_rates.size_bytes < counted - LIMIT_BYTES // 16
        assert core.memory.statistics().relieved_bytes_total == counted - core.topic_rates.size_bytes


def test_it_is_looked_at_more_often_the_less_room_there_is() -> None:
    turn, looked_at = Machine().turn, list[int]()
    memory, woken = turn.core.memory, turn.wakes
    account = memory.account("test")
    memory.look()
    for _ in range(LIMIT_BYTES // 1000):
        account.charge(1000)
        if memory.is_due:
            assert turn.wakes - woken == len(looked_at) + 1, "what is due is asked for once"
            turn.core.flush()
            assert not memory.is_due
            looked_at.append(account.size_bytes)
    assert len(looked_at) < 40
    assert looked_at[0] == pytest.approx(LIMIT_BYTES // 2, rel=0.01)
    assert looked_at[-1] > LIMIT_BYTES * 31 / 32


def test_what_relief_has_freed_is_not_freed_again_while_malloc_keeps_it() -> None:
    """Until as much is charged as before; once it went back to the kernel, what is resident counts."""
    resident = LIMIT_BYTES + 1
    memory = Memory(LIMIT_BYTES, lambda: resident)
    account = memory.account("test")
    wanted: list[int] = []

    def relieve(size_bytes: int) -> int:
        wanted.append(size_bytes)
        account.charge(-size_bytes)
        return size_bytes

    memory.attach(relieve, lambda: None)
    account.charge(LIMIT_BYTES // 2)
    memory.look()
    memory.look()
    assert (len(wanted), memory.is_over) == (1, False)
    account.charge(wanted[0])
    memory.look()
    assert len(wanted) == 2
    memory.gave_back()
    memory.look()
    assert len(wanted) == 3


def test_a_program_around_the_hub_may_hold_as_much_as_it_likes() -> None:
    memory = Memory(LIMIT_BYTES, lambda: LIMIT_BYTES * 2)
    memory.look()
    assert memory.is_over
    memory.count_only_charged()
    memory.look()
    assert not memory.is_over
    memory.account("test").charge(LIMIT_BYTES + 1)
    memory.look()
    assert memory.is_over


@given(st.lists(st.integers(0, 100)), st.integers(-10, 2000))
def test_the_level_to_which_queues_are_cut(sizes: list[int], surplus: int) -> None:
    sizes.sort(reverse=True)
    level = _level(sizes, surplus)
    cut = sum(max(0, size - level) for size in sizes)
    assert cut >= min(surplus, sum(sizes))
    assert level == 0 or cut < surplus + len(sizes) or surplus <= 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20))
def test_a_batch_in_the_place_of_another_one(exchanges: list[tuple[int, int]]) -> None:
    batches = [Batch.of("/a", [*range(count)]) for count in (1, 5, 9)]
    exchanged, apart = (HeldBatches(Memory().account("queues")) for _ in range(2))
    for held in (exchanged, apart):
        held.hold(batches[0])
        held.hold(batches[0])
        held.hold(batches[1])
    for gone, new in exchanges:
        if batches[gone] in apart._holders:
            exchanged.exchange(batches[gone], batches[new])
            apart.let_go(batches[gone])
            apart.hold(batches[new])
        assert (exchanged._holders, exchanged._account.size_bytes) == (apart._holders, apart._account.size_bytes)
