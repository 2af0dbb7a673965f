"""Metrics of requests and their answers, and of service names.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from hub.names.names import NamesStatistics
from hub.requests.counters import RequestStatistics
from peers.node.metrics.family import counter, gauge

__all__ = ["name_metrics", "request_metrics"]


def request_metrics(statistics: RequestStatistics, limit: int) -> Iterator[Metric]:
    """Yield what was asked, and what became of it."""
    yield gauge("hub_services", "Prefixes that are served, here or at peer hubs.", statistics.services)
    yield gauge("hub_requests_pending", "Requests without an answer yet.", statistics.pending)
    yield gauge("hub_requests_limit", "How many requests may be pending.", limit)
    yield counter("hub_requests", "Requests taken.", statistics.asked_total)
    answered = CounterMetricFamily("hub_requests_answered", "Answers, by status.", labels=("status",))
    for status, total in statistics.answered_total.items():
        answered.add_metric((status,), total)
    yield answered
    yield counter("hub_requests_abandoned", "Requests whose requester left.", statistics.abandoned_total)
    yield counter("hub_requests_refused", "Requests and replies that nobody may send.", statistics.refused_total)
    yield counter("hub_requests_duplicate", "Requests whose id was pending.", statistics.duplicate_total)
    yield counter("hub_replies_late", "Replies that came too late.", statistics.late_total)
    yield counter("hub_replies_unasked", "Replies that nobody asked for.", statistics.unasked_total)


def name_metrics(statistics: NamesStatistics) -> Iterator[Metric]:
    """Yield the service names, and the claims to them."""
    yield gauge("hub_names", "Service names, those of peer hubs among them.", statistics.names)
    yield gauge("hub_names_announced", "Names that peer hubs announce.", statistics.far)
    yield gauge("hub_names_waiting", "Claims that wait for a name.", statistics.waiting)
    yield counter("hub_names_appeared", "Times that a name got an owner, or other labels.", statistics.appeared_total)
    yield counter("hub_name_claims_refused", "Claims refused: owned, too many, no name.", statistics.refused_total)
    yield counter("hub_names_lost", "Owners here that a peer's claim came before.", statistics.lost_total)
    yield counter("hub_names_unheard", "Announced names not taken: bad, or too many.", statistics.unheard_total)
