"""Metrics of named consumers: how far each has come, and what became of its messages. A snapshot is turned into text.

Owner: nobody. Cost: about 20 µs a consumer, when they are asked for. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from peers.journal.consumers.statistics import ConsumersStatistics, FarConsumersStatistics, ForHubsStatistics

__all__ = ["consumer_metrics", "far_consumer_metrics"]

_LABELS = ("consumer",)


def consumer_metrics(statistics: ConsumersStatistics) -> Iterator[Metric]:
    """Yield the metrics of all consumers."""
    yield GaugeMetricFamily("hub_consumers", "Named consumers.", value=len(statistics.each))
    yield GaugeMetricFamily("hub_consumers_limit", "How many there may be.", value=statistics.limit)
    failures = statistics.save_failures_total
    yield CounterMetricFamily("hub_consumers_save_failures", "Times that positions were not written.", value=failures)
    forgotten = statistics.forgotten_total
    yield CounterMetricFamily("hub_consumers_forgotten", "Queries that were not heard of any more.", value=forgotten)
    members = GaugeMetricFamily("hub_consumer_members", "Clients that share it.", labels=_LABELS)
    lag = GaugeMetricFamily("hub_consumer_lag", "Records behind its position.", labels=_LABELS)
    out = GaugeMetricFamily("hub_consumer_out_messages", "What members have.", labels=_LABELS)
    for one in statistics.each:
        members.add_metric((one.name,), one.members)
        lag.add_metric((one.name,), one.lag)
        out.add_metric((one.name,), one.out)
    yield from (members, lag, out)
    counted = CounterMetricFamily(
        "hub_consumer_messages", "Messages of a consumer, by what was done.", labels=("consumer", "outcome")
    )
    for one in statistics.each:
        for outcome, messages in one.counters._asdict().items():
            counted.add_metric((one.name, outcome.removesuffix("_total")), messages)
    yield counted
    yield from _for_hubs(statistics.for_hubs)


def _for_hubs(statistics: ForHubsStatistics) -> Iterator[Metric]:
    yield GaugeMetricFamily("hub_consumers_far_clients", "Clients of other hubs that share.", value=statistics.clients)
    yield GaugeMetricFamily("hub_consumers_answering", "Questions of other hubs.", value=statistics.answering)
    limit = statistics.answering_limit
    yield GaugeMetricFamily("hub_consumers_answering_limit", "How many of them may wait.", value=limit)
    answered = statistics.answered_total
    yield CounterMetricFamily("hub_consumers_answered", "Questions of other hubs.", value=answered)
    yield CounterMetricFamily("hub_consumers_refused", "Questions refused.", value=statistics.refused_total)


def far_consumer_metrics(statistics: FarConsumersStatistics) -> Iterator[Metric]:
    """Yield the metrics of what is asked of another hub's consumers."""
    yield GaugeMetricFamily("hub_far_consumers_clients", "Clients that share one there.", value=statistics.clients)
    yield GaugeMetricFamily("hub_far_consumers_pending", "Questions that wait.", value=statistics.pending)
    yield GaugeMetricFamily("hub_far_consumers_untold", "Who has left, and is not known to.", value=statistics.untold)
    yield CounterMetricFamily("hub_far_consumers_asked", "Questions.", value=statistics.asked_total)
    yield CounterMetricFamily("hub_far_consumers_lost", "Questions without an answer.", value=statistics.lost_total)
