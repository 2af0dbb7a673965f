"""What waits for a handler: the order in which it goes, what the policy does with it, and what it is charged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch
from hub.memory import Memory
from hub.overflow import Overflow, QueueLimits
from hub.waiting import Waiting, WaitingMemory
from tests.hub.fakes import ROOMY, Shape, numbers_of, shapes
from tests.hub.requests.party import reply


def waiting_of(messages: int = 10, overflow: Overflow = Overflow.DROP_OLDEST) -> tuple[Waiting, Memory]:
    memory = Memory()
    limits = QueueLimits(messages=messages, bytes=ROOMY.bytes, overflow=overflow)
    return Waiting(limits, WaitingMemory.of(memory)), memory


def numbered(count: int, first: int = 0) -> Batch:
    return Shape(((count, True),)).batch(first)


def test_requests_go_first_then_gaps_and_messages_in_their_order() -> None:
    waiting, memory = waiting_of(messages=3)
    assert not waiting
    assert (waiting.take_items(1), waiting.take_gap(), waiting.take_batches(1)) == ([], 0, [])
    assert waiting.hold(numbered(2))
    assert waiting.post(reply(7, -1), keep=False)
    assert not waiting.hold(numbered(2, first=2))
    assert (waiting.messages, waiting.lost_messages) == (3, 1)
    assert waiting.size_bytes > waiting.messages_bytes > 0
    assert memory.charged_bytes == waiting.size_bytes
    assert [item.first for item in waiting.take_items(1 << 20)] == [7]
    assert waiting.take_gap() == 1
    assert numbers_of(waiting.take_batches(1 << 20)) == [1, 2, 3]
    assert not waiting
    assert memory.charged_bytes == 0


def test_a_gap_alone_is_still_to_be_told() -> None:
    waiting, _ = waiting_of(messages=1)
    waiting.hold(numbered(1))
    waiting.drop(1)
    assert waiting
    assert waiting.messages == 0
    assert waiting.take_gap() == 1
    assert not waiting


@pytest.mark.parametrize(
    ("overflow", "left"),
    [(Overflow.DROP_OLDEST, [2, 3, 4]), (Overflow.DROP_NEWEST, [0, 1, 2]), (Overflow.DISCONNECT, [0, 1])],
)
def test_what_does_not_fit(overflow: Overflow, left: list[int]) -> None:
    """The policy says what goes; where that is the connection, nothing changes until somebody ends it."""
    waiting, _ = waiting_of(messages=3, overflow=overflow)
    assert waiting.hold(numbered(2))
    assert not waiting.hold(numbered(3, first=2))
    waiting.take_gap()
    assert numbers_of(waiting.take_batches(1 << 20)) == left


@pytest.mark.parametrize(("overflow", "left"), [(Overflow.DROP_OLDEST, [2, 3]), (Overflow.DROP_NEWEST, [0, 1])])
def test_too_little_memory(overflow: Overflow, left: list[int]) -> None:
    """The policy says which end is cut; requests stay. Where no messages wait, nothing is dropped."""
    waiting, memory = waiting_of(overflow=overflow)
    waiting.post(reply(7, -1), keep=False)
    before = memory.charged_bytes
    waiting.drop(1)
    assert memory.charged_bytes == before
    waiting.hold(numbered(2))
    waiting.hold(numbered(2, first=2))
    waiting.drop(1)
    assert len(waiting.take_items(1 << 20)) == 1
    waiting.take_gap()
    assert numbers_of(waiting.take_batches(1 << 20)) == left


@given(
    st.sampled_from((Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)),
    st.lists(st.one_of(shapes, st.booleans()), max_size=12),
)
def test_all_that_is_charged_is_given_back(overflow: Overflow, comes: list[Shape | bool]) -> None:
    waiting, memory = waiting_of(messages=6, overflow=overflow)
    first = 0
    for one in comes:
        if isinstance(one, Shape):
            waiting.hold(one.batch(first))
            first += one.messages
        else:
            waiting.post(reply(first, "x"), keep=one)
        assert memory.charged_bytes == waiting.size_bytes
        assert waiting.messages + waiting.lost_messages == first
    waiting.clear()
    assert (waiting.messages, waiting.size_bytes, memory.charged_bytes) == (0, 0, 0)
