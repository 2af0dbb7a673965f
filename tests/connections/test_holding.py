"""What a connection holds beside queues is charged while it is large, and given back."""

from __future__ import annotations

import pytest

from hub.memory import Memory
from hub.quotas.quotas import FREE_BYTES
from hub.quotas.resource import Resource
from hub.quotas.usage import Usage, Whole
from peers.connections.limits import Holding


def test_what_is_small_is_free() -> None:
    account = Memory().account("connections")
    holding = Holding(account)
    assert not holding.begin(FREE_BYTES)
    holding.leave_unwritten(FREE_BYTES)
    assert account.size_bytes == 0


def test_a_frame_is_charged_as_it_grows_until_it_is_complete() -> None:
    account = Memory().account("connections")
    holding = Holding(account)
    assert holding.begin(FREE_BYTES + 1)
    assert holding.begin(1_000_000)
    assert account.size_bytes == 1_000_000
    assert not holding.begin(1_000_000)
    assert not holding.begin(100)
    assert account.size_bytes == 0


def test_both_directions_of_all_connections_are_one_sum() -> None:
    account = Memory().account("connections")
    one, other = Holding(account), Holding(account)
    one.begin(1_000_000)
    one.leave_unwritten(200_000)
    other.leave_unwritten(300_000)
    assert account.size_bytes == 1_500_000
    one.give_back()
    assert account.size_bytes == 300_000
    other.leave_unwritten(0)
    assert account.size_bytes == 0


def test_the_user_pays_from_when_he_is_known() -> None:
    account = Memory().account("connections")
    usage = Usage(Whole(Resource.QUEUED_BYTES, 10_000_000), "alice", 1_000_000, lambda: None)
    holding = Holding(account)
    holding.begin(600_000)
    holding.charge(usage, 10_000)
    assert usage.held == 600_000
    holding.leave_unwritten(700_000)
    assert (usage.held, holding.refusal) == (1_300_000, "")
    holding.leave_unwritten(10_000)
    assert usage.held == 600_000, "what is free is not charged"
    holding.leave_unwritten(300_000)
    holding.begin(700_000)
    assert (usage.held, holding.refusal) == (1_000_000, "")
    assert holding.begin(700_001)
    assert usage.held == account.size_bytes == 1_000_001
    assert holding.refusal.startswith("user alice has 1000000 bytes waiting, 1 more are too many")
    assert holding.refusal.endswith("the limit for this user is 1000000")
    holding.give_back()
    assert usage.held == account.size_bytes == 0


@pytest.mark.parametrize("room_bytes", [0, 1_000_000])
def test_a_frame_that_grows_while_memory_is_over_is_refused(room_bytes: int) -> None:
    resident_bytes = 2_000_000
    memory = Memory(1_000_000, lambda: resident_bytes)
    holding = Holding(memory.account("connections"))
    memory.look()
    resident_bytes -= room_bytes
    refusal = holding.grow(FREE_BYTES + 1, memory)
    assert refusal == ("" if room_bytes else "this hub has no memory left for more: 1000000 bytes are its limit")
    assert not holding.grow(FREE_BYTES + 1, memory)
    assert memory.statistics().refused_total == (not room_bytes)


def test_what_waits_for_its_turn_is_charged_until_all_of_it_was_acted_on() -> None:
    memory = Memory()
    account = memory.account("connections")
    holding = Holding(account)
    assert not holding.grow(200_000, memory, waits=True)
    assert not holding.grow(100_000, memory, waits=True)
    assert account.size_bytes == 200_000
    assert not holding.grow(100_000, memory)
    assert account.size_bytes == 100_000


@pytest.mark.parametrize("rest_bytes", [0, 250_000])
def test_a_user_without_room_is_refused_what_is_incomplete(rest_bytes: int) -> None:
    memory = Memory()
    usage = Usage(Whole(Resource.QUEUED_BYTES, 400_000), "alice", 240_000, lambda: None)
    holding = Holding(memory.account("connections"))
    holding.charge(usage, FREE_BYTES)
    assert not holding.grow(300_000, memory, waits=True)
    assert usage.held == 300_000
    assert holding.grow(rest_bytes, memory).startswith("user alice has") is bool(rest_bytes)
    assert not holding.grow(rest_bytes, memory)
    assert usage.held == rest_bytes


def test_without_memory_a_read_that_waits_is_refused_too() -> None:
    memory = Memory(1_000_000, lambda: 2_000_000)
    holding = Holding(memory.account("connections"))
    assert not holding.grow(FREE_BYTES, memory, waits=True)
    assert "no memory left" in holding.grow(FREE_BYTES + 1, memory, waits=True)
