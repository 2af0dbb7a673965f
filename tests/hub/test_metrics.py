"""Totals over handlers that are there and handlers that are gone."""

from __future__ import annotations

from hub.batch import Batch
from hub.delivery import Role
from hub.handler import Handler
from hub.overflow import Overflow
from hub.statistics import CoreStatistics, Counters, RoutingStatistics
from tests.hub.fakes import handler_of

ROUTING = RoutingStatistics(subscriptions=1, routes=2, misses_total=3, clears_total=4, filter_prefixes=5)


def busy(role: Role, overflow: Overflow, published: int) -> Handler:
    handler = handler_of(role=role, overflow=overflow, messages=2)
    handler.published_messages = published
    handler.offer(Batch.of("/a", [0]))
    handler.flush()
    handler.pause()
    handler.offer(Batch.of("/a", [1, 2, 3, 4, 5]))
    return handler


def test_nothing_yet() -> None:
    assert Counters().statistics([], ROUTING) == CoreStatistics(0, 0, 0, ROUTING, 0, 0, 0, {}, 0, 0, 0, 0)


def test_present_handlers_are_summed_up() -> None:
    handlers = [
        busy(Role.CLIENT, Overflow.DROP_OLDEST, 10),
        busy(Role.CLIENT, Overflow.DROP_NEWEST, 20),
        busy(Role.LINK, Overflow.DROP_OLDEST, 40),
        handler_of(role=Role.LOCAL),
    ]
    counters = Counters()
    seen = counters.statistics(handlers, ROUTING)
    assert seen == CoreStatistics(
        clients=2,
        links=1,
        leaves=0,
        routing=ROUTING,
        published_messages_total=70,
        delivered_messages_total=3,
        delivered_bytes_total=3 * Batch.of("/a", [0]).frames_bytes,
        dropped_messages_total={"drop-oldest": 6, "drop-newest": 3},
        unreadable_messages_total=0,
        queued_messages=6,
        queued_bytes=sum(handler.statistics().queued_bytes for handler in handlers),
        paused_handlers=3,
    )
    assert seen.queued_bytes > 0


def test_totals_never_fall() -> None:
    """When a handler leaves, its counts stay; what was queued for it is gone, and does not count as delivered."""
    counters = Counters()
    handlers = [busy(Role.CLIENT, overflow, 10) for overflow in (Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)]
    before = counters.statistics(handlers, ROUTING)
    for handler in handlers:
        handler.shut()
        counters.forget(handler)
    after = counters.statistics([], ROUTING)
    assert after == before._replace(clients=0, queued_messages=0, queued_bytes=0, paused_handlers=0)
    handlers = [busy(Role.CLIENT, Overflow.DROP_OLDEST, 1)]
    again = counters.statistics(handlers, ROUTING)
    assert again.published_messages_total == 21
    assert again.delivered_messages_total == 3
    assert again.dropped_messages_total == {"drop-oldest": 6, "drop-newest": 3}
