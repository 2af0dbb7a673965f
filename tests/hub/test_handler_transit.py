"""Handlers of a user who may hold little more: small writes go on, and what is too large goes by the policy."""

from __future__ import annotations

from hub.batch import Batch
from hub.errors import CloseCode
from hub.handler import Handler
from hub.overflow import Overflow
from hub.quotas.quotas import FREE_BYTES, Quotas
from hub.quotas.resource import Resource
from tests.hub.fakes import Bench, Shape
from tests.hub.requests.party import reply
from tests.hub.test_handler_requests import asking_handler, message

PART = 4 * 1024 * 1024
LARGE = Shape(((1, False),), padding=FREE_BYTES)  # One message that is more than what is always free


def charged(handler: Handler) -> Quotas:
    quotas = Quotas({Resource.QUEUED_BYTES: 2 * PART})
    handler.share = quotas.join("alice", frozenset())
    return quotas


def fill(handler: Handler) -> None:
    assert handler.share is not None
    usage = handler.share[Resource.QUEUED_BYTES]
    usage.add(usage.room)


def test_a_message_that_there_is_no_room_for_is_lost_and_told() -> None:
    bench = Bench()
    quotas = charged(bench.handler)
    fill(bench.handler)
    for shape in (2, LARGE, 2):
        bench.offer(shape)
        bench.flush()
    assert [item if isinstance(item, int) else item.messages for item in bench.outlet.told] == [2, 1, 2]
    assert bench.outlet.gaps == [1]
    assert bench.drops == 1
    assert quotas.statistics()["queued_bytes"].refused_total >= 1
    bench.check_end()


def test_with_room_large_ones_are_written_at_once() -> None:
    bench = Bench()
    charged(bench.handler)
    bench.offer(LARGE)
    bench.flush()
    assert bench.outlet.writes == 1
    bench.offer(Shape(((1, False),), padding=PART))
    bench.flush()
    assert bench.outlet.gaps == [1]
    bench.offer(1)
    bench.check_end()


def test_what_has_waited_is_charged_already() -> None:
    bench = Bench()
    charged(bench.handler)
    bench.handler.pause()
    bench.offer(LARGE)
    bench.offer(2)
    fill(bench.handler)
    bench.handler.resume()
    assert bench.outlet.gaps == []
    bench.check_end()


def test_a_policy_to_disconnect_disconnects() -> None:
    bench = Bench(overflow=Overflow.DISCONNECT)
    charged(bench.handler)
    fill(bench.handler)
    bench.offer(1)
    bench.offer(LARGE)
    bench.flush()
    ((code, text),) = bench.outlet.closed
    assert code == CloseCode.OVERFLOW
    assert text.startswith("queues of alice full (")


def test_a_request_that_there_is_no_room_for_is_not_taken() -> None:
    handler, outlet = asking_handler()
    charged(handler)
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


def test_what_is_free_shrinks_with_the_connections_of_a_user() -> None:
    quotas = Quotas({Resource.QUEUED_BYTES: 2 * PART, Resource.CONNECTIONS: 1 << 20})
    free = [quotas.join("alice", frozenset()).free_bytes() for _ in range(1000)]
    assert (free[0], free[-1]) == (FREE_BYTES, 1024)
    assert sum(free) < PART


def test_messages_and_items_in_a_turn() -> None:
    handler, outlet = asking_handler()
    charged(handler)
    for number in range(3):
        handler.offer(Batch.of("/t", [bytes(FREE_BYTES // 2), number]))
    assert handler.post(reply(9, -1))
    handler.flush()
    assert sorted(value for value in outlet.said if isinstance(value, int)) == [-1, 0, 1, 2]
