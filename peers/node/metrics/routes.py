"""Metrics of what is wanted, and of topics: subscriptions, rules, the routes that follow from them, what is counted.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from hub.core import Core
from hub.metrics import RoutingStatistics
from peers.node.metrics.family import counter, gauge

__all__ = ["route_metrics"]


def route_metrics(core: Core, routing: RoutingStatistics) -> Iterator[Metric]:
    """Yield what is wanted, what is remembered of it, and what was refused as one wanted too much."""
    refused = CounterMetricFamily("hub_refused_for_limits", "Refused, as their handler has too many.", labels=("what",))
    for what, total in core.refused_for_limits().items():
        refused.add_metric((what,), total)
    yield refused
    yield gauge("hub_subscriptions", "Pairs of prefix and handler.", routing.subscriptions)
    yield gauge("hub_filter_prefixes", "Prefixes that peers are told.", routing.filter_prefixes)
    yield gauge("hub_rules", "Pairs of rule and handler.", routing.rules)
    yield gauge("hub_routes", "Routing keys remembered.", routing.routes)
    yield gauge("hub_routes_tagged", "Routing keys remembered that have labels or names.", routing.tagged)
    yield gauge("hub_routes_bytes", "Memory that routing keys take.", routing.size_bytes)
    yield gauge("hub_routes_bytes_limit", "Memory that they may take.", core.routes.limit_bytes)
    yield gauge("hub_routes_limit", "How many routing keys may be remembered.", core.routes.limit)
    yield counter("hub_route_misses", "Lookups that had to search.", routing.misses_total)
    yield counter("hub_route_clears", "Times that the route cache was emptied.", routing.clears_total)
    census = core.census
    yield gauge("hub_topics_counted", "Topics of which rates are known.", len(census.busiest))
    yield gauge("hub_topics_counted_limit", "Of how many they may be.", census.busiest.places if census.is_on else 0)
    yield counter("hub_topics_forgotten", "Topics that gave way to others.", census.busiest.forgotten_total)
    yield gauge("hub_topics_looked_at_one_in", "One of so many messages is looked at for that.", census.every)
