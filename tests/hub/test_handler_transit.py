"""Handlers of a user who has much in transit: each write asks for room, and what is too large goes by the policy."""

from __future__ import annotations

import pytest

from hub.backlog import WRITE_LIMIT_BYTES
from hub.batch import Batch
from hub.errors import CloseCode
from hub.handler import Handler
from hub.overflow import Overflow
from hub.quotas.quotas import Quotas
from hub.quotas.resource import Resource
from hub.quotas.transit import FREE_BYTES
from tests.hub.fakes import Bench, Shape
from tests.hub.requests.party import reply
from tests.hub.test_handler_requests import Teller, asking_handler, message

MIB = 1024 * 1024
PART = 4 * MIB
LARGE = Shape(((1, False),), padding=FREE_BYTES)
"""One message that is more than what is always free."""


class _Carrier:
    """The connection of a handler."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    def carry(self, free_bytes: int, *, is_tight: bool) -> None:
        """Tell the handler."""
        assert free_bytes == FREE_BYTES
        self.handler.restrain(restrained=is_tight)


def charged(handler: Handler) -> Quotas:
    """Let a handler be somebody's who may have some MiB in transit."""
    quotas = Quotas({Resource.IN_TRANSIT_BYTES: 2 * PART})
    handler.share = quotas.join("alice", frozenset())
    handler.share.transit.enter(_Carrier(handler), 0)
    return quotas


def fill(handler: Handler) -> None:
    """Let other connections of the user hold all there is room for."""
    assert handler.share is not None
    transit = handler.share.transit
    transit.add(transit.room)
    assert transit.is_tight


def test_small_ones_are_written_at_once() -> None:
    """Nobody who reads is stopped by those who do not; each batch is a write of its own then."""
    bench = Bench()
    charged(bench.handler)
    bench.offer(1)
    assert bench.outlet.writes == 0
    fill(bench.handler)
    assert bench.outlet.writes == 1, "what was pending is written as it becomes tight"
    bench.offer(3)
    bench.offer(3)
    assert bench.outlet.writes == 3
    bench.check_end()
    assert bench.outlet.gaps == []


def test_a_message_that_there_is_no_room_for_is_lost_and_told() -> None:
    """At its place; those around it are written."""
    bench = Bench()
    quotas = charged(bench.handler)
    fill(bench.handler)
    bench.offer(2)
    bench.offer(LARGE)
    bench.offer(2)
    assert [item if isinstance(item, int) else item.messages for item in bench.outlet.told] == [2, 1, 2]
    assert bench.outlet.gaps == [1]
    assert bench.drops == 1
    assert quotas.statistics()["in_transit_bytes"].refused_total >= 1
    bench.check_end()


def test_a_batch_is_cut_to_what_there_is_room_for() -> None:
    """All of its messages are written, in several writes that are each no larger than what is free."""
    bench = Bench()
    charged(bench.handler)
    fill(bench.handler)
    bench.offer(Shape(((10, True), (10, True)), padding=FREE_BYTES // 8))
    assert bench.outlet.gaps == []
    assert all(batch.size_bytes <= FREE_BYTES for batch in bench.outlet.batches)
    bench.check_end()


def test_what_waits_is_written_as_there_is_room() -> None:
    """What has waited for an outlet that took nothing is cut, and lost, in the same way as it goes on."""
    bench = Bench()
    charged(bench.handler)
    bench.handler.pause()
    bench.offer(Shape(((20, True),), padding=FREE_BYTES // 8))
    bench.offer(LARGE)
    bench.offer(2)
    fill(bench.handler)
    bench.handler.resume()
    assert bench.outlet.gaps == [1]
    assert all(batch.size_bytes <= FREE_BYTES for batch in bench.outlet.batches)
    bench.check_end()


def test_a_message_larger_than_all_room_asks_though_it_is_not_tight() -> None:
    """One that is larger than a usual write is not written before that is known."""
    bench = Bench()
    charged(bench.handler)
    bench.offer(Shape(((1, False),), padding=MIB))
    assert bench.outlet.writes == 1
    bench.offer(Shape(((1, False),), padding=PART))
    assert bench.outlet.gaps == [1]
    bench.offer(1)
    bench.check_end()


def test_a_policy_to_disconnect_disconnects() -> None:
    """With the code of a full queue, and a text that says what was too much."""
    bench = Bench(overflow=Overflow.DISCONNECT)
    charged(bench.handler)
    fill(bench.handler)
    bench.offer(1)
    bench.offer(LARGE)
    ((code, text),) = bench.outlet.closed
    assert code == CloseCode.OVERFLOW
    assert text.startswith("too much in transit to alice (")
    assert ", 1 messages lost" in text
    assert bench.handler.dropped_messages == 1


def test_as_there_is_room_again_writes_are_those_of_a_turn() -> None:
    """Nothing asks any more."""
    bench = Bench()
    quotas = charged(bench.handler)
    fill(bench.handler)
    assert bench.handler.share is not None
    usage = bench.handler.share[Resource.IN_TRANSIT_BYTES]
    quotas.look()
    bench.offer(1)
    assert bench.outlet.writes == 1
    usage.give_back(usage.held)
    quotas.look()
    bench.offer(1)
    bench.offer(1)
    assert bench.outlet.writes == 1
    bench.flush()
    assert bench.outlet.writes == 2
    bench.check_end()


@pytest.mark.parametrize("is_tight", [False, True])
def test_a_request_that_there_is_no_room_for_is_not_taken(*, is_tight: bool) -> None:
    """Whoever has asked is told so; one that must be told, and a small one, are."""
    handler, outlet = asking_handler()
    charged(handler)
    if is_tight:
        fill(handler)
    assert handler.post(reply(9, 1))
    assert not handler.post(reply(9, bytes(PART)))
    assert handler.post(reply(9, 2))
    handler.flush()
    assert outlet.said == [1, 2]
    handler.offer(message(3))
    assert handler.post(reply(9, bytes(PART)), keep=True)
    handler.flush()
    assert outlet.said == [1, 2, 3]
    assert outlet.writes == 4 if is_tight else 2


def test_items_and_messages_that_become_too_much_together() -> None:
    """What was pending as it became tight waits as if the outlet took nothing: replies go first, all is written."""
    handler, outlet = asking_handler()
    charged(handler)
    assert isinstance(outlet, Teller)
    for number in range(3):
        handler.offer(Batch.of("/t", [bytes(FREE_BYTES // 2), number]))
    assert handler.post(reply(9, -1))
    fill(handler)
    handler.flush()
    assert [value for value in outlet.said if isinstance(value, int)] == [-1, 0, 1, 2]


def test_usual_writes_are_asked_about_nowhere() -> None:
    """Below the size that a turn's write has at most."""
    bench = Bench()
    quotas = charged(bench.handler)
    while bench.pending_messages < WRITE_LIMIT_BYTES // 2048:
        bench.offer(Shape(((1, False),), padding=1024))
    assert quotas.statistics()["in_transit_bytes"].refused_total == 0
    bench.check_end()
