"""Metrics of messages: what was taken, written and lost, and the handlers that it goes to.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hub.metrics import CoreStatistics
from hub.overflow import Overflow
from peers.node.metrics.family import counter, gauge

__all__ = ["handler_metrics", "message_metrics"]


def handler_metrics(statistics: CoreStatistics, handlers: int) -> Iterator[Metric]:
    """Yield the data sinks, those of this process among them, and what waits for them."""
    by_role = GaugeMetricFamily("hub_handlers", "Data sinks of the core.", labels=("role",))
    counts = {"client": statistics.clients, "link": statistics.links, "leaf": statistics.leaves}
    counts["local"] = handlers - sum(counts.values())
    for role, count in counts.items():
        by_role.add_metric((role,), count)
    yield by_role
    yield gauge("hub_handlers_paused", "Handlers whose transport takes no bytes now.", statistics.paused_handlers)
    yield gauge("hub_queued_messages", "Messages that wait for slow handlers.", statistics.queued_messages)
    yield gauge("hub_queued_bytes", "Memory that waits for slow handlers.", statistics.queued_bytes)


def message_metrics(statistics: CoreStatistics, rejected: int, left_out: int) -> Iterator[Metric]:
    """Yield what was taken, written and lost."""
    dropped = statistics.dropped_messages_total
    yield counter("hub_messages_published", "Messages taken.", statistics.published_messages_total)
    yield counter(
        "hub_messages_delivered",
        "Messages written, once for each handler.",
        statistics.delivered_messages_total,
    )
    yield counter("hub_messages_left_out", "Messages that clients did not want, as they want a sample.", left_out)
    yield counter("hub_messages_rejected", "Messages refused: bad topic, not allowed.", rejected)
    lost = CounterMetricFamily("hub_messages_dropped", "Messages lost, by overflow policy.", labels=("overflow",))
    for policy in Overflow:
        lost.add_metric((policy.value,), dropped.get(policy.value, 0))
    yield lost
    yield counter("hub_messages_unreadable", "Of the lost, those without a form.", statistics.unreadable_messages_total)
    yield counter("hub_delivered_bytes", "Bytes handed to transports.", statistics.delivered_bytes_total)
