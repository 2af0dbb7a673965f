"""Stalled readers: what one loses is exactly what it is told, whatever the policy of its queue."""

from __future__ import annotations

from typing import Any

import pytest

from hub.overflow import Overflow
from peers.bench.plan import Plan
from peers.bench.stage import Stage
from peers.wire.hello import QueueWish
from tests.benchmarks.goals.stalled_readers import Account, stalled_readers
from tests.forked.load import forked_load, load_server

__all__ = ["forked_load", "load_server"]

pytestmark = pytest.mark.slow


def accounts(plan: Plan, count: int, wish: QueueWish, *, apart: bool = False) -> list[Account]:
    """What each got of a stream that lost nothing for the subscriber that reads."""
    with Stage(plan) as stage, stalled_readers(stage, count, wish, apart=apart) as readers:
        assert stage.measure(watch=readers.watched(lambda *_: None)).flawless
        return readers.accounts()


def plan(**fields: Any) -> Plan:
    """A stream that overflows queues of 50 messages."""
    return Plan(**{"messages": 2500, "size": 4000, "warmup": 0} | fields)


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
def test_what_is_lost_is_what_is_told(overflow: Overflow) -> None:
    """More than nothing, once, and in order."""
    for account in accounts(plan(), 2, QueueWish(messages=50, overflow=overflow)):
        assert account.received + account.lost == 2500
        assert account.told == account.lost > 0
        assert account.out_of_order == 0
        assert not account.closed


def test_a_reader_that_is_disconnected() -> None:
    """It reads the reason where the losses would have been told."""
    (account,) = accounts(plan(), 1, QueueWish(messages=50, overflow=Overflow.DISCONNECT))
    assert "queue full (50 messages" in account.closed
    assert account.received + account.lost == 2500


def test_readers_with_topics_of_their_own() -> None:
    """Each accounts for the messages of its topic alone, also of those that were sent before it had come."""
    found = accounts(plan(messages=6000, topics=3, warmup=4), 3, QueueWish(messages=50), apart=True)
    assert [one.received + one.lost for one in found] == [2000] * 3
    assert all(one.lost == one.told > 0 for one in found)
    assert all(one.out_of_order == 0 for one in found)
