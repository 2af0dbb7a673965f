"""What a connection holds beside queues is charged while it is large, and given back."""

from __future__ import annotations

from hub.memory import Memory
from peers.connections.holding import FREE_BYTES, Holding


def test_what_is_small_is_free() -> None:
    """So that those who send and read small messages cost no addition."""
    account = Memory().account("connections")
    holding = Holding(account)
    assert not holding.begin(FREE_BYTES)
    holding.leave_unwritten(FREE_BYTES)
    assert account.size_bytes == 0


def test_a_frame_is_charged_as_it_grows_until_it_is_complete() -> None:
    """Only growth is told: whoever sends nothing more is left alone."""
    account = Memory().account("connections")
    holding = Holding(account)
    assert holding.begin(FREE_BYTES + 1)
    assert holding.begin(1_000_000)
    assert account.size_bytes == 1_000_000
    assert not holding.begin(1_000_000)
    assert not holding.begin(100)
    assert account.size_bytes == 0


def test_both_directions_of_all_connections_are_one_sum() -> None:
    """And each gives back what is its own."""
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
